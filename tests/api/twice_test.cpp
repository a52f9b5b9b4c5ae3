// Builds without NDEBUG record a first call twice. This file is one, whatever the rest is.
#undef NDEBUG
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reprise/reprise.h>

namespace {

using namespace reprise;
using testing::HasSubstr;

int calls = 0;

TEST(RecordedTwice, ACounterInTheBodyIsFoundAtOnce) {
  auto f = cuda::trace([](auto const& x) {
    static int k = 0;
    return x + ++k;
  });
  try {
    f(array<float>{1});
    FAIL();
  } catch (error const& e) {
    EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("second time"), HasSubstr("constant"),
                                         HasSubstr("twice_test.cpp:")));
  }
  EXPECT_THROW(f(array<float>{1}), error);  // nothing was kept
}

TEST(RecordedTwice, ACounterInTheResultIsFoundToo) {
  auto f = cuda::trace([](auto const& x) {
    static int k = 0;
    return std::pair(x + 1, ++k);
  });
  EXPECT_THROW(f(array<float>{1}), error);
}

TEST(RecordedTwice, ABodyThatIsAFunctionOfItsArgumentsIsReplayed) {
  calls = 0;
  auto f = cuda::trace([](auto& x, auto const& y) {
    ++calls;
    x += y;
    return x * 2;
  });
  array<float> a{1};
  std::vector<float> const b{10};
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(f(a, b).item(), 2 * (1 + 10 * i));
    EXPECT_EQ(a.item(), 1 + 10 * i);
  }
  EXPECT_EQ(calls, 2);
}

TEST(RecordedTwice, FunctionsWithStateAreRecordedOnceACall) {
  calls = 0;
  array<float> w{2};
  auto f = cuda::trace([&](auto const& x) {
    ++calls;
    w = w * x;
  });
  array<float> const x{3};
  f(x);
  f(x);
  EXPECT_EQ(w.item(), 18);
  EXPECT_EQ(calls, 2);
}

}  // namespace
