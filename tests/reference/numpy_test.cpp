// Every row of ops.def against the values that NumPy gave (tests/data/numpy, written by
// tools/reference_values.py).
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>

#include "stored_values.h"
#include "support/build.h"
#include "support/compare.h"

namespace reprise::test {
namespace {

constexpr char const* files[] = {"elementwise", "conversions", "reductions", "movement", "library"};

stored_values read_file(std::string const& name) {
  return read_stored(REPRISE_TEST_DATA "/numpy/" + name + ".bin");
}

program program_of(stored_case const& c, stored_values const& all) {
  program p;
  builder b(p);
  std::vector<node_id> in;
  for (std::size_t i : c.in) in.push_back(b.parameter(all.arrays[i].type));
  node_id n = 0;
  if (c.code == op::constant)
    n = b.constant(all.arrays[c.out].type.type, static_cast<std::uint64_t>(c.attributes[0]));
  else if (c.code != op::parameter) n = b.add(c.code, in, c.attributes);
  finish(p, {&n, 1});
  return p;
}

void compare_file(std::string const& name) {
  stored_values const all = read_file(name);
  std::map<ir::op, int> cases;
  for (stored_case const& c : all.cases) {
    std::string text = ir::info(c.code).name;
    std::vector<host_tensor> parameters;
    for (std::size_t i : c.in) {
      parameters.push_back(all.arrays[i]);
      text += " " + str(all.arrays[i].type);
    }
    ++cases[c.code];
    std::vector<host_tensor> const got = run_reference(program_of(c, all), parameters);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(difference(got[0], all.arrays[c.out], {.ulps = c.ulps}), "") << text;
  }
  std::cout << name << ": " << cases.size() << " rows, " << all.cases.size() << " cases\n";
}

TEST(numpy, elementwise) { compare_file("elementwise"); }
TEST(numpy, conversions) { compare_file("conversions"); }
TEST(numpy, reductions) { compare_file("reductions"); }
TEST(numpy, movement_and_sources) { compare_file("movement"); }
TEST(numpy, library) { compare_file("library"); }

// A row without values is a row that nobody has checked. An elementwise row needs them for each dtype that it
// accepts.
TEST(numpy, every_row_has_values) {
  std::map<ir::op, std::map<dtype, int>> stored;
  for (char const* name : files) {
    stored_values const all = read_file(name);
    for (stored_case const& c : all.cases)
      ++stored[c.code][all.arrays[c.in.empty() ? c.out : c.in.back()].type.type];
  }
  for (int i = 0; i < ir::op_count(); ++i) {
    ir::op_info const& row = ir::info(static_cast<ir::op>(i));
    if (row.kind == ir::category::region) continue;
    EXPECT_FALSE(stored[row.code].empty())
        << row.name << " has no stored values: run tools/reference_values.py";
    if (row.kind == ir::category::movement || row.kind == ir::category::source) continue;
    for (dtype type : all_dtypes()) {
      if (!ir::accepts_dtype(row.operands, type)) continue;
      EXPECT_GT(stored[row.code][type], 0) << row.name << " has no stored values of " << name_of(type);
    }
  }
}

}  // namespace
}  // namespace reprise::test
