// exp and its family, logarithms and the error function of f32, by fused multiply-adds without a branch.
// Coefficients were fitted for least largest error and rounded one by one; what each function is off by was
// found by trying every argument (one sign where the other follows by construction, and one in sixty where a
// function is constant or its argument).
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
  // x + x^3 p(x^2), from about 0.55 on 1 - 2 / (exp(2|x|) + 1)
  val const a = at_most(number(x, 10), abs(x)), one = number(x, 1), s = mul(a, a);
  val const p = polynomial(s, {-0x1.99a7c4p-8, 0x1.58f6d6p-6, -0x1.b91fe6p-5, 0x1.110cf2p-3, -0x1.55554ap-2});
  val const low = fma(mul(a, s), p, a);
  auto const [t, r] = reduce(add(a, a), 127);
  val const e = power(t), high = sub(one, div(number(x, 2), fma(e, small_exp(r), add(e, one))));
  return with_sign_of(select(lt(number(x, 0.55), a), high, low), x);
}

val sigmoid_f32(val x) {
  // 1 / (1 + exp(-x)), both sides divided by 2^32, so that where exp(-x) is above 2^128 the result is still a
  // denormal number; `lost` is what 1 + 2^n is short of, which counts around n = 24
  auto const [t, r] = reduce(neg(at_least(number(x, -105), at_most(number(x, 30), x))), 127 - 32);
  val const e = power(t), small = number(x, 0x1p-32), sum = add(e, small), lost = sub(small, sub(sum, e));
  return mul(div(number(x, 1), add(sum, fma(e, small_exp(r), lost))), small);
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

// x times the normal distribution function: 1/2 and an odd polynomial where |x| is small, else by the tail
// below -|x|: with t = |x| it is exp(-t^2 / 2) * g / (t + 2), g smooth in 1 / (t + 2). The rounding error of
// t^2 goes into the exponential; powers of two come last, so that a denormal result is rounded once.
val gelu_f32(val x) {
  val const bound = number(x, 14.75), t = at_most(bound, abs(x)), s = mul(t, t), error = fma(t, t, neg(s));
  val const odd =
      polynomial(s, {0x1.9aab3ap-14, -0x1.33f386p-10, 0x1.46ae7ap-7, -0x1.1057aap-4, 0x1.988452p-2});
  val const middle = mul(x, fma(odd, x, number(x, 0.5)));
  // w is off by its rounding and that of t + 2; the tail is by 1.4 times as much (1.2 to 1.6)
  val const one = number(x, 1), two = number(x, 2), u = add(t, two), w = div(one, u);
  val const off = fma(neg(w), sub(t, sub(u, two)), fma(neg(w), u, one));
  auto const [n, r] =
      reduce(mul(s, number(x, -0.5)), 254, fma(off, number(x, 1.4), mul(error, number(x, -0.5))));
  val const g = polynomial(fma(w, number(x, 0x1.b7543cp+2), number(x, -0x1.689a26p+0)),
                           {0x1.b6ec22p-18, -0x1.626506p-15, -0x1.c9ef8ep-20, 0x1.18173ap-11, -0x1.b4ea0ep-11,
                            -0x1.b943dep-8, 0x1.0b37d6p-6, 0x1.7b02d0p-3, 0x1.3a728ep-1});
  val const ratio = mul(w, g);
  powers const p = two_powers(n);
  val const tail = mul(fma(small_exp(r), ratio, ratio), p.first);
  val const below = select(lt(x, neg(bound)), mul(x, zero(x)), mul(mul(tail, x), p.second));
  val const outer = select(lt(x, zero(x)), below, mul(x, fma(neg(tail), p.second, one)));
  return select(lt(number(x, 0.85), t), outer, middle);
}

// x * sigmoid(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3). The exponential is of up to 109, so its argument
// is reduced in f64.
val gelu_tanh_f32(val x) {
  val const bound = number(x, 10.9), a = convert(at_most(bound, abs(x)), dtype::f64), one = number(x, 1);
  constexpr double linear = 1.59576912160573071176, cubic = linear * 0.044715;
  val const u = mul(a, fma(mul(a, a), number(a, -cubic), number(a, -linear)));
  val const shift = number(a, 0x1.8p52), n = sub(fma(u, number(a, M_LOG2E), shift), shift);
  val const r = convert(fma(n, number(a, -M_LN2), u), dtype::f32);
  powers const p = two_powers(add(convert(n, dtype::f32), number(x, magic + 254)));
  val const e = fma(small_exp(r), p.first, p.first), negative = lt(x, zero(x));
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
  val const a = at_most(number(x, 64), abs(x)), half = mul(a, number(x, 0.5)), square = mul(a, half);
  val const near = call(libm::exp, neg(square)), e = fma(near, fma(neg(a), half, square), near);
  val const slope = mul(e, mul(rest, number(x, M_2_SQRTPI)));
  val const y = sub(call(libm::erfc, u), select(lt(abs(x), number(x, 64)), slope, zero(x)));
  val const product = mul(mul(x, number(x, 0.5)), y);
  // Where erfc is a denormal, too coarse to be multiplied: its asymptotic series, in which x has gone.
  val const t = div(number(x, 1), mul(a, a));
  val series = number(x, 10395);
  for (double coefficient : {-945, 105, -15, 3, -1, 1}) series = fma(series, t, number(x, coefficient));
  val const tail = mul(mul(e, series), number(x, -0.3989422804014327));
  return select(band(lt(number(x, -64), x), lt(x, number(x, -37.5))), tail, product);
}

// The exponential's argument, v = 2 u, in two parts: what rounding it loses is what the result is off by,
// times up to 700.
val gelu_tanh_f64(val x) {
  val const a = at_most(number(x, 64), abs(x)), cubic = number(x, 0x1.2444f2a4d8b4bp-4);
  val const linear = number(x, 0x1.9884533d43651p+0);
  val const square = mul(a, a), square_rest = fma(a, a, neg(square));
  val const q = mul(cubic, square);
  val const q_rest =
      add(fma(cubic, square, neg(q)), fma(cubic, square_rest, mul(number(x, -0x1.6c843a29d1c7p-61), square)));
  val const sum = add(q, linear), moved = sub(sum, q);
  val const lost = add(sub(q, sub(sum, moved)), sub(linear, moved));
  val const sum_rest = add(lost, add(q_rest, number(x, -0x1.cbc0d30ebfd15p-54)));
  val const v = mul(a, sum), v_rest = fma(a, sum_rest, fma(a, sum, neg(v)));
  val const near = call(libm::exp, neg(v)), e = fma(near, neg(v_rest), near), one = number(x, 1);
  return div(mul(x, select(lt(x, zero(x)), e, one)), add(e, one));
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
