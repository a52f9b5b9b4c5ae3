// Edges against brute force over all pairs of steps, the reduction against the closure it must keep, and what
// the order does to memory.
#include "jit/schedule.h"

#include <chrono>
#include <set>

#include <gtest/gtest.h>

#include "jit/plan_support.h"
#include "reprise/error.h"

namespace reprise::jit {
namespace {

using test::plan_maker;
using matrix = std::vector<std::vector<bool>>;

matrix closure(std::size_t n, std::vector<edge> const& edges) {
  matrix before(n, std::vector<bool>(n));
  for (edge e : edges) before[e.from][e.to] = true;
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < k; ++i)
      if (before[i][k])
        for (std::size_t j = k; j < n; ++j)
          if (before[k][j]) before[i][j] = true;
  return before;
}

bool uses(std::vector<buffer_id> const& list, buffer_id b) {
  return std::find(list.begin(), list.end(), b) != list.end();
}

// Every pair of steps of which one writes what the other uses.
std::vector<edge> all_conflicts(plan const& p) {
  std::vector<edge> edges;
  for (step_id j = 0; j < p.steps.size(); ++j)
    for (step_id i = 0; i < j; ++i) {
      bool conflict = false;
      for (buffer_id b = 0; b < p.buffers.size(); ++b) {
        bool const wi = uses(p.steps[i].written, b), wj = uses(p.steps[j].written, b);
        conflict |= (wi && (wj || uses(p.steps[j].operands, b))) || (wj && uses(p.steps[i].operands, b));
      }
      if (conflict) edges.push_back({i, j});
    }
  return edges;
}

TEST(Schedule, EdgesAreThoseOfAllConflictsAndNoneIsMore) {
  test::random_engine r(1);
  for (int round = 0; round < 200; ++round) {
    plan p = test::random_plan(r, static_cast<int>(test::random_int(r, 0, 40))).take();
    std::size_t const n = p.steps.size();
    matrix const want = closure(n, all_conflicts(p));
    auto const edges = reduced(needed_edges(p), n);
    EXPECT_EQ(closure(n, edges), want);
    for (std::size_t e = 0; e < edges.size(); ++e) {
      auto fewer = edges;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(e));
      EXPECT_NE(closure(n, fewer), want) << "an edge that follows from others";
    }
  }
}

TEST(Schedule, ReducesAcrossWindows) {
  std::vector<edge> edges;
  std::size_t const n = 5000;
  for (step_id i = 1; i < n; ++i) {
    edges.push_back({i - 1, i});
    edges.push_back({0, i});
    edges.push_back({i / 2, i});
  }
  std::erase_if(edges, [](edge e) { return e.from == e.to; });
  auto const kept = reduced(edges, n);
  ASSERT_EQ(kept.size(), n - 1);
  for (edge e : kept) EXPECT_EQ(e.from + 1, e.to);
}

TEST(Schedule, IsLegalAndNeverNeedsMore) {
  test::random_engine r(2);
  int better = 0;
  for (int round = 0; round < 200; ++round) {
    plan_maker m = test::random_plan(r, static_cast<int>(test::random_int(r, 1, 60)));
    plan p = m.take();
    plan const given = p;
    schedule(p);
    verify_schedule(p, m.of);
    EXPECT_LE(peak_bytes(p), peak_bytes(given));
    better += peak_bytes(p) < peak_bytes(given);
    // every step reads what it read before, made by the same step
    auto const writers = [](plan const& q) {
      std::multiset<std::string> all;
      std::vector<std::string> by(q.buffers.size());
      for (step const& s : q.steps) {
        std::string line = q.kernels[std::get<kernel_step>(s.work).kernel].name;
        std::string const name = line;
        for (buffer_id b : s.operands) line += " " + by[b];
        all.insert(line);
        for (buffer_id b : s.written) by[b] = name;
      }
      return all;
    };
    EXPECT_EQ(writers(p), writers(given));
  }
  EXPECT_GT(better, 20);
}

// Eight large arrays, each made and summed up at once or all made first: the order matters by a factor of
// eight.
TEST(Schedule, SumsUpWhatIsLargeBeforeItMakesMore) {
  plan_maker m;
  buffer_id const x = m.parameter(16);
  std::vector<buffer_id> large, small;
  for (int i = 0; i < 8; ++i) {
    large.push_back(m.temporary(10000));
    m.step({x}, {large.back()});
  }
  for (int i = 0; i < 8; ++i) {
    small.push_back(m.temporary(10));
    m.step({large[static_cast<std::size_t>(i)]}, {small.back()});
  }
  m.step(small, {m.result(16)});
  plan p = m.take();
  EXPECT_EQ(peak_bytes(p), 8 * 40000 + 40);
  schedule(p);
  verify_schedule(p, m.of);
  EXPECT_EQ(peak_bytes(p), 40000 + 8 * 40);
}

TEST(Schedule, KeepsTheOrderWhenNothingIsGained) {
  plan_maker m = test::chain({100, 100, 100, 100});
  plan p = m.take();
  schedule(p);
  for (std::size_t i = 0; i < p.steps.size(); ++i)
    EXPECT_EQ(std::get<kernel_step>(p.steps[i].work).kernel, i);
  EXPECT_EQ(p.edges, (std::vector<edge>{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
}

TEST(Schedule, AMissingEdgeAndOneTooManyAreRefused) {
  test::random_engine r(3);
  for (int round = 0; round < 100; ++round) {
    plan_maker m = test::random_plan(r, 12);
    plan p = m.take();
    schedule(p);
    if (p.edges.empty()) continue;
    std::size_t const at = static_cast<std::size_t>(test::random_int(r, 0, std::ssize(p.edges) - 1));
    plan fewer = p;
    fewer.edges.erase(fewer.edges.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_THROW(verify_schedule(fewer, m.of), compile_error);
    matrix const before = closure(p.steps.size(), p.edges);
    for (step_id to = 0; to < p.steps.size(); ++to)
      for (step_id from = 0; from < to; ++from) {
        if (!before[from][to]) continue;  // (an edge that is there is refused, too)
        plan more = p;
        more.edges.push_back({from, to});
        EXPECT_THROW(verify_schedule(more, m.of), compile_error);
      }
  }
}

TEST(Schedule, TenThousandStepsTakeUnderASecond) {
  auto const timed = [](plan p) {
    auto const start = std::chrono::steady_clock::now();
    schedule(p);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  EXPECT_LT(timed(test::chain(std::vector<std::int64_t>(10000, 64)).take()), 5);
  plan_maker fan;
  buffer_id const x = fan.parameter(16);
  std::vector<buffer_id> all;
  for (int i = 0; i < 10000; ++i) {
    all.push_back(fan.temporary(64));
    fan.step({x}, {all.back()});
  }
  fan.step(all, {fan.result(16)});
  EXPECT_LT(timed(fan.take()), 5);
}

}  // namespace
}  // namespace reprise::jit
