// The elementary functions that kernels compute, against the true value in f64, within the ulps of their
// rows: a sample of arguments spread over all bit patterns, and those where functions go wrong.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "jit/code_ops.h"
#include "math_support.h"

namespace reprise::jit {
namespace {

constexpr std::size_t lanes = 1024;
constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> difficult() {
  std::vector<float> all{0.0f,
                         0x1p-149f,
                         0x1.8p-148f,
                         0x1p-127f,
                         0x1.fffffep-127f,
                         0x1p-126f,
                         0x1p-25f,
                         0x1p-24f,
                         0.5f,
                         1.0f,
                         2.0f,
                         3.0f,
                         4.0f,
                         10.0f,
                         10.9f,
                         14.75f,
                         16.6355f,
                         17.0f,
                         30.0f,
                         87.3365f,
                         88.0f,
                         88.72283f,
                         88.72284f,
                         88.8f,
                         89.0f,
                         90.0f,
                         103.97f,
                         103.98f,
                         104.0f,
                         105.0f,
                         106.0f,
                         1e5f,
                         0x1p23f,
                         0x1p24f,
                         0x1p53f,
                         0x1p81f,
                         0x1p109f,
                         0x1.fffffep127f,
                         inf,
                         nan};
  for (double turn = 1.5707963267948966; turn < 1e30; turn *= 7) all.push_back(static_cast<float>(turn));
  // the f32 nearest to a multiple of pi / 2, and others of the worst
  for (float x :
       {0x1.d0b1p+103f, 16367173.0f * 0x1p72f, 6381956970095103.0f * 0x1p2f, 0x1.27c4acp+0f, 0x1.5ae4dp+39f})
    all.push_back(x);
  std::size_t const n = all.size();
  for (std::size_t i = 0; i < n; ++i) {
    all.push_back(std::nextafterf(all[i], inf));
    all.push_back(std::nextafterf(all[i], -inf));
  }
  for (std::size_t i = all.size(); i-- > 0;) all.push_back(-all[i]);
  return all;
}

class Math : public testing::TestWithParam<function> {};
INSTANTIATE_TEST_SUITE_P(Functions, Math, testing::ValuesIn(functions()),
                         [](auto const& i) { return std::string(i.param.name); });

TEST_P(Math, WithinItsUlps) {
  function const& f = GetParam();
  code::body b;
  code::val const x = b.append({.code = kop::load, .type = dtype::f32});
  value_id const result = f.make(x).id;
  lanes_of run(b.take(), lanes);
  std::vector<float> arguments = difficult();
  std::uint32_t const step = 8209;  // odd: all low bits occur
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += step)
    arguments.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  arguments.resize((arguments.size() + lanes - 1) / lanes * lanes, 1.0f);
  double worst = 0;
  for (std::size_t i = 0; i < arguments.size(); i += lanes) {
    auto const* got = static_cast<float const*>(run.run(result, {&arguments[i]}));
    for (std::size_t l = 0; l < lanes; ++l) {
      double const exact = f.exact(static_cast<double>(arguments[i + l])), off = ulps(got[l], exact);
      worst = std::max(worst, off);
      ASSERT_LE(off, f.ulps) << f.name << "(" << arguments[i + l] << ") = " << got[l] << ", not " << exact;
    }
  }
  RecordProperty("ulps", std::to_string(worst));
}

float f32_of(float x, float y) {
  code::body b;
  code::val const p = code::pow(b.append({.code = kop::load, .type = dtype::f32}),
                                b.append({.code = kop::load, .type = dtype::f32, .slot = 1}));
  return *static_cast<float const*>(lanes_of(b.take(), 1).run(p.id, {&x, &y}));
}
float f32_with_constant(float x, float y) {
  code::body b;
  code::val const a = b.append({.code = kop::load, .type = dtype::f32}),
                  p = code::pow(a, code::number(a, static_cast<double>(y)));
  return *static_cast<float const*>(lanes_of(b.take(), 1).run(p.id, {&x}));
}
bool same_bits(float a, float b) {
  return (a != a && b != b) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

TEST(Pow, SpecialValuesAreThoseOfC) {
  float const special[] = {0.0f,     -0.0f,       1.0f,         -1.0f,     0.5f,       -0.5f,    2.0f,
                           -2.0f,    3.0f,        -3.0f,        4.0f,      0.25f,      1.5f,     -1.5f,
                           inf,      -inf,        nan,          0x1p-149f, -0x1p-149f, 0x1p127f, 0x1p24f,
                           -0x1p24f, 16777215.0f, -16777215.0f, 1e-30f,    -1e-30f,    1e30f};
  for (float x : special)
    for (float y : special) {
      double const exact = std::pow(static_cast<double>(x), static_cast<double>(y));
      float const got = f32_of(x, y);
      EXPECT_LE(ulps(got, exact), 2) << x << " to the power " << y << " is " << got;
      EXPECT_TRUE(same_bits(got, f32_with_constant(x, y))) << x << " to the power " << y;
    }
}

TEST(Pow, WithinTwoUlps) {
  code::body b;
  code::val const x = b.append({.code = kop::load, .type = dtype::f32}),
                  y = b.append({.code = kop::load, .type = dtype::f32, .slot = 1});
  value_id const result = code::pow(x, y).id;
  lanes_of run(b.take(), lanes);
  std::mt19937 random(7);
  std::vector<float> xs(lanes), ys(lanes);
  for (int round = 0; round < 400; ++round) {
    for (std::size_t l = 0; l < lanes; ++l) {
      xs[l] = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (round % 2)
        xs[l] =
            1 + std::ldexp(static_cast<float>(random() % 4096) - 2048, -12 - static_cast<int>(random() % 12));
      double const reach = 160 / std::max(1e-9, std::fabs(std::log2(std::fabs(static_cast<double>(xs[l])))));
      ys[l] = static_cast<float>(reach * (static_cast<double>(random()) / 2147483648.0 - 1));
      if (round % 3 == 0) ys[l] = std::rint(ys[l]);
    }
    auto const* got = static_cast<float const*>(run.run(result, {xs.data(), ys.data()}));
    for (std::size_t l = 0; l < lanes; ++l)
      ASSERT_LE(ulps(got[l], std::pow(static_cast<double>(xs[l]), static_cast<double>(ys[l]))), 2)
          << xs[l] << " to the power " << ys[l] << " is " << got[l];
  }
}

template <class T>
T integer_power(T x, T y) {
  code::body b;
  code::val const p = code::pow(b.append({.code = kop::load, .type = dtype_v<T>}),
                                b.append({.code = kop::load, .type = dtype_v<T>, .slot = 1}));
  return *static_cast<T const*>(lanes_of(b.take(), 1).run(p.id, {&x, &y}));
}

template <class T>
void check_integer_powers(std::vector<T> const& values) {
  for (T x : values)
    for (T y : values) {
      std::uint64_t product = 1;
      bool const negative = std::is_signed_v<T> && y < 0;
      for (T n = y; n > 0 && n <= 40; --n) product *= static_cast<std::uint64_t>(x);
      T want = static_cast<T>(product);
      if (negative) want = x == 1 ? T{1} : x == static_cast<T>(-1) ? (y % 2 == 0 ? T{1} : x) : T{0};
      else if (y > 40) continue;
      EXPECT_EQ(integer_power(x, y), want) << +x << " to the power " << +y;
      code::body b;  // the same with the exponent known
      code::val const a = b.append({.code = kop::load, .type = dtype_v<T>}),
                      p = code::pow(a, code::integer(a, y));
      EXPECT_EQ(*static_cast<T const*>(lanes_of(b.take(), 1).run(p.id, {&x})), want);
    }
}

TEST(Pow, IntegersWrapAndTruncate) {
  check_integer_powers<std::uint8_t>({0, 1, 2, 3, 7, 8, 9, 31, 255});
  check_integer_powers<std::int32_t>({0, 1, -1, 2, -2, 3, 10, 31, 32, 33, -3, INT32_MAX, INT32_MIN});
  check_integer_powers<std::int64_t>({0, 1, -1, 2, -2, 3, 10, 31, 32, 33, -3, INT64_MAX, INT64_MIN});
  EXPECT_EQ(integer_power<std::int64_t>(3, INT64_C(1) << 40), -7860764868738023423);  // 3^(2^40) mod 2^64
}

TEST(Math, FloatingRemaindersAreNumPys) {
  struct row {
    double a, b, mod, quotient;
  };
  double const dinf = std::numeric_limits<double>::infinity(),
               dnan = std::numeric_limits<double>::quiet_NaN();
  for (row r :
       {row{7, 3, 1, 2}, row{-7, 3, 2, -3}, row{7, -3, -2, -3}, row{-7, -3, -1, 2}, row{6, -3, -0.0, -2},
        row{-6, 3, 0.0, -2}, row{1, dinf, 1, 0}, row{-1, dinf, dinf, -1}, row{1, 0, dnan, dinf},
        row{-1, 0, dnan, -dinf}, row{0, 0, dnan, dnan}, row{dinf, 2, dnan, dnan}, row{0.0, -2, -0.0, -0.0}}) {
    code::body b;
    code::val const x = b.append({.code = kop::load, .type = dtype::f64}),
                    y = b.append({.code = kop::load, .type = dtype::f64, .slot = 1});
    value_id const mod = code::mod(x, y).id, quotient = code::floor_divide(x, y).id;
    lanes_of run(b.take(), 1);
    double const m = *static_cast<double const*>(run.run(mod, {&r.a, &r.b}));
    double const q = *static_cast<double const*>(run.run(quotient, {&r.a, &r.b}));
    EXPECT_TRUE(std::isnan(m) ? std::isnan(r.mod) : m == r.mod && std::signbit(m) == std::signbit(r.mod))
        << r.a << " mod " << r.b << " " << m;
    EXPECT_TRUE(std::isnan(q) ? std::isnan(r.quotient)
                              : q == r.quotient && std::signbit(q) == std::signbit(r.quotient))
        << r.a << " // " << r.b << " " << q;
  }
}

TEST(Math, HalvesRoundTheF32ResultOnce) {
  code::body b;
  code::val const x = b.append({.code = kop::load, .type = dtype::f16}), y = code::expand(ir::op::exp, x);
  EXPECT_EQ(y.type(), dtype::f16);
  value_id const r = y.id;
  lanes_of run(b.take(), 1);
  for (std::uint32_t bits = 0; bits < 0x10000; bits += 7) {
    float16 const a = float16::from_bits(static_cast<std::uint16_t>(bits));
    float16 const got = *static_cast<float16 const*>(run.run(r, {&a}));
    float const want =
        static_cast<float>(float16(static_cast<float>(std::exp(static_cast<double>(static_cast<float>(a))))));
    float const value = static_cast<float>(got);
    EXPECT_TRUE(same_bits(value, want) || std::fabs(value - want) <= std::fabs(want) * 0x1p-10f)
        << static_cast<float>(a);
  }
}

TEST(Math, F64GeluKeepsItsTail) {
  code::body b;
  value_id const r = code::gelu(b.append({.code = kop::load, .type = dtype::f64})).id;
  lanes_of run(b.take(), 1);
  // from a computation with 40 digits
  for (auto [x, want] : {std::pair{-1.0, -0.15865525393145705}, std::pair{-8.0, -4.9767684594174273e-15},
                         std::pair{-20.0, -5.507248237212467e-88}, std::pair{-30.0, -1.4720141781444561e-196},
                         std::pair{3.0, 2.9959503059051097}}) {
    double const got = *static_cast<double const*>(run.run(r, {&x}));
    EXPECT_NEAR(got, want, std::fabs(want) * 4e-15) << x;
  }
  // where the result is a denormal, or erfc is
  for (auto [x, want] :
       {std::pair{-36.9, -8.525835335408878e-297}, std::pair{-37.55, -2.6451480848844025e-307},
        std::pair{-37.7, -9.36273961974653e-310}, std::pair{-38.2, -5.378646e-318},
        std::pair{-38.4, -2.535e-321}, std::pair{-39.0, 0.0}}) {
    double const got = *static_cast<double const*>(run.run(r, {&x}));
    EXPECT_NEAR(got, want, std::max(std::fabs(want) * 8e-16, 1e-323)) << x;
  }
}

TEST(Math, F64GeluTanhKeepsItsTail) {
  code::body b;
  value_id const r = code::gelu_tanh(b.append({.code = kop::load, .type = dtype::f64})).id;
  lanes_of run(b.take(), 1);
  // from a computation with 90 digits
  for (auto [x, want] : {std::pair{-1.0, -0.1588080093917233}, std::pair{-3.7, -0.00027180602139205363},
                         std::pair{-8.0, -3.1077829375011112e-21}, std::pair{-15.3, -3.906386269708258e-121},
                         std::pair{-20.6, -1.3715466053953854e-284}, std::pair{3.0, 2.996362607918227}}) {
    double const got = *static_cast<double const*>(run.run(r, {&x}));
    EXPECT_NEAR(got, want, std::fabs(want) * 1e-15) << x;
  }
  for (double x : {-64.5, -1e200, 1e200}) {
    double const got = *static_cast<double const*>(run.run(r, {&x}));
    EXPECT_EQ(got, x < 0 ? 0 : x);
    EXPECT_EQ(std::signbit(got), x < 0);
  }
}

}  // namespace
}  // namespace reprise::jit
