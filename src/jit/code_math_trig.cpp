// sin and cos of f32, right for every argument: x * 2 / pi modulo 4 is found in f64 with 2 / pi cut into
// pieces of 28 bits, so that a product with the 24 bits of x is exact and its multiples of 4 are dropped
// exactly. Pieces whose products are multiples of 4 altogether are left out: four windows of the argument's
// exponent start at pieces 0, 1, 2, 3.
#include <array>

#include "jit/code_math.h"

namespace reprise::jit::code {
namespace {

constexpr std::array<double, 5> piece{0x1.45f306cp-1, 0x1.c9c882ap-29, 0x1.4fe13a8p-59, 0x1.f47d4dp-86,
                                      0x1.bb81b6cp-113};
// the next 53 bits after pieces w and w + 1
constexpr std::array<double, 4> rest{0x1.4fe13abe8fa9ap-59, 0x1.f47d4d377036ep-86, 0x1.bb81b6c52b328p-113,
                                     0x1.4acc9e21c821p-143};

struct reduction_of {
  val r;         // f32, |r| <= pi / 4
  val quadrant;  // i32, low bits count
};

val without_fours(val p) { return fma(rint(mul(p, number(p, 0.25))), number(p, -4), p); }

reduction_of reduce(val magnitude) {
  val const x = convert(magnitude, dtype::f64);
  val const far = le(number(magnitude, 0x1p53), magnitude),
            farther = le(number(magnitude, 0x1p81), magnitude),
            farthest = le(number(magnitude, 0x1p109), magnitude);
  auto const pick = [&](double a, double b, double c, double d) {
    return select(farthest, number(x, d),
                  select(farther, number(x, c), select(far, number(x, b), number(x, a))));
  };
  val const first = without_fours(mul(x, pick(piece[0], piece[1], piece[2], piece[3])));
  val const second = without_fours(mul(x, pick(piece[1], piece[2], piece[3], piece[4])));
  val const third = mul(x, pick(rest[0], rest[1], rest[2], rest[3]));
  val const k = rint(add(add(first, second), third));
  val const turns =
      add(add(sub(first, k), second), third);  // of a quarter; the first two sums are exact where they cancel
  val const r = convert(mul(turns, number(turns, 0x1.921fb54442d18p0)), dtype::f32);
  return {r, bitcast(add(convert(k, dtype::f32), number(r, 0x1.8p23)), dtype::i32)};
}

// sin of a whole turn's quarter `quadrant` and r more, as the bits of an f32.
val sine(val r, val quadrant) {
  val const s = mul(r, r);
  val const odd = fma(mul(r, s), polynomial(s, {-0x1.9954p-13, 0x1.110778p-7, -0x1.555546p-3}), r);
  val const even = polynomial(s, {0x1.99e910p-16, -0x1.6c0c2ap-10, 0x1.55554ap-5, -0.5, 1});
  val const one = integer(quadrant, 1);
  val const value = select(eq(band(quadrant, one), zero(quadrant)), odd, even);
  val const sign = shl(band(quadrant, integer(quadrant, 2)), integer(quadrant, 30));
  return bxor(bitcast(value, dtype::i32), sign);
}

}  // namespace

val sin(val x) {
  if (x.type() == dtype::f64) return call(libm::sin, x);
  auto const [r, quadrant] = reduce(abs(x));
  return bitcast(bxor(sine(r, quadrant), sign_bit(x)), dtype::f32);
}

val cos(val x) {
  if (x.type() == dtype::f64) return call(libm::cos, x);
  auto const [r, quadrant] = reduce(abs(x));
  return bitcast(sine(r, add(quadrant, integer(quadrant, 1))), dtype::f32);
}

}  // namespace reprise::jit::code
