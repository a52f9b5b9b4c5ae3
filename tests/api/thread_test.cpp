// Threads share callables, arrays and contexts.
#include <atomic>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <reprise/reprise.h>

namespace {

using namespace reprise;

template <class F>
void on_threads(int n, F f) {
  std::vector<std::thread> all;
  for (int i = 0; i < n; ++i) all.emplace_back(f, i);
  for (auto& t : all) t.join();
}

TEST(ApiThreads, OneCallableFromManyThreadsCompilesOnce) {
  context const ctx;
  auto f = cuda::trace([](auto const& x, auto const& y) { return x * y + 1; });
  array<float> const shared{2, 3};
  use const here(ctx);
  array<float> const in_context{2, 3};
  std::atomic<int> wrong = 0;
  on_threads(8, [&](int t) {
    use const mine(ctx);
    for (int i = 0; i < 200; ++i) {
      float const k = static_cast<float>(t * 1000 + i);
      std::vector<float> const v{k, k};
      auto const r = f(in_context, v).to_vector();
      if (r[0] != 2 * k + 1 || r[1] != 3 * k + 1) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ctx.totals().kernels_compiled, 1u);
}

TEST(ApiThreads, APendingValueIsReadOnOtherThreads) {
  context const ctx;
  use const here(ctx);
  for (int round = 0; round < 50; ++round) {
    array<float> x{1, 2, 3};
    for (int i = 0; i < 20; ++i) x = x + 1;
    array<float> const y = x * 2, z = x * 3;
    std::atomic<int> wrong = 0;
    on_threads(4, [&](int t) {
      if ((t % 2 ? y : z)[0] != (t % 2 ? 42.f : 63.f)) ++wrong;
    });
    EXPECT_EQ(wrong, 0);
  }
}

TEST(ApiThreads, AReadOnAnotherThreadWhileABodyRunsIsARead) {
  context const ctx;
  use const here(ctx);
  auto f = cuda::trace([](auto const& x) {
    auto const y = x * 2;
    float seen = 0;
    std::thread([&] { seen = y[0]; }).join();
    return x + seen;
  });
  EXPECT_EQ(f(array<float>{1}).item(), 3);
  EXPECT_EQ(f(array<float>{5}).item(), 15);
}

TEST(ApiThreads, HandlesDieOnOtherThreads) {
  context const ctx;
  use const here(ctx);
  for (int round = 0; round < 50; ++round) {
    std::vector<array<float>> all;
    array<float> x{1};
    for (int i = 0; i < 50; ++i) all.push_back(x = x + 1);
    std::thread killer([moved = std::move(all)]() mutable { moved.clear(); });
    EXPECT_EQ(x.item(), 51);
    killer.join();
  }
}

TEST(ApiThreads, AContextMayEndBeforeItsArrays) {
  array<float> x;
  {
    context const ctx;
    use const here(ctx);
    x = array<float>{1, 2} * 2;
  }
  EXPECT_EQ(x[1], 4);
  EXPECT_EQ((x + 1)[0], 3);
}

TEST(ApiProcess, AForkedChildMayNotUseTheParentsContext) {
  context const ctx;
  use const here(ctx);
  array<float> const x{1};
  EXPECT_EQ((x + 1).item(), 2);
  pid_t const child = fork();
  if (child == 0) {
    try {
      (x + 2).item();
      _exit(1);
    } catch (device_error const&) { _exit(0); }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
