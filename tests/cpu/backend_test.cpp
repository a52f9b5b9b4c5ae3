// The backend as the runtime sees it: a plan built, written, loaded without a compiler and run, from several
// threads, in every mode of floating point; its memory.
#include "jit/cpu/backend.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cpu/kernels.h"
#include "jit/cpu/executable.h"

namespace reprise::test {
namespace {

using jit::buffer_place;

jit::kernel multiply_add(std::string name, std::int64_t n, bool lifted) {
  built b(std::move(name), {}, n);
  for (int i = 0; i < 2; ++i) b.k.buffers.push_back({dtype::f32, n, false});
  b.k.buffers.push_back({dtype::f32, n, true});
  b.begin(n);
  auto const x = b.load(0, b.inner()), y = b.load(1, b.inner());
  value_id z = x;
  if (lifted) {
    b.k.scalars = {dtype::f32};
    instruction s;
    s.code = kop::scalar, s.type = dtype::f32;
    z = b.put(s);
  }
  b.store(2, b.inner(), b.op(kop::add, dtype::f32, b.op(kop::mul, dtype::f32, x, y), z));
  return b.k;
}

// t = a * b + a; r = t * b + s; and r copied to a second result. Parameter 2 is the number s.
jit::plan two_steps(std::int64_t n) {
  jit::plan p;
  p.kernels = {multiply_add("first", n, false), multiply_add("second", n, true)};
  p.buffers = {{buffer_place::parameter, 0, dtype::f32, n, -1},
               {buffer_place::parameter, 1, dtype::f32, n, -1},
               {buffer_place::temporary, 0, dtype::f32, n, 0},
               {buffer_place::result, 0, dtype::f32, n, -1},
               {buffer_place::result, 1, dtype::f32, n, -1}};
  p.arena_bytes = (n * 4 + 255) / 256 * 256;
  p.results = {3, 4};
  jit::step a, b, c;
  a.work = jit::kernel_step{0, {}};
  a.operands = {0, 1}, a.written = {2}, a.arguments = {0, 1, 2};
  b.work = jit::kernel_step{1, {2}};
  b.operands = {2, 1}, b.written = {3}, b.arguments = {2, 1, 3};
  c.work = jit::copy_step{};
  c.operands = {3}, c.written = {4};
  p.steps = {a, b, c};
  p.edges = {{0, 1}, {1, 2}};
  return p;
}

struct arrays {
  std::vector<float> a, b, r0, r1;
  explicit arrays(std::int64_t n, float seed = 1)
      : a(static_cast<std::size_t>(n)), b(a.size()), r0(a.size()), r1(a.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = seed + static_cast<float>(i % 97) / 7;
      b[i] = seed - static_cast<float>(i % 31) / 3;
    }
  }
  void run(jit::executable& e, float s) {
    void* const parameters[] = {a.data(), b.data(), nullptr};
    void* const results[] = {r0.data(), r1.data()};
    std::uint64_t const scalars[] = {0, 0, std::bit_cast<std::uint32_t>(s)};
    e.run({parameters, results, scalars});
  }
  std::string wrong(float s) const {
    for (std::size_t i = 0; i < a.size(); ++i) {
      float const t = a[i] * b[i] + a[i], r = t * b[i] + s;
      if (std::memcmp(&r, &r0[i], 4) != 0 || std::memcmp(&r, &r1[i], 4) != 0)
        return "element " + std::to_string(i) + " is " + std::to_string(r0[i]) + " and " +
               std::to_string(r1[i]) + ", not " + std::to_string(r);
    }
    return {};
  }
};

TEST(backend, builds_writes_loads_and_runs) {
  for (int threads : {1, 3})
    for (std::int64_t n : {0, 1, 33, 5000, 300000}) {
      auto const back = cpu::make_backend(threads);
      auto p = two_steps(n);
      jit::sections s;
      jit::counters c, none;
      auto const built = back->build(p, s, c);
      EXPECT_EQ(c.kernels_compiled, 2u);
      EXPECT_GE(c.llvm_compiles, 1u);
      EXPECT_EQ(built->kernels(), 2u);
      EXPECT_EQ(built->library_calls(), 0u);
      EXPECT_GT(built->bytes(), 0u);
      auto const other = cpu::make_backend(threads);
      EXPECT_EQ(back->fingerprint(), other->fingerprint());
      auto const loaded = other->load(p, s, none);
      EXPECT_EQ(none.llvm_compiles, 0u);
      arrays x(n), y(n);
      for (float value : {2.5f, -1.f}) {
        x.run(*built, value);
        EXPECT_EQ(x.wrong(value), "");
        y.run(*loaded, value);
        EXPECT_EQ(y.wrong(value), "");
      }
      EXPECT_EQ(back->counts().kernel_launches, 4u);
    }
}

TEST(backend, bytes_that_do_not_fit_are_refused) {
  auto const back = cpu::make_backend(1);
  auto p = two_steps(100);
  jit::sections s;
  jit::counters c;
  back->build(p, s, c);
  EXPECT_THROW(back->load(p, {}, c), format_error);
  auto cut = s;
  for (auto& [name, bytes] : cut)
    if (name == "object") bytes.resize(bytes.size() / 2);
  EXPECT_THROW(back->load(p, cut, c), format_error);
  auto noise = s;
  for (auto& [name, bytes] : noise)
    if (name == "object") std::fill(bytes.begin(), bytes.end(), std::byte{7});
  EXPECT_THROW(back->load(p, noise, c), format_error);
  auto unknown = s;
  unknown.emplace_back("strange", std::vector<std::byte>(3));
  EXPECT_THROW(back->load(p, unknown, c), format_error);
  auto fewer = s;
  fewer[0].second.resize(8);
  EXPECT_THROW(back->load(p, fewer, c), format_error);
  EXPECT_NO_THROW(back->load(p, s, c));
}

TEST(backend, a_kernel_that_cannot_be_compiled_leaves_nothing_behind) {
  auto const back = cpu::make_backend(1);
  auto p = two_steps(100);
  p.kernels[1].phases[0].body.back().code = kop::select;  // without operands
  jit::sections s;
  jit::counters c;
  EXPECT_THROW(back->build(p, s, c), compile_error);
  EXPECT_TRUE(s.empty());
  p = two_steps(100);
  EXPECT_NE(back->build(p, s, c), nullptr);
}

TEST(backend, runs_from_many_threads_at_once) {
  auto const back = cpu::make_backend(2);
  auto p = two_steps(40000);
  jit::sections s;
  jit::counters c;
  auto const e = back->build(p, s, c);
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(4);
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      arrays x(40000, static_cast<float>(t));
      for (int i = 0; i < 30 && wrong[t].empty(); ++i) {
        x.run(*e, static_cast<float>(i));
        wrong[t] = x.wrong(static_cast<float>(i));
      }
    });
  for (auto& t : threads) t.join();
  for (auto const& w : wrong) EXPECT_EQ(w, "");
}

// A backend that keeps what is given back, also where the whole run asks for separate memory.
std::unique_ptr<jit::backend> pooling_backend(int threads) {
  char const* const asked = std::getenv("REPRISE_ARENA");
  std::string const before = asked ? asked : "";
  unsetenv("REPRISE_ARENA");
  auto back = cpu::make_backend(threads);
  if (asked) setenv("REPRISE_ARENA", before.c_str(), 1);
  return back;
}

TEST(backend, a_replay_asks_the_system_for_nothing) {
  auto const back = pooling_backend(2);
  auto p = two_steps(5000);
  jit::sections s;
  jit::counters c;
  auto const e = back->build(p, s, c);
  arrays x(5000);
  x.run(*e, 1);
  auto const before = back->counts().device_allocations;
  EXPECT_GT(before, 0u);
  for (int i = 0; i < 100; ++i) {
    void* const m = back->allocate(5000 * 4);
    x.run(*e, 1);
    back->deallocate(m, 5000 * 4);
  }
  EXPECT_LE(back->counts().device_allocations, before + 1);
}

// Kernels neither flush denormals nor round otherwise, whatever the thread does, and leave its mode as it
// was.
TEST(backend, the_threads_floating_point_mode_does_not_matter_and_is_kept) {
  auto const back = cpu::make_backend(2);
  std::int64_t const n = 200000;
  auto p = two_steps(n);
  jit::sections s;
  jit::counters c;
  auto const e = back->build(p, s, c);
  arrays x(n);
  x.a.assign(x.a.size(), 1e-40f);
  x.b.assign(x.b.size(), 1.0000001f);
  unsigned const before = _mm_getcsr();
  unsigned const flushing = 0xffc0;  // flush to zero, denormals are zero, round toward zero
  _mm_setcsr(flushing);
  x.run(*e, 3e-41f);
  unsigned const after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & ~0x3fu, flushing & ~0x3fu);
  EXPECT_EQ(x.wrong(3e-41f), "");
  EXPECT_NE(x.r0[0], 0.f);
}

// An in-out result: the caller names one address twice.
TEST(backend, a_result_may_take_a_parameters_place) {
  auto const back = cpu::make_backend(1);
  jit::plan p;
  p.kernels = {multiply_add("only", 1000, false)};
  p.buffers = {{buffer_place::parameter, 0, dtype::f32, 1000, -1},
               {buffer_place::parameter, 1, dtype::f32, 1000, -1},
               {buffer_place::result, 0, dtype::f32, 1000, -1}};
  p.results = {2};
  jit::step a;
  a.work = jit::kernel_step{0, {}};
  a.operands = {0, 1}, a.written = {2}, a.arguments = {0, 1, 2};
  p.steps = {a};
  jit::sections s;
  jit::counters c;
  auto const e = back->build(p, s, c);
  arrays x(1000);
  auto const a0 = x.a;
  void* const parameters[] = {x.a.data(), x.b.data()};
  void* const results[] = {x.a.data()};
  e->run({parameters, results, {}});
  for (std::size_t i = 0; i < a0.size(); ++i) ASSERT_EQ(x.a[i], a0[i] * x.b[i] + a0[i]) << i;
}

// C = relu(A @ B + bias) with a generated alternative that adds in another order: both run, and the decision
// is kept.
jit::plan product(std::int64_t m, std::int64_t n, std::int64_t depth) {
  built b("product", {m, n}, depth);
  b.k.lanes = jit::lanes_along::grid;
  b.k.tile = std::min<std::int64_t>(m, 4);
  auto& x = b.k.index;
  b.k.buffers = {{dtype::f32, m * depth, false}, {dtype::f32, depth * n, false}, {dtype::f32, m * n, true}};
  b.begin(depth);
  auto const l = b.load(0, x.add(x.mul(b.var(0), depth), b.inner())),
             r = b.load(1, x.add(x.mul(b.inner(), n), b.var(1)));
  auto const sum = b.reduce(reduction_kind::sum, jit::order::contract, l, r);
  b.begin(1);
  b.store(2, b.flat_grid(), b.row(sum));
  jit::plan p;
  p.kernels = {b.k};
  p.buffers = {{buffer_place::parameter, 0, dtype::f32, m * depth, -1},
               {buffer_place::parameter, 1, dtype::f32, depth * n, -1},
               {buffer_place::result, 0, dtype::f32, m * n, -1}};
  p.results = {2};
  jit::step s;
  jit::matmul_step w;
  w.m = m, w.n = n, w.k = depth, w.stride_a = m * depth, w.stride_b = depth * n, w.stride_c = m * n;
  s.work = w;
  s.operands = {0, 1}, s.written = {2};
  s.alternative = 0;
  p.steps = {s};
  return p;
}

TEST(backend, a_library_step_is_decided_once_and_runs_either_way) {
  std::int64_t const m = 37, n = 50, depth = 20;
  for (auto chosen : {jit::choice::undecided, jit::choice::generated, jit::choice::library}) {
    auto const back = cpu::make_backend(2);
    auto p = product(m, n, depth);
    p.steps[0].chosen = chosen;
    jit::sections s;
    jit::counters c;
    auto const e = back->build(p, s, c);
    EXPECT_NE(p.steps[0].chosen, jit::choice::undecided);
    EXPECT_EQ(c.tunings + c.fallbacks, chosen == jit::choice::undecided ? 1u : c.fallbacks);
    auto const loaded = back->load(p, s, c);
    EXPECT_EQ(e->kernels() + e->library_calls(), 1u);
    std::vector<float> a(static_cast<std::size_t>(m * depth)), b(static_cast<std::size_t>(depth * n));
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
    for (auto const* run : {e.get(), loaded.get()}) {
      std::vector<float> r(static_cast<std::size_t>(m * n), -1);
      void* const parameters[] = {a.data(), b.data()};
      void* const results[] = {r.data()};
      const_cast<jit::executable*>(run)->run({parameters, results, {}});
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (std::int64_t k = 0; k < depth; ++k)
            sum += a[static_cast<std::size_t>(i * depth + k)] * b[static_cast<std::size_t>(k * n + j)];
          ASSERT_EQ(r[static_cast<std::size_t>(i * n + j)], sum) << i << " " << j;
        }
    }
  }
}

TEST(backend, memory_is_aligned_kept_and_known) {
  auto const back = pooling_backend(1);
  std::vector<std::pair<void*, std::size_t>> held;
  for (std::size_t bytes : {0, 1, 255, 256, 257, 1000, 4096, 100000, 3 << 20}) {
    void* const p = back->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 256, 0u);
    std::memset(p, 1, bytes);
    EXPECT_TRUE(back->owns(p));
    if (bytes != 0) { EXPECT_TRUE(back->owns(static_cast<char*>(p) + bytes - 1)); }
    for (auto const& [q, n] : held) EXPECT_NE(p, q);
    held.emplace_back(p, bytes);
  }
  int local = 0;
  EXPECT_FALSE(back->owns(&local));
  EXPECT_FALSE(back->owns(nullptr));
  auto const before = back->counts().device_allocations;
  for (auto const& [p, bytes] : held) back->deallocate(p, bytes);
  for (auto const& [p, bytes] : held) back->deallocate(back->allocate(bytes), bytes);
  EXPECT_EQ(back->counts().device_allocations, before);
  back->trim();
  EXPECT_FALSE(back->owns(held.back().first));
  EXPECT_THROW(back->allocate(std::size_t{1} << 60), out_of_memory);
}

TEST(backend, separate_memory_gives_every_temporary_its_own_block) {
  ASSERT_EQ(setenv("REPRISE_ARENA", "separate", 1), 0);
  auto const back = cpu::make_backend(2);
  unsetenv("REPRISE_ARENA");
  auto p = two_steps(5000);
  jit::sections s;
  jit::counters c;
  auto const e = back->build(p, s, c);
  arrays x(5000);
  auto const before = back->counts().device_allocations;
  x.run(*e, 1);
  EXPECT_EQ(x.wrong(1), "");
  EXPECT_GT(back->counts().device_allocations, before);
  void* const m = back->allocate(8);
  EXPECT_NE(*static_cast<double*>(m), *static_cast<double*>(m));  // filled with nan
  back->deallocate(m, 8);
  EXPECT_FALSE(back->owns(m));
}

TEST(backend, an_executable_outlives_its_backend) {
  auto back = cpu::make_backend(2);
  auto p = two_steps(5000);
  jit::sections s;
  jit::counters c;
  auto const e = back->build(p, s, c);
  back.reset();
  arrays x(5000);
  x.run(*e, 4);
  EXPECT_EQ(x.wrong(4), "");
}

TEST(backend, refuses_a_senseless_number_of_threads) {
  EXPECT_THROW(cpu::make_backend(-1), argument_error);
  ASSERT_EQ(setenv("REPRISE_THREADS", "many", 1), 0);
  EXPECT_THROW(cpu::make_backend(), argument_error);
  ASSERT_EQ(setenv("REPRISE_THREADS", "3", 1), 0);
  EXPECT_NE(cpu::make_backend()->description().find("3 threads"), std::string::npos);
  unsetenv("REPRISE_THREADS");
}

}  // namespace
}  // namespace reprise::test
