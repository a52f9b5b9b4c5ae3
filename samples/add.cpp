// The first example: a + b on 50,000 floats, from ordinary memory to ordinary memory; as a trace, and as a
// block.
#include <reprise/reprise.h>

#include <cstdio>
#include <vector>

static void expect(bool truth, char const* what) {
  if (!truth) throw reprise::error(what);
}

int main() try {
  cuda::context const ctx;                             // the best device here: a GPU, else this CPU
  cuda::require_device const only(ctx, ctx.device());  // what would run elsewhere throws instead
  std::vector<float> a(50'000, 1.f), b(50'000, 2.f);

  auto add = cuda::trace([](auto const& x, auto const& y) { return x + y; });
  std::vector<float> c = add(a, b);  // recorded, compiled, run
  expect(c == std::vector<float>(50'000, 3.f), "the first call gave wrong numbers");

  a.assign(50'000, 5.f);
  cuda::array<float> const d = add(a, b);  // replayed with other numbers; stays on the device
  auto const report = ctx.report();
  expect(report.recorded == 0 && report.replayed == 1, "the second call was not a replay");
  expect(ctx.holds(d), "the sum is not in this context's memory");
  expect(d.to_vector() == std::vector<float>(50'000, 7.f), "the replay gave wrong numbers");

  auto const e = ctx.run([](auto const& x, auto const& y) { return x + y; }, a, b);  // this work, now, here
  expect(ctx.holds(e) && e.to_vector() == d.to_vector(), "the block gave something else");

  std::printf("a + b on %s: %zu numbers, recorded once, replayed, and as a block\n",
              ctx.description().c_str(), c.size());
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "add: %s\n", e.what());
  return 1;
}
