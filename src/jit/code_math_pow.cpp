// pow: of f32 by a logarithm and an exponential in f64, which leave the rounding to f32 as the only error
// that counts; of integers by squaring, once for each bit of the exponent. The exponents that people write
// (2, 3, -1, 1/2) are exact operations or a product, and the same ones whether the exponent is known while
// the kernel is made or not.
#include <cmath>

#include "jit/code_math.h"

namespace reprise::jit::code {
namespace {

// log2 of a positive f64 that is a finite f32; absolute error below 2^-43
val log2_f64(val x) {
  val const i = bitcast(x, dtype::i64);
  // x = m * 2^k, m in [sqrt(1/2), sqrt(2))
  val const k = ashr(sub(i, bits(i, 0x3fe6a09e667f3bcd)), integer(i, 52));
  val const m = bitcast(sub(i, shl(k, integer(i, 52))), dtype::f64), one = number(x, 1);
  val const z = div(sub(m, one), add(m, one)), s = mul(z, z);
  val const p = polynomial(s, {0x1.21b2dbef7b15ep-2, 0x1.4795346a96d7ep-2, 0x1.a61a2f8f57cbcp-2,
                               0x1.2776c2926a7c1p-1, 0x1.ec709dc53cc41p-1, 0x1.71547652b8252p+1});
  return fma(z, p, convert(k, dtype::f64));
}

// 2^y for |y| <= 300; relative error below 2^-29
val exp2_f64(val y) {
  val const magic = number(y, 0x1.8p52), t = add(y, magic), r = sub(y, sub(t, magic));
  val const p =
      polynomial(r, {0x1.41d2fad18ec6fp-13, 0x1.5f4597a7ef579p-10, 0x1.3b2dbc83c257ep-7, 0x1.c6aed46063500p-5,
                     0x1.ebfbdadaea57fp-3, 0x1.62e430c82a398p-1, 0x1.00000002625fbp+0});
  val const n = bitcast(t, dtype::i64), scale = shl(add(n, integer(n, 1023)), integer(n, 52));
  return mul(p, bitcast(scale, dtype::f64));
}

// for every y but 0
val general(val x, val y) {
  val const magnitude = abs(x), wide = convert(magnitude, dtype::f64), exponent = convert(y, dtype::f64);
  val const finite = select(lt(magnitude, number(x, INFINITY)), log2_f64(wide), wide);
  val const logarithm = select(eq(x, zero(x)), number(wide, -INFINITY), finite);
  // 1 to any power is 1
  val const product = select(eq(magnitude, number(x, 1)), zero(wide), mul(logarithm, exponent));
  val const power =
      convert(exp2_f64(at_least(number(wide, -300), at_most(number(wide, 300), product))), dtype::f32);
  val const half = mul(y, number(y, 0.5)), fraction = ne(trunc(y), y);
  val const odd = band(bnot(fraction), ne(trunc(half), half));
  val const signed_power =
      bitcast(bor(bitcast(power, dtype::i32), select(odd, sign_bit(x), zero(sign_bit(x)))), dtype::f32);
  val const no_root = band(band(lt(x, zero(x)), lt(number(x, -INFINITY), x)), fraction);
  return select(no_root, number(x, NAN), signed_power);
}

// x to one of the exponents that people write.
struct special {
  double exponent;
  val (*value)(val x);
};
constexpr special specials[] = {
    {0, [](val x) { return number(x, 1); }},
    {1, [](val x) { return x; }},
    {2, [](val x) { return mul(x, x); }},
    {3, [](val x) { return mul(mul(x, x), x); }},
    {-1, [](val x) { return div(number(x, 1), x); }},
    // sqrt(-inf) is nan and sqrt(-0) is -0; pow gives inf and 0
    {0.5,
     [](val x) { return select(eq(x, number(x, -INFINITY)), number(x, INFINITY), sqrt(add(x, zero(x)))); }},
};

val pow_f32(val x, val y) {
  instruction const exponent = y.in->at(y.id);
  if (exponent.code == kop::const_) {
    for (auto const& s : specials)
      if (std::bit_cast<float>(static_cast<std::uint32_t>(exponent.bits)) == static_cast<float>(s.exponent))
        return s.value(x);
    return general(x, y);
  }
  val r = general(x, y);
  for (auto const& s : specials) r = select(eq(y, number(y, s.exponent)), s.value(x), r);
  return r;
}

val pow_integer(val x, val y) {
  int const width = 8 * size_of(y.type());
  bool const can_be_negative = y.type() != dtype::u8;
  val const one = integer(x, 1);
  val r = one, base = x;
  for (int i = 0; i < width - can_be_negative; ++i) {
    val const bit = bits(y, std::uint64_t{1} << i);
    r = select(ne(band(y, bit), zero(y)), mul(r, base), r);
    if (y.in->at(y.id).code == kop::const_ && (y.in->at(y.id).bits >> i) <= 1) break;
    base = mul(base, base);
  }
  if (!can_be_negative) return r;
  // 1 / x**n truncated: 1 for 1, 1 or -1 for -1, else 0
  val const minus_one = integer(x, -1), even = eq(band(y, integer(y, 1)), zero(y));
  val const inverse =
      select(eq(x, one), one, select(eq(x, minus_one), select(even, one, minus_one), zero(x)));
  return select(lt(y, zero(y)), inverse, r);
}

}  // namespace

val pow(val x, val y) {
  if (x.type() == dtype::f32) return pow_f32(x, y);
  if (x.type() == dtype::f64) return call(libm::pow, x, y);
  return pow_integer(x, y);
}

}  // namespace reprise::jit::code
