// exp and its family, logarithms and the error function of f32, by fused multiply-adds without a branch.
// Coefficients were fitted for least largest error and rounded one by one; what each function is off by was
// found by trying all 2^32 arguments.
//
// Selects are written `bound < x ? bound : x`, which keeps a nan and is one instruction on x86. The magic
// number 1.5 * 2^23 makes an addition round to a whole number that then lies in the low bits; adding a bias
// too puts an exponent there.
#include "jit/code_math.h"

#include <cmath>

namespace reprise::jit::code {

val polynomial(val x, std::initializer_list<double> highest_first) {
  auto c = highest_first.begin();
  val r = number(x, *c++);
  for (; c != highest_first.end(); ++c) r = fma(r, x, number(x, *c));
  return r;
}

val at_most(val bound, val x) { return select(lt(bound, x), bound, x); }
val at_least(val bound, val x) { return select(lt(x, bound), bound, x); }

val sign_bit(val x) { return band(bitcast(x, dtype::i32), x.in->constant(dtype::i32, 0x80000000u)); }
val with_sign_of(val magnitude, val x) {
  return bitcast(bor(bitcast(magnitude, dtype::i32), sign_bit(x)), dtype::f32);
}

namespace {

constexpr double magic = 0x1.8p23;
constexpr double log2_e = 0x1.715476p0, ln2_high = 0x1.62e43p-1, ln2_low = -0x1.05c61p-29;
constexpr double smallest_normal = 0x1p-126;

val whole(val x, std::int64_t v) { return x.in->constant(dtype::i32, static_cast<std::uint64_t>(v)); }

// x = n ln 2 + r with |r| <= ln(2) / 2, and t whose low bits are n + bias.
struct reduced {
  val t, r;
};
reduced reduce(val x, double bias, val error = {}) {
  val const t = fma(x, number(x, log2_e), number(x, magic + bias)), n = sub(t, number(x, magic + bias));
  val r = fma(n, number(x, -ln2_low),
              error.in ? add(fma(n, number(x, -ln2_high), x), error) : fma(n, number(x, -ln2_high), x));
  return {t, r};
}

// exp(r) - 1 for a reduced r: of small absolute error, or of small relative error.
val small_exp(val r) {
  val const q = polynomial(r, {0x1.6a5c3cp-10, 0x1.123aeap-7, 0x1.5558a4p-5, 0x1.555490p-3, 0x1.fffffcp-2});
  return fma(q, mul(r, r), r);
}
val small_expm1(val r) {
  val const q = polynomial(r, {0x1.6b8d7ep-10, 0x1.1226b8p-7, 0x1.5557p-5, 0x1.5554b2p-3, 0x1.fffffep-2});
  return fma(q, mul(r, r), r);
}

// 2^n from a t of bias 127, for a normal result.
val power(val t) { return bitcast(shl(bitcast(t, dtype::i32), whole(t, 23)), dtype::f32); }

// 2^n as two factors, from a t of bias 254: a product that ends up denormal or infinite is rounded once.
struct powers {
  val first, second;
};
powers two_powers(val t) {
  val const n = bitcast(t, dtype::i32), half = ashr(n, whole(t, 1));
  return {bitcast(shl(half, whole(t, 23)), dtype::f32), bitcast(shl(sub(n, half), whole(t, 23)), dtype::f32)};
}

// a logarithm's polynomial: log(1 + f) for the f it was fitted on.
val small_log(val f, val p) { return fma(mul(f, f), fma(f, p, number(f, -0.5)), f); }

val log_f32(val x) {
  val const tiny = lt(x, number(x, smallest_normal));
  val const i = bitcast(select(tiny, mul(x, number(x, 0x1p23)), x), dtype::i32);
  // x = m * 2^k, m in [2/3, 4/3)
  val const e = band(sub(i, whole(x, 0x3f2aaaab)), whole(x, 0xff800000));
  val const k = fma(convert(e, dtype::f32), number(x, 0x1p-23), select(tiny, number(x, -23), zero(x)));
  val const f = sub(bitcast(sub(i, e), dtype::f32), number(x, 1));
  val const p = polynomial(f, {-0x1.07aa5cp-3, 0x1.1e72a0p-3, -0x1.f33c6ap-4, 0x1.1ed452p-3, -0x1.559c2ep-3,
                               0x1.99d05cp-3, -0x1.fffefap-3, 0x1.555506p-2});
  val const finite = fma(k, number(x, ln2_high), small_log(f, p));
  val const positive = select(lt(x, number(x, INFINITY)), finite, x);
  return select(lt(zero(x), x), positive, select(eq(x, zero(x)), number(x, -INFINITY), number(x, NAN)));
}

val log1p_f32(val x) {
  // 1 + x = (1 + m) * 2^k with m in [-1/4, 1/2): m = x / 2^k + (1 / 2^k - 1), the first by subtracting
  // exponents
  val const u = bitcast(add(x, number(x, 1)), dtype::i32);
  val const e = band(sub(u, whole(x, 0x3f400000)), whole(x, 0xff800000));
  val const scale = bitcast(sub(whole(x, 0x40800000), e), dtype::f32);
  val const m =
      add(bitcast(sub(bitcast(x, dtype::i32), e), dtype::f32), fma(scale, number(x, 0.25), number(x, -1)));
  val const p = polynomial(m, {-0x1.7143a6p-5, 0x1.aca8b2p-4, -0x1.0d95e0p-3, 0x1.288636p-3, -0x1.54eebep-3,
                               0x1.99696ap-3, -0x1.000044p-2, 0x1.5555a4p-2});
  val const k = mul(convert(e, dtype::f32), number(x, 0x1p-23));
  val const finite = fma(k, number(x, ln2_high), small_log(m, p));
  val const positive = select(lt(x, number(x, INFINITY)), select(eq(x, zero(x)), x, finite), x);
  return select(lt(number(x, -1), x), positive,
                select(eq(x, number(x, -1)), number(x, -INFINITY), number(x, NAN)));
}

val exp_f32(val x) {
  auto const [t, r] = reduce(at_least(number(x, -105), at_most(number(x, 90), x)), 254);
  powers const s = two_powers(t);
  return mul(fma(small_exp(r), s.first, s.first), s.second);
}

val expm1_f32(val x) {
  // half of the result, so that 2^128 is not met on the way
  auto const [t, r] = reduce(at_least(number(x, -25), at_most(number(x, 88.875), x)), 126);
  val const half = power(t), e = fma(half, small_expm1(r), sub(half, number(x, 0.5)));
  return select(lt(abs(x), number(x, 0x1p-25)), x, add(e, e));
}

val tanh_f32(val x) {
  // by exp(-2|x|) - 1, which is as far into its binade as the result is: rounding errors do not double
  val const a = at_most(number(x, 10), abs(x));
  auto const [t, r] = reduce(mul(a, number(x, -2)), 127);
  val const s = power(t), one = number(x, 1), e = fma(neg(s), small_expm1(r), sub(one, s));  // 1 - exp(-2a)
  return with_sign_of(div(e, sub(number(x, 2), e)), x);
}

val sigmoid_f32(val x) {
  auto const [t, r] = reduce(neg(at_most(number(x, 105), abs(x))), 254);
  powers const s = two_powers(t);
  val const e = mul(fma(small_exp(r), s.first, s.first), s.second), one = number(x, 1);
  return div(select(lt(x, zero(x)), e, one), add(e, one));
}

val erf_f32(val x) {
  // after N. Juffa: a polynomial below 475/512, above it 1 - exp of one
  val const a = at_most(number(x, 4), abs(x)), s = mul(a, a);
  val low = polynomial(
      s, {-0x1.38e000p-11, 0x1.471a58p-8, -0x1.b691b2p-6, 0x1.ce1c44p-4, -0x1.812700p-2, 0x1.06eba8p-3});
  low = fma(low, a, a);
  val high = fma(fma(a, number(x, -0x1.22p-16), number(x, 0x1.91cfb2p-12)), s,
                 fma(a, number(x, -0x1.fd1438p-9), number(x, 0x1.8d6342p-6)));
  high = fma(high, a, number(x, -0x1.b55cb8p-4));
  high = fma(high, a, number(x, -0x1.450aa0p-1));
  high = fma(high, a, number(x, -0x1.079d0cp-3));
  auto const [t, r] = reduce(fma(high, a, neg(a)), 127);
  val const p = power(t);
  high = sub(number(x, 1), fma(small_exp(r), p, p));
  return with_sign_of(select(lt(number(x, 0x1.db0000p-1), a), high, low), x);
}

// a / 2 * erfc(-a / sqrt(2)). With t = |a|: erfc(t / sqrt(2)) / 2 = exp(-t^2 / 2) * (a rational function of
// t), where the rounding error of t^2 is taken into the exponential; the powers of two come last, so that a
// denormal result is rounded once.
val gelu_f32(val x) {
  val const bound = number(x, 14.75), t = at_most(bound, abs(x)), s = mul(t, t), error = fma(t, t, neg(s));
  auto const [n, r] = reduce(mul(s, number(x, -0.5)), 254, mul(error, number(x, -0.5)));
  val const numerator = polynomial(t, {0x1.0c265p-8, 0x1.4badfep-5, 0x1.7673p-3, 0x1.c0504p-2, 0.5});
  val const denominator =
      polynomial(t, {0x1.501264p-7, 0x1.9fb9acp-4, 0x1.dfa692p-2, 0x1.336ffp0, 0x1.ac6a4ep0, 1});
  val const ratio = div(numerator, denominator);
  powers const p = two_powers(n);
  val const tail = mul(fma(small_exp(r), ratio, ratio), p.first);
  val const below = select(lt(x, neg(bound)), mul(x, zero(x)), mul(mul(tail, x), p.second));
  return select(lt(x, zero(x)), below, mul(x, fma(neg(tail), p.second, number(x, 1))));
}

// x * sigmoid(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3), with 2 u as a sum of two numbers: exp(2 u) is
// large where it matters.
val gelu_tanh_f32(val x) {
  val const bound = number(x, 10.9), a = at_most(bound, abs(x));
  val const linear = number(x, 0x1.988454p0), cubic = number(x, 0x1.2444f2p-4), s = mul(a, a);
  val const factor = fma(s, cubic, linear), u = mul(a, factor);
  val const error = fma(a, number(x, -0x1.857936p-25), fma(a, factor, neg(u)));
  auto const [t, r] = reduce(neg(u), 254, neg(error));
  powers const p = two_powers(t);
  val const e = fma(small_exp(r), p.first, p.first), one = number(x, 1), negative = lt(x, zero(x));
  val const quotient = div(mul(x, select(negative, e, one)), fma(e, p.second, one));
  return select(lt(x, neg(bound)), mul(x, zero(x)), mul(quotient, select(negative, p.second, one)));
}

// f64: the C library's functions, and the same care about what cancels.
val sigmoid_f64(val x) {
  val const e = call(libm::exp, neg(abs(x))), one = number(x, 1);
  return div(select(lt(x, zero(x)), e, one), add(e, one));
}

val gelu_f64(val x) {
  // -x / sqrt(2) = u + d, and erfc(u + d) = erfc(u) - 2 / sqrt(pi) * exp(-u^2) * d
  val const high = number(x, -M_SQRT1_2), u = mul(x, high);
  val const d = fma(x, high, neg(u)), rest = fma(x, number(x, 0x1.bdd3413b26456p-55), d);
  val const slope = mul(call(libm::exp, neg(mul(u, u))), mul(rest, number(x, M_2_SQRTPI)));
  val const y = sub(call(libm::erfc, u), select(lt(abs(x), number(x, 64)), slope, zero(x)));
  return mul(mul(x, number(x, 0.5)), y);
}

val gelu_tanh_f64(val x) {
  val const cubic = mul(mul(x, x), number(x, 0.044715 * 2 * 0.79788456080286535588));
  return mul(x, sigmoid_f64(mul(x, add(cubic, number(x, 2 * 0.79788456080286535588)))));
}

}  // namespace

val rsqrt(val x) { return div(number(x, 1), sqrt(x)); }
val exp(val x) { return x.type() == dtype::f32 ? exp_f32(x) : call(libm::exp, x); }
val expm1(val x) { return x.type() == dtype::f32 ? expm1_f32(x) : call(libm::expm1, x); }
val log(val x) { return x.type() == dtype::f32 ? log_f32(x) : call(libm::log, x); }
val log1p(val x) { return x.type() == dtype::f32 ? log1p_f32(x) : call(libm::log1p, x); }
val tanh(val x) { return x.type() == dtype::f32 ? tanh_f32(x) : call(libm::tanh, x); }
val erf(val x) { return x.type() == dtype::f32 ? erf_f32(x) : call(libm::erf, x); }
val sigmoid(val x) { return x.type() == dtype::f32 ? sigmoid_f32(x) : sigmoid_f64(x); }
val gelu(val x) { return x.type() == dtype::f32 ? gelu_f32(x) : gelu_f64(x); }
val gelu_tanh(val x) { return x.type() == dtype::f32 ? gelu_tanh_f32(x) : gelu_tanh_f64(x); }

}  // namespace reprise::jit::code
