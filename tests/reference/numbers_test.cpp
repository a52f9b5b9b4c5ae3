// The corners of docs/numbers.md in single values, and what the interpreter promises as a whole: refusals,
// wide evaluation, and the comparison that other tests lean on.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/build.h"
#include "support/compare.h"

namespace reprise::test {
namespace {

constexpr std::int32_t low32 = std::numeric_limits<std::int32_t>::min(),
                       high32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t low64 = std::numeric_limits<std::int64_t>::min();
float const inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST(integers, wrap_and_never_trap) {
  EXPECT_EQ(num::add(high32, 1), low32);
  EXPECT_EQ(num::mul(low32, -1), low32);
  EXPECT_EQ(num::neg(low64), low64);
  EXPECT_EQ(num::abs(low32), low32);
  EXPECT_EQ(num::mul<std::uint8_t>(200, 200), 64);
  EXPECT_EQ(num::sub<std::uint8_t>(0, 1), 255);
  for (std::int32_t a : {low32, -7, 0, 7, high32}) {
    EXPECT_EQ(num::div(a, 0), 0);
    EXPECT_EQ(num::floor_divide(a, 0), 0);
    EXPECT_EQ(num::mod(a, 0), 0);
    EXPECT_EQ(num::fmod(a, 0), 0);
  }
  EXPECT_EQ(num::div(low64, std::int64_t{-1}), low64);
  EXPECT_EQ(num::floor_divide(low32, -1), low32);
  EXPECT_EQ(num::mod(low32, -1), 0);
  EXPECT_EQ(num::fmod(low32, -1), 0);
}

TEST(integers, divide_toward_zero_or_minus_infinity) {
  EXPECT_EQ(num::div(-7, 2), -3);
  EXPECT_EQ(num::floor_divide(-7, 2), -4);
  EXPECT_EQ(num::floor_divide(7, -2), -4);
  EXPECT_EQ(num::floor_divide(-7, -2), 3);
  EXPECT_EQ(num::floor_divide(-8, 2), -4);
  EXPECT_EQ(num::mod(-7, 2), 1);
  EXPECT_EQ(num::mod(7, -2), -1);
  EXPECT_EQ(num::fmod(-7, 2), -1);
  EXPECT_EQ(num::mod<std::uint8_t>(7, 200), 7);
}

TEST(integers, shift_everything_out) {
  EXPECT_EQ(num::left_shift(1, 31), low32);
  EXPECT_EQ(num::left_shift(1, 32), 0);
  EXPECT_EQ(num::left_shift(1, -1), 0);
  EXPECT_EQ(num::right_shift(-5, 1), -3);
  EXPECT_EQ(num::right_shift(-5, 32), -1);
  EXPECT_EQ(num::right_shift(-5, -1), -1);
  EXPECT_EQ(num::right_shift(5, 40), 0);
  EXPECT_EQ(num::left_shift<std::uint8_t>(255, 7), 128);
  EXPECT_EQ(num::right_shift<std::uint8_t>(255, 8), 0);
}

TEST(integers, have_powers) {
  EXPECT_EQ(num::pow(3, 4), 81);
  EXPECT_EQ(num::pow(0, 0), 1);
  EXPECT_EQ(num::pow(2, 33), 0);
  EXPECT_EQ(num::pow(2, -1), 0);
  EXPECT_EQ(num::pow(0, -1), 0);
  EXPECT_EQ(num::pow(1, -5), 1);
  EXPECT_EQ(num::pow(-1, -5), -1);
  EXPECT_EQ(num::pow(-1, -4), 1);
  EXPECT_EQ(num::pow(-1, low32), 1);
  EXPECT_EQ(num::pow(low32, low32), 0);
  EXPECT_EQ(num::pow<std::uint8_t>(3, 255), static_cast<std::uint8_t>(0xab));
}

TEST(floating, remainders_take_their_signs) {
  EXPECT_TRUE(same(num::mod(-7.0f, 2.0f), 1));
  EXPECT_TRUE(same(num::mod(7.0f, -2.0f), -1));
  EXPECT_TRUE(same(num::mod(-4.0f, 2.0f), 0.0f));
  EXPECT_TRUE(same(num::mod(4.0f, -2.0f), -0.0f));
  EXPECT_TRUE(same(num::mod(1.0f, 0.0f), nan));
  EXPECT_TRUE(same(num::mod(-1.0f, inf), inf));
  EXPECT_TRUE(same(num::fmod(-4.0f, 2.0f), -0.0f));
  EXPECT_TRUE(same(num::floor_divide(-7.0f, 2.0f), -4));
  EXPECT_TRUE(same(num::floor_divide(1.0f, 0.0f), inf));
  EXPECT_TRUE(same(num::floor_divide(-1.0f, 0.0f), -inf));
  EXPECT_TRUE(same(num::floor_divide(0.0f, -3.0f), -0.0f));
  EXPECT_TRUE(same(num::floor_divide(1.0f, 0.1f), 9));
  EXPECT_TRUE(same(num::floor_divide(-1.0f, inf), -1));
  EXPECT_TRUE(same(num::floor_divide(1.0f, -inf), -1));
  EXPECT_TRUE(same(num::floor_divide(1.0f, inf), 0));
  EXPECT_TRUE(same(num::floor_divide(inf, 2.0f), nan));
  EXPECT_TRUE(same(num::floor_divide(nan, 1.0f), nan));
}

TEST(floating, extremes_keep_nan_and_order_zeros) {
  EXPECT_TRUE(same(num::minimum(0.0f, -0.0f), -0.0f) && same(num::minimum(-0.0f, 0.0f), -0.0f));
  EXPECT_TRUE(same(num::maximum(0.0f, -0.0f), 0.0f) && same(num::maximum(-0.0f, 0.0f), 0.0f));
  EXPECT_TRUE(same(num::maximum(nan, 1.0f), nan) && same(num::minimum(1.0f, nan), nan));
  EXPECT_TRUE(same(num::sign(-0.0f), 0.0f) && same(num::sign(nan), nan) && same(num::sign(-inf), -1));
}

TEST(casts, saturate_truncate_wrap_and_round) {
  EXPECT_EQ(num::convert<std::int32_t>(-2.9f), -2);
  EXPECT_EQ(num::convert<std::int32_t>(3e9f), high32);
  EXPECT_EQ(num::convert<std::int32_t>(-inf), low32);
  EXPECT_EQ(num::convert<std::int32_t>(nan), 0);
  EXPECT_EQ(num::convert<std::int32_t>(2147483647.5), high32);
  EXPECT_EQ(num::convert<std::int64_t>(9.3e18), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(num::convert<std::uint8_t>(-1.5f), 0);
  EXPECT_EQ(num::convert<std::uint8_t>(255.9f), 255);
  EXPECT_EQ(num::convert<std::uint8_t>(256.0f), 255);
  EXPECT_EQ(num::convert<std::uint8_t>(float16(inf)), 255);
  EXPECT_EQ(num::convert<std::uint8_t>(std::int32_t{-1}), 255);
  EXPECT_EQ(num::convert<std::int32_t>(std::int64_t{0x180000000}), low32);
  EXPECT_EQ(num::convert<float>(std::int64_t{16777217}), 16777216.0f);
  EXPECT_TRUE(num::convert<bool>(nan));
  EXPECT_TRUE(num::convert<bool>(0.1f));
  EXPECT_FALSE(num::convert<bool>(-0.0));
  // f64 to f16 goes through f32: 1 + 2^-11 + 2^-40 becomes the tie 1 + 2^-11, and then 1
  EXPECT_EQ(static_cast<float>(num::convert<float16>(1 + 0x1p-11 + 0x1p-40)), 1.0f);
  EXPECT_EQ(num::convert<float16>(65520.0f).bits, 0x7c00);
  EXPECT_EQ(num::convert<float16>(65519.0f).bits, 0x7bff);
}

TEST(elementary, is_right_at_the_ends) {
  EXPECT_TRUE(same(num::sigmoid(-inf), 0) && same(num::sigmoid(inf), 1) && num::sigmoid(-0.0f) == 0.5f);
  EXPECT_TRUE(same(num::gelu(inf), inf) && same(num::gelu_tanh(inf), inf) && same(num::gelu(-0.0f), -0.0f));
  EXPECT_TRUE(std::isnan(num::gelu(-inf)) && std::isnan(num::gelu_tanh(-inf)));
  EXPECT_NEAR(num::gelu(-10.0), -7.6198530241605e-23, 1e-34);  // nothing cancels
  EXPECT_NEAR(num::gelu_tanh(-3.0), -0.0036373920817729943, 1e-16);
}

TEST(interpreter, evaluates_elementary_rows_one_precision_up) {
  for (float x : {0.1f, 1.0f, 5.5f, -30.0f, 88.7f}) {
    host_tensor const in = make_scalar(x);
    EXPECT_EQ(run_reference(one_node(op::exp, {{in.type}}), {{in}})[0].get<float>(0),
              static_cast<float>(std::exp(double{x})));
  }
}

TEST(interpreter, rounds_halves_after_each_operation) {
  program p;
  builder b(p);
  node_id const x = b.parameter({dtype::f16, {}}), tiny = b.constant(dtype::f16, 0x1p-11);
  node_id const once = b.add(op::add, {x, tiny}), twice = b.add(op::add, {once, tiny});
  finish(p, {&twice, 1});
  EXPECT_EQ(static_cast<float>(run_reference(p, {{make_scalar(float16(1.0f))}})[0].get<float16>(0)), 1.0f);
  EXPECT_EQ(run_reference_wide(p, {{make_scalar(float16(1.0f))}})[0].get<double>(0), 1 + 0x1p-10);
  EXPECT_EQ(run_reference_all(p, {{make_scalar(float16(1.0f))}}).size(), p.nodes.size());
}

TEST(interpreter, takes_any_byte_for_a_boolean) {
  host_tensor t = make_tensor(tensor_type{dtype::boolean, {3}});
  t.bytes = {std::byte{2}, std::byte{0}, std::byte{255}};
  host_tensor const got =
      run_reference(one_node(op::reshape, {{t.type}}, attribute_words().list({3, 1})), {{t}})[0];
  EXPECT_EQ(got.bytes, (std::vector<std::byte>{std::byte{1}, std::byte{0}, std::byte{1}}));
}

TEST(interpreter, refuses_parameters_of_another_type) {
  program const p = one_node(op::neg, {{{dtype::f32, {3}}}});
  EXPECT_THROW(run_reference(p, {}), argument_error);
  EXPECT_THROW(run_reference(p, {{make_tensor(tensor_type{dtype::f64, {3}})}}), argument_error);
  EXPECT_THROW(run_reference(p, {{make_tensor(tensor_type{dtype::f32, {4}})}}), argument_error);
  EXPECT_THROW(run_reference(p, {{host_tensor{{dtype::f32, {3}}, {}}}}), argument_error);
}

TEST(interpreter, refuses_regions) {
  std::vector<op> regions;
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc)
#define SELECT(id, doc)
#define CAST(id, attributes, doc)
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc)
#define ARG_REDUCTION(id, better, doc)
#define MOVEMENT(id, arity, attributes, doc)
#define SOURCE(id, arity, attributes, doc)
#define LIBRARY(id, arity, attributes, doc)
#define REGION(id, attributes, doc) regions.push_back(op::id);
#include <reprise/ops.def>
#undef ELEMENTWISE
#undef SELECT
#undef CAST
#undef REDUCTION
#undef ARG_REDUCTION
#undef MOVEMENT
#undef SOURCE
#undef LIBRARY
#undef REGION
  ASSERT_FALSE(regions.empty());
  for (op code : regions) {
    program p;
    p.nodes.emplace_back().code = code;
    EXPECT_THROW(run_reference(p, {}), unsupported_error) << ir::info(code).name;
  }
}

TEST(comparison, tells_what_differs) {
  host_tensor const a = make_tensor(reprise::shape{2, 2}, std::vector<float>{1, 0.0f, nan, 4});
  host_tensor b = a;
  b.set_bits(2, 0xffc01234);  // another nan
  EXPECT_EQ(difference(a, b), "");
  b.set<float>(1, -0.0f);
  EXPECT_EQ(difference(a, b, {.ulps = 5}),
            "float32(2, 2): 1 of 4 elements differ, first at (0, 1): got 0 (0x00000000), want -0 "
            "(0x80000000), 0 ulps (5 allowed)");
  b = a;
  b.set<float>(3, std::nextafter(4.0f, 5.0f));
  EXPECT_NE(difference(a, b), "");
  EXPECT_EQ(difference(a, b, {.ulps = 1}), "");
  host_tensor bound = make_tensor(tensor_type{dtype::f64, {2, 2}});
  EXPECT_NE(difference(a, b, {.bound = &bound}), "");
  bound.set<double>(3, 1e-6);
  EXPECT_EQ(difference(a, b, {.bound = &bound}), "");
  b.set<float>(3, nan);
  EXPECT_NE(difference(a, b, {.bound = &bound}), "");
  EXPECT_NE(difference(a, make_tensor(tensor_type{dtype::f32, {4}})), "");
}

}  // namespace
}  // namespace reprise::test
