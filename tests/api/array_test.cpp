// Arrays outside of traces: construction, reading, operators, slices, functions, all as a user writes them.
#include <cmath>
#include <numeric>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reprise/reprise.h>

namespace {

using namespace reprise;
using testing::ElementsAre;
using testing::ElementsAreArray;
using floats = std::vector<float>;
using ints = std::vector<int>;

TEST(Array, FromAndToHostMemory) {
  floats v{1, 2, 3};
  cuda::array<float> a = v;
  v[0] = 99;  // copied before
  EXPECT_EQ(a.to_vector(), (floats{1, 2, 3}));
  EXPECT_EQ(a.shape(), (shape{3}));
  EXPECT_EQ(std::accumulate(a.begin(), a.end(), 0.f), 6.f);
  floats const w = a;
  EXPECT_EQ(w.size(), 3u);
  cuda::array<float> const m({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(reshape(m, {2, 3}).shape(), (shape{2, 3}));
}

TEST(Array, LiteralsKeepTheirRank) {
  array<float> const one{1, 2.5, 3}, two{{1, 2}, {3, 4}, {5, 6}};
  EXPECT_EQ(one.shape(), (shape{3}));
  EXPECT_EQ(two.shape(), (shape{3, 2}));
  EXPECT_THAT(two.to_vector(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THROW((array<float>{{1, 2}, {3}}), argument_error);
}

TEST(Array, OperatorsAndWeakNumbers) {
  array<float> const a{1, 2, 3}, b{10, 20, 30};
  EXPECT_THAT((a + b).to_vector(), ElementsAre(11, 22, 33));
  EXPECT_THAT((2 * a - 1.0).to_vector(), ElementsAre(1, 3, 5));
  EXPECT_THAT((b / a).to_vector(), ElementsAre(10, 10, 10));
  EXPECT_THAT((-a).to_vector(), ElementsAre(-1, -2, -3));
  array<int> const i{7, -7, 5};
  EXPECT_THAT((i / 2).to_vector(), ElementsAre(3, -3, 2));
  EXPECT_THAT((i % 2).to_vector(), ElementsAre(1, -1, 1));
  EXPECT_THAT((i * a).to_vector(), ElementsAre(7, -14, 15));
  static_assert(std::same_as<decltype(i * a), array<float>>);
  static_assert(std::same_as<decltype(true_divide(i, 2)), array<double>>);
  EXPECT_THAT(true_divide(i, 2).to_vector(), ElementsAre(3.5, -3.5, 2.5));
  EXPECT_THAT(floor_divide(i, 2).to_vector(), ElementsAre(3, -4, 2));
  EXPECT_THAT(mod(i, 2).to_vector(), ElementsAre(1, 1, 1));
  EXPECT_THAT((a > 1.5f).to_vector(), ElementsAre(false, true, true));
  EXPECT_THAT((!(a == 2)).to_vector(), ElementsAre(true, false, true));
  EXPECT_THAT(((a > 1) & (a < 3)).to_vector(), ElementsAre(false, true, false));
}

TEST(Array, NumbersThatDoNotFitThrow) {
  array<std::uint8_t> const a{1, 2};
  EXPECT_THROW(a + 300, argument_error);
  EXPECT_THROW(a + -1, argument_error);
}

TEST(Array, RebindsThisHandleOnly) {
  array<float> a{1, 2, 3};
  array<float> const b = a;
  a += 1;
  EXPECT_THAT(a.to_vector(), ElementsAre(2, 3, 4));
  EXPECT_THAT(b.to_vector(), ElementsAre(1, 2, 3));
}

TEST(Array, Slices) {
  array<float> x = reshape(arange<float>(12), {3, 4});
  EXPECT_THAT(x(0).to_vector(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(x(-1, 0).to_vector(), ElementsAre(8));
  EXPECT_THAT(x({1, {}}, {{}, {}, -1}).to_vector(), ElementsAre(7, 6, 5, 4, 11, 10, 9, 8));
  EXPECT_THAT(x(ellipsis, 1).to_vector(), ElementsAre(1, 5, 9));
  EXPECT_EQ(x(newaxis, 0).shape(), (shape{1, 4}));
  EXPECT_EQ(x({5, 9}).shape(), (shape{0, 4}));
  x(0) = 0;
  x({1, 3}, {1, 3}) += 100;
  EXPECT_THAT(x.to_vector(), ElementsAre(0, 0, 0, 0, 4, 105, 106, 7, 8, 109, 110, 11));
  x(1) = x(2);
  EXPECT_THAT(x(1).to_vector(), ElementsAre(8, 109, 110, 11));
  auto v = x(0);
  v = v + 1;  // a named slice is a value
  EXPECT_THAT(x(0).to_vector(), ElementsAre(0, 0, 0, 0));
  EXPECT_THROW(x(3), argument_error);
  EXPECT_THROW(x(0, 0, 0), argument_error);
}

TEST(Array, ReductionsAndShapes) {
  array<float> const x = reshape(arange<float>(6), {2, 3});
  EXPECT_EQ(sum(x).item(), 15);
  EXPECT_THAT(sum(x, 0).to_vector(), ElementsAre(3, 5, 7));
  EXPECT_EQ(sum(x, {0, 1}, keepdims).shape(), (shape{1, 1}));
  EXPECT_THAT(mean(x, 1).to_vector(), ElementsAre(1, 4));
  EXPECT_THAT(max(x, {0}).to_vector(), ElementsAre(3, 4, 5));
  EXPECT_THAT(argmax(x, 1).to_vector(), ElementsAre(2, 2));
  EXPECT_EQ(argmin(x).item(), 0);
  EXPECT_TRUE(any(x > 4));
  EXPECT_FALSE(all(x > 4));
  EXPECT_EQ(sum(x > 1).item(), 4);
  EXPECT_THAT(transpose(x).to_vector(), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(concatenate({x, x}, 1).to_vector(), ElementsAre(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
  EXPECT_EQ(stack({x, x}).shape(), (shape{2, 2, 3}));
  EXPECT_THAT(pad(array<float>{1, 2}, {{1, 2}}, 9).to_vector(), ElementsAre(9, 1, 2, 9, 9));
  EXPECT_THAT(tile(array<int>{1, 2}, {2, 2}).to_vector(), ElementsAre(1, 2, 1, 2, 1, 2, 1, 2));
  EXPECT_THAT(flip(array<int>{1, 2, 3}).to_vector(), ElementsAre(3, 2, 1));
  EXPECT_THAT(eye<float>(2).to_vector(), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(arange<int>(2, 9, 3).to_vector(), ElementsAre(2, 5, 8));
  EXPECT_THAT(cast<int>(array<float>{1.9f, -1.9f, 3e10f, NAN}).to_vector(), ElementsAre(1, -1, INT32_MAX, 0));
  EXPECT_THAT(where(x > 2, x, 0).to_vector(), ElementsAre(0, 0, 0, 3, 4, 5));
  EXPECT_EQ(sum(zeros<float>({0, 3})).item(), 0);
  EXPECT_THROW(max(zeros<float>({0, 3})), argument_error);
}

TEST(Array, LinearAlgebraAndLayers) {
  array<float> const a{{1, 2}, {3, 4}}, b{{5, 6}, {7, 8}};
  EXPECT_THAT(matmul(a, b).to_vector(), ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(matmul(a, array<float>{1, 1}).to_vector(), ElementsAre(3, 7));
  EXPECT_EQ(matmul(array<float>{1, 2}, array<float>{3, 4}).item(), 11);
  array<float> const x = reshape(arange<float>(16), {1, 1, 4, 4}), w = ones<float>({1, 1, 3, 3});
  EXPECT_THAT(conv2d(x, w).to_vector(), ElementsAre(45, 54, 81, 90));
  EXPECT_EQ(conv2d(x, w, {.padding = {1, 1}}).shape(), (shape{1, 1, 4, 4}));
  EXPECT_THAT(max_pool2d(x).to_vector(), ElementsAre(5, 7, 13, 15));
  EXPECT_THAT(avg_pool2d(x).to_vector(), ElementsAre(2.5, 4.5, 10.5, 12.5));
  array<float> const s = softmax(array<float>{{1, 2, 3}, {1, 1, 1}});
  EXPECT_NEAR(s[2], 0.66524096f, 1e-6);
  EXPECT_NEAR(s[3], 1.f / 3, 1e-6);
  array<float> const n = layer_norm(array<float>{{1, 2, 3, 4}});
  EXPECT_NEAR(n[0], -1.3416355f, 1e-5);
}

TEST(Array, RandomNumbersDependOnKeyAndShapeOnly) {
  array<float> const a = random::uniform<float>({7}, {1000}), b = random::uniform<float>({7}, {1000});
  EXPECT_TRUE(array_equal(a, b));
  EXPECT_FALSE(array_equal(a, random::uniform<float>({8}, {1000})));
  EXPECT_TRUE(all((a >= 0) & (a < 1)));
  EXPECT_NEAR(mean(a).item(), 0.5, 0.05);
  array<float> const g = random::normal<float>({1}, {10000});
  EXPECT_NEAR(mean(g).item(), 0, 0.05);
  EXPECT_NEAR(mean(g * g).item(), 1, 0.1);
  EXPECT_NE(random::key{1}.split(0).seed, random::key{1}.split(1).seed);
}

TEST(Array, HalfTypesRoundAfterEachOperation) {
  array<float16> const a = cast<float16>(array<float>{2048, 1, 0.1f});
  EXPECT_EQ(static_cast<float>((a + 1)[0]), 2048.f);
  EXPECT_EQ(static_cast<float>((a * 3)[2]),
            static_cast<float>(float16(static_cast<float>(float16(0.1f)) * 3)));
  array<bfloat16> const c = cast<bfloat16>(array<float>{256, 1});
  EXPECT_EQ(static_cast<float>((c + 1)[0]), 256.f);
}

TEST(Array, Text) {
  std::ostringstream out;
  out << array<float>{{1, 2.5}, {3, 4}};
  EXPECT_EQ(out.str(), "[[1, 2.5],\n [3, 4]]");
  print(array<int>{1, 2}, "x", &out);
  EXPECT_THAT(out.str(), testing::HasSubstr("x: [1, 2]"));
}

TEST(Array, ALongLoopOfUnreadOperationsIsCutIntoPiecesOfOneProgram) {
  context const ctx;
  use const here(ctx);
  array<float> x{1, 2, 3};
  for (int i = 0; i < 5000; ++i) x = x + 1;
  EXPECT_THAT(x.to_vector(), ElementsAre(5001, 5002, 5003));
  EXPECT_LE(ctx.totals().kernels_compiled, 4u);
}

TEST(Array, ErrorsSayOperationShapesAndLine) {
  array<float> const a{1, 2, 3}, b{1, 2};
  try {
    a + b;
    FAIL();
  } catch (argument_error const& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("add"), testing::HasSubstr("(3,)"),
                                         testing::HasSubstr("(2,)"), testing::HasSubstr("array_test.cpp:")));
  }
  try {
    matmul(array<float>{{1, 2}}, array<float>{{1, 2}});
    FAIL();
  } catch (argument_error const& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("matmul"), testing::HasSubstr("(1, 2)"),
                                         testing::HasSubstr("array_test.cpp:")));
  }
  EXPECT_THROW(sum(a, 3), argument_error);
  EXPECT_THROW(sum(a, {0, 0}), argument_error);
  EXPECT_THROW(reshape(a, {2, 2}), argument_error);
  EXPECT_THROW(static_cast<bool>(a == a), argument_error);
  array<float> moved{1};
  array<float> const taken = std::move(moved);
  EXPECT_THROW(moved + 1, argument_error);  // NOLINT: using it is the point
  EXPECT_THROW(array<float>().to_vector(), argument_error);
  EXPECT_THROW(conv2d(a, a), argument_error);
  EXPECT_THROW(context(device::gpu), device_error);
  EXPECT_THROW(zeros<float>({std::int64_t{1} << 50}).to_vector(), error);
}

TEST(Array, ACacheFolderThatIsAskedForAndRefusedIsAnError) {
  setenv("REPRISE_CACHE", "on", 1);
  EXPECT_THROW(context(context_options{.device = device::cpu, .cache_directory = "/proc/no/such"}),
               argument_error);
  setenv("REPRISE_CACHE", "off", 1);
}

TEST(Array, MixingContextsIsAnError) {
  context const one(device::cpu), two(device::cpu);
  array<float> a, b;
  {
    use const here(one);
    a = array<float>{1};
  }
  {
    use const here(two);
    b = array<float>{1};
  }
  EXPECT_THROW(a + b, argument_error);
  EXPECT_TRUE(one.holds(a));
  EXPECT_FALSE(two.holds(a));
  EXPECT_THAT((a + 1).to_vector(), ElementsAre(2));  // in its array's context, whichever is current
}

}  // namespace
