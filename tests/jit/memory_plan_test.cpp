// The memory plan against a model that runs the steps in random orders, all that the edges allow, and
// remembers for each byte who wrote it last; against the least that any plan needs; and the verifier against
// brute force.
#include "jit/memory_plan.h"

#include <chrono>
#include <map>

#include <gtest/gtest.h>

#include "jit/plan_support.h"
#include "jit/schedule.h"
#include "reprise/error.h"

namespace reprise::jit {
namespace {

using test::plan_maker;

plan planned(plan_maker& m) {
  plan p = m.take();
  schedule(p);
  plan_memory(p);
  verify(p, m.of);
  return p;
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

// What the steps need one after the other, offsets aligned.
std::int64_t least(plan p) {
  for (plan_buffer& b : p.buffers)
    if (b.place == buffer_place::temporary) b.elements = aligned(b.bytes()) / 4;
  return peak_bytes(p);
}

std::vector<step_id> random_order(test::random_engine& r, plan const& p) {
  std::vector<int> waits(p.steps.size());
  for (edge e : p.edges) ++waits[e.to];
  std::vector<step_id> ready, order;
  for (step_id i = 0; i < waits.size(); ++i)
    if (waits[i] == 0) ready.push_back(i);
  while (!ready.empty()) {
    std::size_t const at = static_cast<std::size_t>(test::random_int(r, 0, std::ssize(ready) - 1));
    step_id const i = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    order.push_back(i);
    for (edge e : p.edges)
      if (e.from == i && --waits[e.to] == 0) ready.push_back(e.to);
  }
  return order;
}

// For each step what it read, by the names of the steps that wrote it last; memory is blocks of 256 bytes.
std::map<std::string, std::string> readings(plan const& p, std::vector<step_id> const& order) {
  std::map<std::string, std::string> seen;
  std::vector<std::string> arena(static_cast<std::size_t>(p.arena_bytes / 256)), other(p.buffers.size());
  for (step_id i : order) {
    step const& s = p.steps[i];
    std::string const name = p.kernels[std::get<kernel_step>(s.work).kernel].name;
    std::string& line = seen[name];
    auto const each_block = [&](buffer_id b, auto&& visit) {
      plan_buffer const& x = p.buffers[b];
      if (x.place != buffer_place::temporary) return visit(other[b]);
      for (std::int64_t at = x.offset; at < x.offset + x.bytes(); at += 256)
        visit(arena[static_cast<std::size_t>(at / 256)]);
    };
    for (buffer_id b : s.operands) {
      line += "|";
      std::string last;
      each_block(b, [&](std::string const& written) {
        if (written != last) line += written;
        last = written;
      });
    }
    for (buffer_id b : s.written) each_block(b, [&](std::string& written) { written = name; });
  }
  return seen;
}

std::vector<step_id> in_order(plan const& p) {
  std::vector<step_id> order;
  for (step_id i = 0; i < p.steps.size(); ++i) order.push_back(i);
  return order;
}

TEST(MemoryPlan, AnyOrderThatTheEdgesAllowReadsTheSame) {
  test::random_engine r(1);
  for (int round = 0; round < 300; ++round) {
    plan_maker m = test::random_plan(r, static_cast<int>(test::random_int(r, 1, 50)));
    plan const p = planned(m);
    // without sharing: each temporary has its own bytes
    plan apart = p;
    apart.arena_bytes = 0;
    for (plan_buffer& b : apart.buffers)
      if (b.place == buffer_place::temporary) {
        b.offset = apart.arena_bytes;
        apart.arena_bytes += aligned(b.bytes());
      }
    auto const want = readings(apart, in_order(apart));
    for (int i = 0; i < 5; ++i) ASSERT_EQ(readings(p, random_order(r, p)), want);
    EXPECT_LE(p.arena_bytes, apart.arena_bytes);
  }
}

TEST(MemoryPlan, ChainsReachTheOptimum) {
  test::random_engine r(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t n = test::random_int(r, 1, 120); n > 0; --n)
      sizes.push_back(test::random_int(r, 1, 20000));
    plan_maker m = test::chain(sizes);
    plan const p = planned(m);
    EXPECT_EQ(p.arena_bytes, least(p));
  }
}

TEST(MemoryPlan, TreesComeWithinFivePercent) {
  test::random_engine r(3);
  double worst = 1;
  for (int round = 0; round < 100; ++round) {
    plan_maker m = test::tree(r, static_cast<int>(test::random_int(r, 2, 120)));
    plan p = m.take();
    schedule(p);
    for (step_id i = 1; i < p.steps.size(); ++i) p.edges.push_back({i - 1, i});  // one after the other
    p.edges = reduced(p.edges, p.steps.size());
    plan_memory(p);
    verify(p, m.of);
    double const ratio = static_cast<double>(p.arena_bytes) / static_cast<double>(least(p));
    EXPECT_LE(ratio, 1.05) << "round " << round << ": " << p.steps.size() << " steps";
    worst = std::max(worst, ratio);
  }
  RecordProperty("worst", std::to_string(worst));
}

// Branches of small arrays do not wait for each other; branches of large ones do, once they would take more
// than twice the memory.
TEST(MemoryPlan, IndependentBranchesStaySoWhileMemoryLasts) {
  auto const branches = [](std::int64_t elements) {
    plan_maker m;
    buffer_id const x = m.parameter(16);
    std::vector<buffer_id> ends;
    for (int branch = 0; branch < 8; ++branch) {
      buffer_id const a = m.temporary(elements), b = m.temporary(elements), c = m.temporary(16);
      m.step({x}, {a});
      m.step({a}, {b});
      m.step({b}, {c});
      ends.push_back(c);
    }
    m.step(ends, {m.result(16)});
    return m;
  };
  plan_maker small = branches(1000);
  plan before = small.take();
  schedule(before);
  plan const p = planned(small);
  EXPECT_EQ(p.edges, before.edges);
  EXPECT_EQ(p.edges.size(), 8u * 3);

  plan_maker large = branches(4 << 20);
  plan const q = planned(large);
  EXPECT_LE(q.arena_bytes, 2 * least(q));
  EXPECT_GT(q.edges.size(), 8u * 2 + 1);
}

TEST(MemoryPlan, KernelsWriteOverWhatTheyReadLast) {
  plan_maker m;
  buffer_id const x = m.parameter(5000), a = m.temporary(5000), b = m.temporary(5000), c = m.temporary(5000);
  m.step({x}, {a});
  m.negate(a, b);
  m.negate(b, c);
  m.step({c}, {m.result(16)});
  plan const p = planned(m);
  EXPECT_EQ(p.arena_bytes, aligned(20000));
  EXPECT_EQ(p.buffers.size(), 3u);
  EXPECT_EQ(p.steps[1].arguments.size(), 1u);
  EXPECT_TRUE(p.steps[1].operands.empty());
  kernel const& k = p.kernels[std::get<kernel_step>(p.steps[1].work).kernel];
  ASSERT_EQ(k.buffers.size(), 1u);
  EXPECT_TRUE(k.buffers[0].written);
  for (instruction const& i : k.phases[0].body) EXPECT_EQ(i.slot, 0u);
}

TEST(MemoryPlan, KernelsDoNotWriteOverWhatIsReadAgain) {
  plan_maker m;
  buffer_id const x = m.parameter(5000), a = m.temporary(5000), b = m.temporary(5000);
  m.step({x}, {a});
  m.negate(a, b);
  m.step({a, b}, {m.result(16)});
  plan const p = planned(m);
  EXPECT_EQ(p.arena_bytes, 2 * aligned(20000));
  EXPECT_EQ(p.steps[1].arguments.size(), 2u);
}

// Another branch may still read it.
TEST(MemoryPlan, KernelsDoNotWriteOverWhatAnotherBranchReads) {
  plan_maker m;
  buffer_id const x = m.parameter(5000), a = m.temporary(5000), b = m.temporary(5000), c = m.temporary(16);
  m.step({x}, {a});
  m.step({a}, {c});
  m.negate(a, b);
  m.step({b, c}, {m.result(16)});
  plan const p = planned(m);
  for (step const& s : p.steps) EXPECT_GE(s.arguments.size(), 2u);
}

TEST(MemoryPlan, AKernelOfSeveralStepsIsCopiedForLargeArraysOnly) {
  for (std::int64_t elements : {1000, 1 << 20}) {
    plan_maker m;
    buffer_id const x = m.parameter(elements), a = m.temporary(elements), b = m.temporary(elements);
    m.negate(x, a);
    m.negate(a, b);
    m.step({b}, {m.result(16)});
    m.made.kernels.erase(m.made.kernels.begin() + 1);
    std::get<kernel_step>(m.made.steps[1].work).kernel = 0;
    std::get<kernel_step>(m.made.steps[2].work).kernel = 1;
    plan const p = planned(m);
    EXPECT_EQ(p.kernels.size(), elements == 1000 ? 2u : 3u);
    EXPECT_EQ(p.steps[1].arguments.size(), elements == 1000 ? 2u : 1u);
  }
}

TEST(InPlace, NeedsTheSameElementInTheSameIteration) {
  plan_maker m;
  kernel const good = m.negation(100);
  EXPECT_TRUE(can_run_in_place(good, 0, 1));
  EXPECT_FALSE(can_run_in_place(good, 1, 0));
  EXPECT_FALSE(can_run_in_place(good, 0, 2));

  kernel shifted = good;  // element 99 - i
  shifted.phases[0].body[0].index = shifted.index.add(shifted.index.mul(shifted.index.variable(1), -1), 99);
  EXPECT_FALSE(can_run_in_place(shifted, 0, 1));
  shifted.phases[0].body[2].index = shifted.phases[0].body[0].index;  // both backwards
  EXPECT_TRUE(can_run_in_place(shifted, 0, 1));

  kernel same = good;  // every iteration the same element
  same.phases[0].body[0].index = same.phases[0].body[2].index = same.index.constant(3);
  EXPECT_FALSE(can_run_in_place(same, 0, 1));

  kernel folded = good;  // two iterations one element
  folded.phases[0].body[0].index = folded.phases[0].body[2].index =
      folded.index.divide(folded.index.variable(1), 2);
  EXPECT_FALSE(can_run_in_place(folded, 0, 1));

  kernel other_type = good;
  other_type.buffers[0].type = dtype::i32;
  EXPECT_FALSE(can_run_in_place(other_type, 0, 1));
  kernel other_size = good;
  other_size.buffers[0].elements = 101;
  EXPECT_FALSE(can_run_in_place(other_size, 0, 1));

  kernel guarded = good;
  guarded.phases[0].body[2].guard = 0;
  EXPECT_FALSE(can_run_in_place(guarded, 0, 1));

  kernel again = good;  // loaded once more in a later phase
  again.phases.push_back(again.phases[0]);
  again.phases[1].body.resize(1);
  EXPECT_FALSE(can_run_in_place(again, 0, 1));
  std::swap(again.phases[0], again.phases[1]);  // in an earlier one
  EXPECT_TRUE(can_run_in_place(again, 0, 1));
}

TEST(InPlace, NeedsAnotherElementForEachPointOfTheGrid) {
  plan_maker m;
  auto const with = [&](std::int64_t row, std::int64_t column) {
    kernel k = m.negation(40);
    k.grid = {4};
    k.index = {};
    k.index.add_variable(4);
    k.index.add_variable(10);
    k.phases[0].extent = 10;
    index_id const at =
        k.index.add(k.index.mul(k.index.variable(0), row), k.index.mul(k.index.variable(1), column));
    k.phases[0].body[0].index = k.phases[0].body[2].index = at;
    return can_run_in_place(k, 0, 1);
  };
  EXPECT_TRUE(with(10, 1));
  EXPECT_TRUE(with(1, 4));
  EXPECT_FALSE(with(9, 1));
  EXPECT_FALSE(with(1, 3));
  EXPECT_FALSE(with(0, 1));
}

// The verifier's sweep and closure against all pairs, on plans with offsets and edges made wrong.
TEST(PlanVerify, AgreesWithBruteForceOnMemory) {
  test::random_engine r(4);
  int legal = 0, illegal = 0;
  for (int round = 0; round < 600; ++round) {
    plan_maker m = test::random_plan(r, static_cast<int>(test::random_int(r, 2, 25)));
    plan p = planned(m);
    for (std::int64_t n = test::random_int(r, 1, 2); n > 0; --n) {
      plan_buffer& b = p.buffers[static_cast<std::size_t>(test::random_int(r, 0, std::ssize(p.buffers) - 1))];
      if (b.place != buffer_place::temporary) continue;
      b.offset = 256 * test::random_int(r, 0, (p.arena_bytes - aligned(b.bytes())) / 256);
    }
    std::size_t const n = p.steps.size();
    std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
    for (edge e : p.edges) before[e.from][e.to] = true;
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = 0; i < n; ++i)
        if (before[i][k])
          for (std::size_t j = k; j < n; ++j)
            if (before[k][j]) before[i][j] = true;
    std::vector<std::vector<step_id>> uses(p.buffers.size());
    for (step_id i = 0; i < n; ++i)
      for (auto const* list : {&p.steps[i].operands, &p.steps[i].written})
        for (buffer_id b : *list) uses[b].push_back(i);
    auto const all_before = [&](buffer_id a, buffer_id b) {
      for (step_id x : uses[a])
        for (step_id y : uses[b])
          if (!before[x][y]) return false;
      return true;
    };
    bool good = true;
    for (buffer_id a = 0; a < p.buffers.size(); ++a)
      for (buffer_id b = 0; b < a; ++b) {
        plan_buffer const &x = p.buffers[a], &y = p.buffers[b];
        if (x.place != buffer_place::temporary || y.place != buffer_place::temporary) continue;
        bool const overlap = x.offset < y.offset + y.bytes() && y.offset < x.offset + x.bytes();
        good &= !overlap || all_before(a, b) || all_before(b, a);
      }
    if (good) {
      EXPECT_NO_THROW(verify(p, m.of));
    } else {
      EXPECT_THROW(verify(p, m.of), compile_error);
    }
    ++(good ? legal : illegal);
  }
  EXPECT_GT(legal, 50);
  EXPECT_GT(illegal, 50);
}

TEST(MemoryPlan, TenThousandBuffersTakeUnderASecond) {
  auto const timed = [](plan_maker m) {
    plan p = m.take();
    schedule(p);
    auto const start = std::chrono::steady_clock::now();
    plan_memory(p);
    double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    verify(p, m.of);
    EXPECT_LE(p.arena_bytes, std::max(2 * least(p), spare_arena_bytes));
    return seconds;
  };
  test::random_engine r(5);
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 10000; ++i) sizes.push_back(test::random_int(r, 1, 5000));
  EXPECT_LT(timed(test::chain(sizes)), 5);
  EXPECT_LT(timed(test::tree(r, 5000)), 5);
  plan_maker fan;
  buffer_id const x = fan.parameter(16);
  std::vector<buffer_id> all;
  for (int i = 0; i < 10000; ++i) {
    all.push_back(fan.temporary(64));
    fan.step({x}, {all.back()});
  }
  fan.step(all, {fan.result(16)});
  EXPECT_LT(timed(std::move(fan)), 5);
}

TEST(MemoryPlan, EmptyAndUnusedTemporaries) {
  plan_maker m;
  buffer_id const x = m.parameter(16), unused = m.temporary(1000), a = m.temporary(16);
  m.step({x}, {a});
  m.step({a}, {m.result(16)});
  EXPECT_EQ(unused, 1u);
  plan const p = planned(m);
  EXPECT_EQ(p.buffers.size(), 3u);
  EXPECT_EQ(p.arena_bytes, 256);

  plan nothing;
  schedule(nothing);
  plan_memory(nothing);
  EXPECT_EQ(nothing.arena_bytes, 0);
}

}  // namespace
}  // namespace reprise::jit
