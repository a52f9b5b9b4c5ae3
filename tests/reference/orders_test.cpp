// The fixed orders of docs/numbers.md, each held against loops written out for one case; and random numbers
// against their published answers.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <limits>

#include "support/build.h"
#include "support/compare.h"

namespace reprise::test {
namespace {

using shape_t = reprise::shape;

std::vector<float> noise(std::size_t n, std::uint64_t seed) {
  random_engine r(seed);
  std::vector<float> v(n);
  for (float& x : v)
    x = static_cast<float>((random_unit(r) - 0.5) *
                           std::pow(10.0, static_cast<double>(random_int(r, -3, 3))));
  return v;
}

host_tensor reduced(op code, host_tensor const& t, std::initializer_list<std::int64_t> axes) {
  return run_reference(one_node(code, {{t.type}}, attribute_words().list(axes)), {{t}})[0];
}

// Adds p[i + h] to p[i] until one is left.
float tree(std::vector<float> p) {
  while (p.size() > 1) {
    std::size_t const h = p.size() / 2 + p.size() % 2;
    for (std::size_t i = 0; i + h < p.size(); ++i) p[i] += p[i + h];
    p.resize(h);
  }
  return p[0];
}

TEST(order, a_sum_over_the_last_axis_goes_by_lanes) {
  std::vector<float> const v = noise(4096 + 4096 + 300, 1);
  std::vector<float> blocks;
  for (std::size_t first : {0u, 4096u, 8192u}) {
    std::vector<float> lane(128, -0.0f);
    for (std::size_t i = first; i < std::min(first + 4096, v.size()); ++i) lane[i % 128] += v[i];
    blocks.push_back(tree(lane));
  }
  float const want = (blocks[0] + blocks[2]) + blocks[1];
  host_tensor const got = reduced(op::sum, make_tensor(shape_t{8492}, v), {0});
  EXPECT_EQ(got.get<float>(0), want);
  // the same elements as two axes, both reduced: the same order
  EXPECT_EQ(reduced(op::sum, make_tensor(shape_t{4, 2123}, v), {0, 1}).get<float>(0), want);
  float in_sequence = 0;
  for (float x : v) in_sequence += x;
  EXPECT_NE(want, in_sequence) << "these values do not tell orders apart";
}

TEST(order, a_sum_over_other_axes_goes_by_runs) {
  std::vector<float> const v = noise(3 * 300, 2);
  host_tensor const got = reduced(op::sum, make_tensor(shape_t{300, 3}, v), {0});
  for (std::size_t column = 0; column < 3; ++column) {
    std::array<float, 3> sums;
    for (std::size_t run = 0; run < 3; ++run) {
      sums[run] = v[run * 128 * 3 + column];
      for (std::size_t i = run * 128 + 1; i < std::min<std::size_t>(run * 128 + 128, 300); ++i)
        sums[run] += v[i * 3 + column];
    }
    EXPECT_EQ(got.get<float>(static_cast<std::int64_t>(column)), (sums[0] + sums[2]) + sums[1]);
  }
}

TEST(order, short_rows_keep_their_lanes) {
  // 5 elements: 128 lanes of which 5 hold one; the tree meets e[0] + e[4] only at the step from 8 to 4
  std::vector<float> const v{1e8f, 1, -1e8f, 1, 1};
  EXPECT_EQ(reduced(op::sum, make_tensor(shape_t{5}, v), {0}).get<float>(0),
            ((v[0] + v[4]) + v[2]) + (v[1] + v[3]));
  EXPECT_EQ(reduced(op::prod, make_tensor(shape_t{5}, v), {0}).get<float>(0),
            ((v[0] * v[4]) * v[2]) * (v[1] * v[3]));
}

TEST(order, halves_are_summed_in_f32_and_rounded_once) {
  std::vector<float16> v(3000, float16(1.0f));
  EXPECT_EQ(static_cast<float>(reduced(op::sum, make_tensor(shape_t{3000}, v), {0}).get<float16>(0)),
            3000.0f);
  std::vector<bfloat16> w(1000, bfloat16(1.0f));
  EXPECT_EQ(static_cast<float>(reduced(op::sum, make_tensor(shape_t{500, 2}, w), {0}).get<bfloat16>(1)),
            500.0f);
}

TEST(order, nothing_sums_to_plus_zero) {
  host_tensor const none = make_tensor(shape_t{0, 2}, std::vector<double>{});
  EXPECT_EQ(reduced(op::sum, none, {0}).bits(0), 0u);
  EXPECT_EQ(reduced(op::prod, none, {0}).get<double>(1), 1.0);
  host_tensor const zeros = make_tensor(shape_t{3}, std::vector<double>{-0.0, -0.0, -0.0});
  EXPECT_TRUE(std::signbit(reduced(op::sum, zeros, {0}).get<double>(0)));
  host_tensor const no_truth = make_tensor(shape_t{0}, std::vector<bool>{});
  EXPECT_FALSE(reduced(op::any, no_truth, {0}).get<bool>(0));
  EXPECT_TRUE(reduced(op::all, no_truth, {0}).get<bool>(0));
}

TEST(order, integers_and_booleans_sum_as_i64) {
  EXPECT_EQ(reduced(op::sum, make_tensor(shape_t{300}, std::vector<std::uint8_t>(300, 255)), {0})
                .get<std::int64_t>(0),
            76500);
  EXPECT_EQ(reduced(op::sum, make_tensor(shape_t{4}, std::vector<bool>{true, false, true, true}), {0})
                .get<std::int64_t>(0),
            3);
  EXPECT_EQ(
      reduced(op::prod, make_tensor(shape_t{65}, std::vector<std::int32_t>(65, 2)), {0}).get<std::int64_t>(0),
      0);
}

TEST(order, an_extreme_is_nan_if_an_element_is_and_zeros_are_ordered) {
  float const nan = std::nanf("");
  host_tensor const some = make_tensor(shape_t{2, 3}, std::vector<float>{1, nan, 3, -0.0f, 0.0f, -0.0f});
  host_tensor const high = reduced(op::max, some, {1}), low = reduced(op::min, some, {1});
  EXPECT_TRUE(std::isnan(high.get<float>(0)) && std::isnan(low.get<float>(0)));
  EXPECT_FALSE(std::signbit(high.get<float>(1)));
  EXPECT_TRUE(std::signbit(low.get<float>(1)));
}

TEST(order, argmax_takes_the_first_place_and_the_first_nan) {
  float const nan = std::nanf("");
  auto const place = [](op code, std::vector<float> const& v) {
    host_tensor const t = make_tensor(shape_t{static_cast<std::int64_t>(v.size())}, v);
    return run_reference(one_node(code, {{t.type}}, attribute_words().one(0)), {{t}})[0].get<std::int64_t>(0);
  };
  EXPECT_EQ(place(op::argmax, {1, 3, 3, 2}), 1);
  EXPECT_EQ(place(op::argmin, {2, 1, 3, 1}), 1);
  EXPECT_EQ(place(op::argmax, {1, nan, 9, nan}), 1);
  EXPECT_EQ(place(op::argmin, {nan, -9, nan}), 0);
  EXPECT_EQ(place(op::argmax, {-0.0f, 0.0f}), 0);
  EXPECT_EQ(place(op::argmin, {0.0f, -0.0f}), 0);
}

TEST(order, a_million_elements_are_no_burden) {
  host_tensor const t = make_tensor(shape_t{1000, 1000}, noise(1000000, 3));
  auto const start = std::chrono::steady_clock::now();
  host_tensor const all = reduced(op::sum, t, {0, 1}), columns = reduced(op::sum, t, {0});
  double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_TRUE(std::isfinite(all.get<float>(0)) && columns.size() == 1000);
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, 2.0) << "two of these are meant to take 0.1 s";  // wide: sanitizers and a busy machine
}

// Random123's kat_vectors for philox4x32 with 10 rounds.
TEST(philox, gives_the_published_answers) {
  using counter = std::array<std::uint32_t, 4>;
  EXPECT_EQ(num::philox({0, 0, 0, 0}, {0, 0}), (counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(num::philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(num::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(philox, element_e_is_word_e_mod_4_of_block_e_div_4) {
  std::int64_t const key = 0x123456789abcdef0;
  host_tensor const got = run_reference(
      one_node(op::philox, {{{dtype::i64, {}}}}, attribute_words().list({3, 3})), {{make_scalar(key)}})[0];
  for (std::uint32_t e = 0; e < 9; ++e)
    EXPECT_EQ(got.get<std::int64_t>(e), num::philox({e / 4, 0, 0, 0}, {0x9abcdef0u, 0x12345678u})[e % 4]);
  EXPECT_EQ(num::philox_word(7, (std::uint64_t{5} << 34) + 2), num::philox({0, 5, 0, 0}, {7, 0})[2]);
}

}  // namespace
}  // namespace reprise::test
