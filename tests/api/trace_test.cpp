// Traced callables: replay without the body, arguments in and out, state, numbers that change, values read by
// the host.
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reprise/reprise.h>

namespace {

using namespace reprise;
using testing::ElementsAre;
using testing::HasSubstr;
using floats = std::vector<float>;

int runs = 0;  // of bodies that count themselves: invisible to a trace, which is what these tests look at

TEST(Trace, HostMemoryInAndOut) {
  floats const a(50'000, 1.f), b(50'000, 2.f);
  auto add = cuda::trace([](auto a, auto b) {
    ++runs;
    return a + b;
  });
  runs = 0;
  floats c = add(a, b);
  EXPECT_EQ(c, floats(50'000, 3.f));
  floats const d(50'000, 5.f);
  c = add(d, b);
  EXPECT_EQ(c, floats(50'000, 7.f));
  EXPECT_EQ(runs, 1);
}

TEST(Trace, BlockForm) {
  context const ctx;
  floats const a{1, 2};
  auto const d = ctx.run([](auto const& x) { return x * 2; }, a);
  EXPECT_THAT(d.to_vector(), ElementsAre(2, 4));
  EXPECT_TRUE(ctx.holds(d));
}

TEST(Trace, EachShapeAndDtypeIsASignature) {  // TRAPS 7
  auto f = cuda::trace([](auto const& x) { return sum(x * 2); });
  for (int n : {8, 16, 7, 9, 15, 17, 1, 0, 8, 16}) {
    floats const v(static_cast<std::size_t>(n), 1.f);
    EXPECT_EQ(f(v).item(), 2.f * static_cast<float>(n)) << n;
  }
  EXPECT_EQ(f(std::vector<int>{1, 2}).item(), 6);
}

TEST(Trace, InOutArgumentsAreWrittenBack) {
  auto f = cuda::trace([](auto& x, auto const& y) { x += y; });
  floats a{1, 2}, b{10, 20};
  for (int i = 1; i <= 3; ++i) {
    f(a, b);
    EXPECT_THAT(a, ElementsAre(1 + 10 * i, 2 + 20 * i));
  }
  array<float> x{1, 2}, y{3, 4}, old = x;
  f(x, y);
  f(x, y);
  EXPECT_THAT(x.to_vector(), ElementsAre(7, 10));
  EXPECT_THAT(old.to_vector(), ElementsAre(1, 2));
}

TEST(Trace, AliasedArgumentsAreTheSameArray) {  // TRAPS 4
  auto f = cuda::trace([](auto& x, auto& y) {
    x += 1;
    y += 2;
  });
  floats a{1}, b{1};
  f(a, b);
  EXPECT_THAT(a, ElementsAre(2));
  EXPECT_THAT(b, ElementsAre(3));
  floats c{1};
  f(c, c);
  EXPECT_THAT(c, ElementsAre(4));
  f(c, c);
  EXPECT_THAT(c, ElementsAre(7));
  array<float> z{1};
  f(z, z);
  EXPECT_THAT(z.to_vector(), ElementsAre(4));
  auto g = cuda::trace([](auto const& x, auto const& y) { return x - 2 * y; });
  array<float> p{5}, q{1};
  EXPECT_EQ(g(p, q).item(), 3);
  EXPECT_EQ(g(p, p).item(), -5);
  EXPECT_EQ(g(p, q).item(), 3);
}

TEST(Trace, ResultsAreFresh) {  // TRAPS 1
  auto f = cuda::trace([](auto const& x) { return x + 1; });
  array<float> const a{1}, b{2};
  auto const r = f(a), s = f(b);
  EXPECT_EQ(r.item(), 2);
  EXPECT_EQ(s.item(), 3);
  auto id = cuda::trace([](auto const& x) { return x; });
  floats v{1, 2};
  auto const kept = id(v);
  v = {8, 9};
  EXPECT_THAT(kept.to_vector(), ElementsAre(1, 2));
  auto const again = id(v);
  EXPECT_THAT(again.to_vector(), ElementsAre(8, 9));
  EXPECT_THAT(kept.to_vector(), ElementsAre(1, 2));
}

TEST(Trace, ManyResultsOfManyKinds) {
  auto f = cuda::trace([](auto const& x) {
    return std::tuple(x + 1, x, std::vector{x * 2, x * 3}, x.rank(), std::pair(sum(x), x + 1));
  });
  for (int i = 0; i < 2; ++i) {
    auto const [a, b, c, rank, p] = f(array<float>{1, 2});
    EXPECT_THAT(a.to_vector(), ElementsAre(2, 3));
    EXPECT_THAT(b.to_vector(), ElementsAre(1, 2));
    EXPECT_THAT(c[1].to_vector(), ElementsAre(3, 6));
    EXPECT_EQ(rank, 1);
    EXPECT_EQ(p.first.item(), 3);
    EXPECT_THAT(p.second.to_vector(), ElementsAre(2, 3));
  }
}

TEST(Trace, StaticArgumentsArePartOfTheSignature) {
  auto f = cuda::trace(
      [](auto const& x, std::string const& mode, int n) { return mode == "twice" ? x * 2 + n : x + n; });
  array<float> const x{1};
  EXPECT_EQ(f(x, "twice", 1).item(), 3);
  EXPECT_EQ(f(x, "once", 1).item(), 2);
  EXPECT_EQ(f(x, std::string("twice"), 2).item(), 4);
}

struct layer {
  array<float> w;
  float scale = 1;
  std::array<int, 2> sizes{};
  std::optional<array<float>> bias;
  array<float> operator()(array<float> const& x) const {
    return bias ? x * w * scale + *bias : x * w * scale;
  }
};

TEST(Trace, EqualBytesOfDifferentTypesAreDifferentCalls) {  // TRAPS 11
  auto f = cuda::trace(
      [](auto const& x, auto n) { return std::is_floating_point_v<decltype(n)> ? x + 100 : x + n; });
  array<float> const x{1};
  EXPECT_EQ(f(x, 1).item(), 2);
  EXPECT_EQ(f(x, std::bit_cast<float>(1)).item(), 101);
  EXPECT_EQ(f(x, 1).item(), 2);
}

TEST(Trace, RecordsAreTakenFieldByField) {
  auto f = cuda::trace([](auto const& l, auto const& x) { return l(x); });
  layer a{.w = array<float>{2}, .scale = 3, .sizes = {}, .bias = {}},
      b{.w = array<float>{5}, .scale = 3, .sizes = {}, .bias = array<float>{1}};
  array<float> const x{1};
  EXPECT_EQ(f(a, x).item(), 6);
  EXPECT_EQ(f(b, x).item(), 16);  // TRAPS 5: another object is other data
  a.w = array<float>{7};
  EXPECT_EQ(f(a, x).item(), 21);  // TRAPS 6
  a.scale = 10;
  EXPECT_EQ(f(a, x).item(), 70);
}

struct optimizer {
  array<float> w;
  std::vector<array<float>> moments;
  scalar<float> rate = 0.5f;
  int steps = 0;
};

TEST(Trace, StateIsUpdatedInPlaceOfTheCallersObject) {
  auto step = cuda::trace([](auto& o, auto const& g) {
    o.moments[0] = o.moments[0] * 0.5f + g;
    o.w -= o.rate * o.moments[0];
  });
  optimizer o{.w = array<float>{8}, .moments = {array<float>{0}}};
  array<float> const g{2};
  step(o, g);
  EXPECT_EQ(o.w.item(), 7);
  o.rate = 1;
  step(o, g);
  EXPECT_EQ(o.w.item(), 4);
  EXPECT_EQ(o.moments[0].item(), 3);
}

TEST(Trace, RunTimeNumbersNeverCompileAgain) {
  context const ctx;
  use const here(ctx);
  auto f = cuda::trace([](auto const& x, auto const& s) { return x * s; });
  array<float> const x{1, 2};
  for (int i = 0; i < 100; ++i)
    EXPECT_THAT(f(x, scalar<float>(static_cast<float>(i))).to_vector(), ElementsAre(i, 2 * i));
  EXPECT_EQ(ctx.totals().kernels_compiled, 1u);
  EXPECT_EQ(ctx.totals().recorded, 1u);
}

TEST(Trace, CapturedNumbersAreLiftedOnTheirFirstChange) {  // TRAPS 2
  context const ctx;
  use const here(ctx);
  float scale = 0;
  auto f = cuda::trace([&](auto const& x) { return x * scale + 1; });
  array<float> const x{1, 2};
  for (int i = 0; i < 1000; ++i) {
    scale = static_cast<float>(i) * 0.25f;
    EXPECT_THAT(f(x).to_vector(), ElementsAre(scale + 1, 2 * scale + 1));
  }
  EXPECT_LE(ctx.totals().kernels_compiled, 2u);
  EXPECT_EQ(ctx.totals().lifted, 1u);
}

TEST(Trace, StaticNumbersAreLiftedToo) {
  context const ctx;
  use const here(ctx);
  auto f = cuda::trace([](auto const& x, float s) { return x * s; });
  array<float> const x{1, 2};
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(f(x, static_cast<float>(i))[1], 2.f * static_cast<float>(i));
  EXPECT_LE(ctx.totals().kernels_compiled, 2u);
}

TEST(Trace, CapturedArraysAreInputs) {
  array<float> w{1};
  auto f = cuda::trace([&](auto const& x) { return x * w; });
  array<float> const x{3};
  EXPECT_EQ(f(x).item(), 3);
  w = array<float>{5};
  EXPECT_EQ(f(x).item(), 15);
  w += 1;
  EXPECT_EQ(f(x).item(), 18);
}

array<float>& global_weight() {
  static array<float> w{2};
  return w;
}

TEST(Trace, ArraysReachedWithoutBeingGivenMakeTheFunctionStateful) {
  auto f = cuda::trace([](auto const& x) { return x * global_weight(); });  // an empty lambda
  array<float> const x{3};
  EXPECT_EQ(f(x).item(), 6);
  global_weight() = array<float>{10};
  EXPECT_EQ(f(x).item(), 30);
}

TEST(Trace, AnArrayReachedByItsShapeOrReturnedAsItIsCountsToo) {
  global_weight() = array<float>{1, 2};
  auto by_shape = cuda::trace([](auto const& x) { return x + static_cast<float>(global_weight().size()); });
  auto returned = cuda::trace([](auto const& x) { return std::pair(x * 1.5f, global_weight()); });
  auto rebound = cuda::trace([](auto& x) { x = global_weight(); });
  array<float> const x{2};
  EXPECT_EQ(by_shape(x).item(), 4);
  EXPECT_EQ(returned(x).second.size(), 2u);
  array<float> y{0};
  rebound(y);
  EXPECT_EQ(y.size(), 2u);
  global_weight() = array<float>{1, 2, 3};
  EXPECT_EQ(by_shape(x).item(), 5);
  EXPECT_EQ(returned(x).second.size(), 3u);
  y = array<float>{0};
  rebound(y);
  EXPECT_EQ(y.size(), 3u);
}

TEST(Trace, AnArgumentThatGotAwayKeepsItsValueWhenTheCallersMemoryIsWritten) {
  std::vector<array<float>> kept;
  auto f = cuda::trace([&](auto& x) {
    kept.push_back(x);
    x += 1;
  });
  floats v{1, 2};
  f(v);
  f(v);
  EXPECT_THAT(v, ElementsAre(3, 4));
  EXPECT_THAT(kept[0].to_vector(), ElementsAre(1, 2));
  EXPECT_THAT(kept[1].to_vector(), ElementsAre(2, 3));
}

TEST(Trace, ArgumentsThatChangePlacesDoSoInTheCallersMemory) {
  auto f = cuda::trace([](auto& x, auto& y) { std::swap(x, y); });
  floats a{1}, b{2};
  for (int i = 0; i < 3; ++i) {
    f(a, b);
    EXPECT_EQ(a[0], i % 2 ? 1 : 2);
    EXPECT_EQ(b[0], i % 2 ? 2 : 1);
  }
  array<float> p{1}, q{2};
  f(p, q);
  f(p, q);
  f(p, q);
  EXPECT_EQ(p.item(), 2);
  EXPECT_EQ(q.item(), 1);
}

TEST(Trace, ArraysMadeFromHostMemoryInsideAreSeenEachTime) {
  float table[] = {1, 2};
  auto f = cuda::trace([&](auto const& x) { return x + array<float>(std::vector<float>(table, table + 2)); });
  array<float> const x{0, 0};
  EXPECT_THAT(f(x).to_vector(), ElementsAre(1, 2));
  table[1] = 7;
  EXPECT_THAT(f(x).to_vector(), ElementsAre(1, 7));
}

TEST(Trace, HandlesThatOutliveTheBodyAreBound) {
  array<float> w{10};
  std::vector<array<float>> log;
  auto f = cuda::trace([&](auto const& g) {
    w = w - g;
    log.push_back(w * 2);
  });
  array<float> const g{1};
  for (int i = 1; i <= 3; ++i) {
    f(g);
    EXPECT_EQ(w.item(), 10 - i);
    EXPECT_EQ(log.back().item(), 2 * (10 - i));
  }
  EXPECT_EQ(log[0].item(), 18);
}

TEST(Trace, ValuesReadByTheHostAreGuards) {  // TRAPS 3
  auto f = cuda::trace([](auto const& x) {
    if (any(x > 0)) return x * 2;
    return x - 1;
  });
  EXPECT_EQ(f(array<float>{1}).item(), 2);
  EXPECT_EQ(f(array<float>{-1}).item(), -2);
  EXPECT_EQ(f(array<float>{3}).item(), 6);
  auto halve = cuda::trace([](auto x) {
    int n = 0;
    while (sum(x).item() > 1) {
      x = x / 2;
      ++n;
    }
    return std::pair(x, n);
  });
  auto const [a, n] = halve(array<float>{8, 8});
  EXPECT_THAT(a.to_vector(), ElementsAre(0.5, 0.5));
  EXPECT_EQ(n, 4);
  EXPECT_EQ(halve(array<float>{2, 2}).second, 2);
  auto pick = cuda::trace([](auto const& x) { return x({0, static_cast<int>(x[0])}); });
  EXPECT_EQ(pick(array<float>{2, 5, 6}).size(), 2u);
  EXPECT_EQ(pick(array<float>{3, 5, 6}).size(), 3u);
}

TEST(Trace, BulkReadsInsideThrowUnlessAskedFor) {
  auto f = cuda::trace([](auto const& x) { return x + static_cast<float>(std::vector<float>(x).size()); });
  EXPECT_THROW(f(array<float>{1, 2}), argument_error);
  auto g = cuda::trace([](auto const& x) { return x + host_read(x).to_vector()[1]; });
  EXPECT_THAT(g(array<float>{1, 2}).to_vector(), ElementsAre(3, 4));
  EXPECT_THAT(g(array<float>{1, 5}).to_vector(), ElementsAre(6, 10));
}

TEST(Trace, AnExceptionLeavesTheArgumentsAndNothingElse) {
  bool fail = true;
  array<float> x{1}, outside;
  auto f = cuda::trace([&](auto& a) {
    a += 1;
    outside = a * 2;
    if (fail) throw std::runtime_error("the user's own");
  });
  EXPECT_THROW(f(x), std::runtime_error);
  EXPECT_EQ(x.item(), 1);
  EXPECT_THROW(outside.to_vector(), error);
  fail = false;
  f(x);
  EXPECT_EQ(x.item(), 2);
  EXPECT_EQ(outside.item(), 4);
}

array<float> twice(array<float> const& x) { return x * 2; }
array<float> thrice(array<float> const& x) { return x * 3; }

TEST(Trace, FunctionPointersOfOneTypeAreTwoCallables) {
  auto f = cuda::trace(twice), g = cuda::trace(thrice);
  array<float> const x{1};
  EXPECT_EQ(f(x).item(), 2);
  EXPECT_EQ(g(x).item(), 3);
  EXPECT_EQ(f(x).item(), 2);
}

TEST(Trace, ALambdaMadeAnewInALoopIsTheSameCallable) {
  context const ctx;
  use const here(ctx);
  array<float> const x{1};
  for (int i = 0; i < 10; ++i) cuda::trace([](auto const& a) { return a + 1; })(x);
  EXPECT_EQ(ctx.totals().recorded, 1u);
  EXPECT_EQ(ctx.totals().signature_hits, 9u);
}

TEST(Trace, ATracedFunctionInsideAnotherIsPartOfItsProgram) {
  auto inner = [](auto const& x) { return x * 2; };
  auto outer = cuda::trace([inner](auto const& x) { return cuda::trace(inner)(x) + 1; });
  context const ctx;
  EXPECT_EQ(ctx.run([](auto const& x) { return cuda::trace(twice)(x) + 1; }, array<float>{3}).item(), 7);
  EXPECT_EQ(outer(array<float>{3}).item(), 7);
}

TEST(Trace, HostContainersOfContainers) {
  auto f =
      cuda::trace([](auto const& t, auto const& v) { return std::get<0>(t) + std::get<1>(t) * v[0] - v[1]; });
  floats const a{1}, b{2};
  std::vector<floats> const v{{10}, {3}};
  EXPECT_EQ(f(std::tuple(a, b), v).item(), 18);
  EXPECT_EQ(f(std::pair(a, b), v).item(), 18);
  float raw[] = {4};
  auto g = cuda::trace([](auto& x) { x *= 2; });
  g(raw);
  EXPECT_EQ(raw[0], 8);
}

TEST(Trace, ReportSaysWhatHappenedAndWhy) {
  context const ctx;
  auto const body = [](auto const& x) { return x * 1.5f; };
  floats const v{1, 2};
  ctx.run(body, v);
  report r = ctx.report();
  EXPECT_EQ(r.recorded, 1u);
  EXPECT_EQ(r.signature_hits, 0u);
  EXPECT_EQ(r.kernels_compiled, 1u);
  EXPECT_EQ(r.kernel_launches, 1u);
  ASSERT_GE(r.reasons.size(), 2u);
  EXPECT_THAT(r.reasons[0].why, HasSubstr("first call"));
  ctx.run(body, v);
  r = ctx.report();
  EXPECT_EQ(r.recorded, 0u);
  EXPECT_EQ(r.signature_hits, 1u);
  EXPECT_EQ(r.kernels_compiled, 0u);
  EXPECT_EQ(r.kernel_launches, 1u);  // TRAPS 15: something ran
  for (char const* name : {"device", "recorded", "signature_hits", "content_hits", "disk_hits", "lifted",
                           "kernels_compiled", "nvrtc_calls", "llvm_compiles", "heuristic_queries",
                           "graphs_instantiated", "graph_nodes", "graph_launches", "library_calls",
                           "bytes_to_device", "bytes_to_host", "device_allocations", "fallbacks", "reasons"})
    EXPECT_THAT(r.json(), HasSubstr(std::string("\"") + name + "\"")) << name;
}

TEST(Trace, WhereItRanCanBeAsserted) {  // TRAPS 35
  context const ctx;
  require_device const only(ctx, device::cpu);
  EXPECT_THROW(require_device const gpu(ctx, device::gpu), device_error);
  EXPECT_EQ(ctx.report().device, "cpu");
}

TEST(Trace, AFallbackIsCountedExplainedAndRefusedWhereRequired) {
  setenv("REPRISE_HIDE", "onednn", 1);
  context const ctx;
  use const here(ctx);
  auto f = cuda::trace([](auto const& a, auto const& b) { return matmul(a, b); });
  array<float> const a = ones<float>({3, 4}), b = ones<float>({4, 5});
  EXPECT_EQ(f(a, b)[0], 4);
  EXPECT_EQ(ctx.totals().fallbacks, 1u);
  require_device const only(ctx, device::cpu);
  EXPECT_THROW(f(a, b), forbidden_error);
  EXPECT_THROW(matmul(b, ones<float>({5, 2})).to_vector(), forbidden_error);
  unsetenv("REPRISE_HIDE");
  EXPECT_EQ((a + 1)[0], 2);
}

TEST(Trace, JsonOfATraceNamesItsOperations) {
  auto f = cuda::trace([](auto const& x, auto const& y) { return x * y + 1; });
  EXPECT_THROW(f.json(), argument_error);
  f(array<float>{1}, array<float>{2});
  EXPECT_THAT(f.json(), testing::AllOf(HasSubstr("\"mul\""), HasSubstr("\"add\""), HasSubstr("float32"),
                                       HasSubstr("trace_test.cpp")));
}

TEST(Trace, CachesInMemoryKeepToTheirCapAndForgetWithoutHarm) {
  context const ctx(context_options{.device = device::cpu, .cache_directory = {}, .memory_cap = 1 << 16});
  use const here(ctx);
  auto f = cuda::trace([](auto const& x) { return x * 2; });
  for (int round = 0; round < 2; ++round)
    for (int n = 1; n <= 60; ++n) EXPECT_EQ(f(floats(static_cast<std::size_t>(n), 1.f))[n - 1], 2.f) << n;
  EXPECT_GT(ctx.totals().kernels_compiled, 60u);  // the first ones had gone when they came again
  context const roomy;
  use const there(roomy);
  for (int round = 0; round < 2; ++round)
    for (int n = 1; n <= 60; ++n) f(floats(static_cast<std::size_t>(n), 1.f));
  EXPECT_EQ(roomy.totals().kernels_compiled, 60u);
}

TEST(Trace, ADumpHasEveryProgramWithItsStages) {
  context const ctx;
  use const here(ctx);
  cuda::trace([](auto const& x) { return x * 2 + 1; })(array<float>{1, 2}).to_vector();
  auto const folder = std::filesystem::temp_directory_path() / ("reprise_dump_" + std::to_string(getpid()));
  ctx.dump(folder);
  int programs = 0, stages = 0;
  for (auto const& file : std::filesystem::directory_iterator(folder)) {
    std::string const name = file.path().filename();
    programs += name.ends_with(".json");
    stages += name.ends_with(".stages.txt");
    EXPECT_GT(file.file_size(), 0u) << name;
  }
  std::filesystem::remove_all(folder);
  EXPECT_EQ(programs, 1);
  EXPECT_EQ(stages, 1);
}

TEST(Trace, ParametersAreNamedByArgumentAndField) {
  auto f = cuda::trace([](auto const& x, auto const& l, auto const& s) { return l(x) * s; });
  layer l{.w = array<float>{2}, .scale = 3, .sizes = {}, .bias = array<float>{1}};
  f(array<float>{1}, l, scalar<float>(2));
  EXPECT_THAT(f.json(), testing::AllOf(HasSubstr("\"0\""), HasSubstr("\"2\"")));
#ifndef __clang__
  EXPECT_THAT(f.json(), testing::AllOf(HasSubstr("\"1.w\""), HasSubstr("\"1.bias\"")));
#endif
}

TEST(Trace, StateOfACallableIsItsOwn) {
  struct counter {
    int n = 0;
    array<float> operator()(array<float> const& x) { return x + ++n; }
  };
  auto f = cuda::trace(counter{});
  array<float> const x{0};
  EXPECT_EQ(f(x).item(), 1);
  EXPECT_EQ(f(x).item(), 2);
  EXPECT_EQ(f(x).item(), 3);
  std::function<array<float>(array<float> const&)> h = twice;
  auto g = cuda::trace(h);
  EXPECT_EQ(g(array<float>{2}).item(), 4);
}

TEST(Trace, WrongArgumentsSayWhichOperationAndWhere) {
  auto f = cuda::trace([](auto const& x, auto const& y) { return x + y; });
  try {
    f(floats(3), floats(4));
    FAIL();
  } catch (argument_error const& e) {
    EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("add"), HasSubstr("(3,)"), HasSubstr("(4,)"),
                                         HasSubstr("trace_test.cpp:")));
  }
  EXPECT_THAT(f(floats{1}, floats{2}).to_vector(), ElementsAre(3));
}

}  // namespace
