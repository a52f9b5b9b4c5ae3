// The sweep and the random programs are legal, reach every row, and their judge accepts what docs/numbers.md
// allows and nothing else: a sloppy backend, made of the reference with every allowance used up, passes; one
// wrong bit does not.
#include "support/sweep.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/random_program.h"

namespace reprise::test {
namespace {

// Moves a floating element up to `ulps` places, either way; not off zero, infinity or nan.
void nudge(random_engine& r, host_tensor& t, std::int64_t i, std::int64_t ulps) {
  double const v = t.number(i);
  if (!std::isfinite(v) || v == 0) return;
  std::int64_t const by = random_int(r, -ulps, ulps);
  std::uint64_t const bits = t.bits(i), sign = std::uint64_t{1} << (8 * size_of(t.type.type) - 1);
  std::int64_t const magnitude = static_cast<std::int64_t>(bits & (sign - 1)) + by;
  if (magnitude <= 0) return;
  host_tensor moved = make_tensor(tensor_type{t.type.type, {}});
  moved.set_bits(0, (bits & sign) | static_cast<std::uint64_t>(magnitude));
  if (std::isfinite(moved.number(0))) t.set_bits(i, moved.bits(0));
}

// As wrong as a backend may be, and then by a factor.
std::vector<host_tensor> run_sloppily(program const& p, std::vector<host_tensor> const& parameters,
                                      random_engine& r, std::int64_t factor = 1) {
  std::vector<host_tensor> got(p.nodes.size()), exact = run_reference_all(p, parameters);
  for (node_id n = 0; n < p.nodes.size(); ++n) {
    std::vector<host_tensor const*> in;
    for (node_id o : p.operands_of(n)) in.push_back(&got[o]);
    op const code = p.nodes[n].code;
    got[n] = code == op::parameter ? exact[n] : run_reference_node(p, n, in);
    if (!is_floating(p.nodes[n].type)) continue;
    std::int64_t ulps = in.empty() ? 0 : allowed_ulps(code, in[0]->type.type);
    if (ir::info(code).kind == ir::category::library) ulps = 1;
    if (ulps != 0)
      for (std::int64_t i = 0; i < got[n].size(); ++i) nudge(r, got[n], i, ulps * factor);
  }
  std::vector<host_tensor> results;
  for (ir::result const& x : p.results) results.push_back(got[x.value]);
  return results;
}

TEST(sweep, is_legal_and_reaches_every_row) {
  std::map<op, int> reached;
  random_engine r(5);
  std::set<std::string> names;
  int const count = for_each_case([&](sweep_case const& c) {
    verify_runnable(c.code);
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    for (ir::node const& n : c.code.nodes) ++reached[n.code];
    EXPECT_EQ(c.check(run_sloppily(c.code, c.parameters, r)), "");
  });
  EXPECT_EQ(static_cast<std::size_t>(count), names.size());
  for (int i = 0; i < ir::op_count(); ++i) {
    ir::op_info const& row = ir::info(static_cast<op>(i));
    if (row.kind == ir::category::region) continue;
    EXPECT_GT(reached[row.code], 0) << row.name;
  }
  std::cout << "sweep: " << count << " programs\n";
}

TEST(sweep, judges_each_elementary_row) {
  random_engine r(8);
  int rows = 0;
  for (int i = 0; i < ir::op_count(); ++i) {
    ir::op_info const& row = ir::info(static_cast<op>(i));
    if (row.ulps == 0) continue;
    ++rows;
    auto const judge = [&](sweep_case const& c) {
      EXPECT_EQ(c.check(run_sloppily(c.code, c.parameters, r)), "");
      EXPECT_NE(c.check(run_sloppily(c.code, c.parameters, r, 2)), "") << c.name;
    };
    for (char const* type : {"float16", "bfloat16", "float32", "float64"})
      EXPECT_EQ(for_each_case(judge, {.only = fmt::format("{} {}", row.name, type)}), 1);
  }
  EXPECT_GT(rows, 10);
}

TEST(sweep, is_the_same_for_the_same_seed_and_alone) {
  std::vector<sweep_case> first;
  for (int i = 0; i < 2; ++i)
    for_each_case([&](sweep_case const& c) { first.push_back(c); },
                  {.seed = 9, .only = i == 0 ? "mod" : "mod float32"});
  sweep_case const& alone = first.back();
  int found = 0;
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    if (first[i].name != alone.name) continue;
    ++found;
    ASSERT_EQ(first[i].parameters.size(), alone.parameters.size());
    for (std::size_t k = 0; k < alone.parameters.size(); ++k)
      EXPECT_EQ(first[i].parameters[k].bytes, alone.parameters[k].bytes);
    EXPECT_EQ(key_bytes(first[i].code), key_bytes(alone.code));
  }
  EXPECT_EQ(found, 1);
}

TEST(random_programs, are_legal_and_reach_every_row) {
  std::map<op, int> reached;
  std::map<std::string, int> kinds;
  random_engine r(6);
  std::int64_t judged = 0, open = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    random_case const c = random_program(seed, {.inexact = seed % 2 == 0});
    verify_runnable(c.code);
    ASSERT_EQ(key_bytes(canonical(c.code)), key_bytes(c.code)) << c.name;
    for (ir::node const& n : c.code.nodes) {
      ++reached[n.code];
      if (n.shape.size() == 0) ++kinds["empty"];
      if (n.shape.rank() == 0) ++kinds["rank 0"];
      if (n.shape.rank() >= 3) ++kinds["rank 3 and more"];
    }
    if (c.code.results.size() > 2) ++kinds["several results"];
    ASSERT_EQ(c.check(run_sloppily(c.code, c.parameters, r)), "");
    // how much of the judgement has teeth
    auto const values = run_reference_all(c.code, c.parameters);
    auto const bounds = error_bounds(c.code, values);
    for (ir::result const& x : c.code.results) {
      judged += values[x.value].size();
      if (!bounds[x.value].absolute) continue;
      for (std::int64_t i = 0; i < values[x.value].size(); ++i) {
        double const e = bounds[x.value].absolute->get<double>(i), v = std::fabs(values[x.value].number(i));
        open += !(e <= 0.1 * std::max(v, 0.1));
      }
    }
  }
  for (int i = 0; i < ir::op_count(); ++i) {
    ir::op_info const& row = ir::info(static_cast<op>(i));
    if (row.kind == ir::category::region) continue;
    EXPECT_GT(reached[row.code], 0) << row.name;
  }
  EXPECT_EQ(kinds.size(), 4u);
  EXPECT_LT(static_cast<double>(open), 0.1 * static_cast<double>(judged));
  std::cout << "random programs: " << judged << " elements judged, " << open << " of them loosely\n";
}

TEST(random_programs, without_allowances_let_no_bit_pass) {
  int judged = 0;
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    random_case const c = random_program(seed, {.inexact = false});
    std::vector<host_tensor> got = run_reference(c.code, c.parameters);
    EXPECT_EQ(c.check(got), "");
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i].size() == 0 || is_nan(got[i], got[i].size() - 1)) continue;
      std::vector<host_tensor> wrong = got;
      wrong[i].set_bits(got[i].size() - 1, got[i].bits(got[i].size() - 1) ^ 1);
      EXPECT_NE(c.check(wrong), "");
      ++judged;
    }
  }
  EXPECT_GT(judged, 200);
}

TEST(bounds, refuse_an_operation_that_jumps) {
  program p;
  builder b(p);
  node_id const x = b.parameter({dtype::f32, {3}}), y = b.add(op::exp, {x}), z = b.add(op::floor, {y});
  finish(p, {&z, 1});
  std::vector<host_tensor> const in{make_tensor(reprise::shape{3}, std::vector<float>{1, 2, 3})};
  EXPECT_THROW(check_results(p, in, run_reference(p, in)), std::logic_error);
}

TEST(bounds, catch_a_product_beyond_its_bound) {
  program p;
  builder b(p);
  node_id const x = b.parameter({dtype::f32, {4, 50}}), y = b.parameter({dtype::f32, {50, 3}});
  node_id const z = b.add(op::relu, {b.add(op::matmul, {x, y})});
  finish(p, {&z, 1});
  random_engine r(7);
  std::vector<host_tensor> const in = random_parameters(r, p, {.specials = 0, .spread = 0, .any_bits = 0});
  std::vector<host_tensor> got = run_reference(p, in);
  std::int64_t at = 0;
  while (got[0].get<float>(at) < 1) ++at;
  got[0].set<float>(at, got[0].get<float>(at) * (1 + 1e-7f));
  EXPECT_EQ(check_results(p, in, got), "");
  got[0].set<float>(at, got[0].get<float>(at) * (1 + 1e-3f));
  EXPECT_NE(check_results(p, in, got), "");
}

}  // namespace
}  // namespace reprise::test
