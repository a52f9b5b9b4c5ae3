// Each rule of docs/program.md is broken in turn; the message names the rule.
#include <gtest/gtest.h>

#include <functional>

#include "examples.h"

#include <reprise/error.h>

namespace reprise::ir {
namespace {

using enum dtype;

// parameters x, y: float32(3,); nodes x, y, 0.5, x + y, (x + y) * 0.5
program good() {
  program p;
  builder b(p);
  node_id const x = b.parameter({f32, {3}}), y = b.parameter({f32, {3}});
  node_id const half = b.constant(f32, 0.5);
  p.results.push_back({b.add(op::mul, {b.add(op::add, {x, y}), half}), result_role::returned, 0, "0"});
  p.results.push_back({3, result_role::in_out, 1, "y"});
  p.segments.push_back({5, {}});
  return p;
}

program with_region() {
  program body;
  builder in(body);
  node_id const x = in.parameter({f32, {}});
  body.results.push_back({in.add(op::neg, {x}), result_role::returned, 0, "0"});
  body.segments.push_back({2, {}});
  program p;
  builder b(p);
  node_id const start[] = {b.parameter({f32, {}})};
  std::int64_t const count[] = {2, 0};
  p.results.push_back({p.append_region(op::repeat, start, count, {body}), result_role::returned, 0, "0"});
  p.segments.push_back({2, {}});
  return p;
}

program with_read() {
  program p = good();
  p.segments = {{4, {{3, {0, 1, 2}}}}, {5, {}}};
  return p;
}

struct broken_program {
  char const* message;
  program (*from)();
  std::function<void(program&)> change;
};

TEST(verify, accepts_what_is_legal) {
  EXPECT_NO_THROW(verify(good()));
  EXPECT_NO_THROW(verify_runnable(good()));
  EXPECT_NO_THROW(verify(with_region()));
  EXPECT_NO_THROW(verify(with_read()));
  EXPECT_NO_THROW(verify(program_of_examples()));
}

TEST(verify, names_the_rule_that_is_broken) {
  std::vector<broken_program> const cases = {
      {"P1: node 3 (add): operand 3 is not an earlier node", good, [](program& p) { p.operands[0] = 3; }},
      {"P1: node 3 (add): operand 4294967295", good, [](program& p) { p.operands[1] = no_node; }},
      {"P1: node 4: its operands are not in the program", good,
       [](program& p) { p.nodes[4].first_operand = 3; }},
      {"P1: node 4: its operands are not in the program", good,
       [](program& p) { p.nodes[4].operand_count = no_node; }},
      {"P1: node 4: no source line 1", good, [](program& p) { p.nodes[4].line = 1; }},
      {"P2: node 4 (mul) is float64(3,), its rule gives float32(3,)", good,
       [](program& p) { p.nodes[4].type = f64; }},
      {"P2: node 4 (mul) is float32(4,), its rule gives float32(3,)", good,
       [](program& p) { p.nodes[4].shape = {4}; }},
      {"P2: node 2 (constant)", good, [](program& p) { p.nodes[2].shape = {1}; }},
      {"P2: node 3 has no operation", good,
       [](program& p) { p.nodes[3].code = static_cast<op>(op_count()); }},
      {"P2: node 2 has no dtype", good,
       [](program& p) { p.nodes[2].type = static_cast<dtype>(dtype_count); }},
      {"P2: parameter 0 has no dtype", good,
       [](program& p) { p.parameters[0].type.type = static_cast<dtype>(200); }},
      {"P3: node 3: add: operands float32(3,) and float32(4,): shapes differ", good,
       [](program& p) { p.nodes[1].shape = p.parameters[1].type.shape = {4}; }},
      {"P3: node 3: add: operands float32(3,) and float64(3,): dtypes differ", good,
       [](program& p) { p.nodes[1].type = p.parameters[1].type.type = f64; }},
      {"P4: node 3: its attributes are not in the program", good,
       [](program& p) { p.nodes[3].attribute_count = 9; }},
      {"P4: node 3: add: operands float32(3,) and float32(3,): 1 attribute words too many", good,
       [](program& p) { p.nodes[3].first_attribute = 0, p.nodes[3].attribute_count = 1; }},
      {"P4: node 2 (constant): has one attribute word", good,
       [](program& p) { p.nodes[2].attribute_count = 0; }},
      {"P4: node 2 (constant): 0x100000000 has more bits than float32", good,
       [](program& p) { p.attributes[2] = std::int64_t{1} << 32; }},
      {"P4: node 2 (constant): 0xffc00000 is not the one nan", good,
       [](program& p) { p.attributes[2] = 0xffc00000; }},
      {"P4: node 0 (parameter): has one attribute word", good,
       [](program& p) { p.nodes[0].attribute_count = 0; }},
      {"P5: node 0: parameter 2 of 2", good, [](program& p) { p.attributes[0] = 2; }},
      {"P5: node 0: parameter -1 of 2", good, [](program& p) { p.attributes[0] = -1; }},
      {"P5: node 1: a second node for parameter 0", good, [](program& p) { p.attributes[1] = 0; }},
      {"P5: node 1 (parameter) is float32(3,), its rule gives float64(3,)", good,
       [](program& p) { p.parameters[1].type.type = f64; }},
      {"P6: parameter 0 is float32(-3,): a negative extent", good,
       [](program& p) { p.parameters[0].type.shape[0] = -3; }},
      {"P6: parameter 0 is float32(4611686018427387904,): 2^62 elements or more", good,
       [](program& p) { p.parameters[0].type.shape[0] = std::int64_t{1} << 62; }},
      {"P7: the lifted parameter 0", good, [](program& p) { p.parameters[0].role = parameter_role::lifted; }},
      {"P8: result 0 names node 5, of 5", good, [](program& p) { p.results[0].value = 5; }},
      {"P8: result 1 is written to parameter 2, of 2", good, [](program& p) { p.results[1].parameter = 2; }},
      {"P8: result 1 is float32() and is written to parameter 1, which is float32(3,)", good,
       [](program& p) { p.results[1].value = 2; }},
      {"P8: two results are written to parameter 1", good,
       [](program& p) { p.results.push_back(p.results[1]); }},
      {"P9: there is no segment", good, [](program& p) { p.segments.clear(); }},
      {"P9: the last segment ends at 4, not at the node count 5", good,
       [](program& p) { p.segments[0].end = 4; }},
      {"P9: segment 0 ends at 6, of 5 nodes", good, [](program& p) { p.segments[0].end = 6; }},
      {"P9: segment 1 ends at 3, before", with_read, [](program& p) { p.segments[1].end = 3; }},
      {"P9: the last segment has reads", with_read,
       [](program& p) { std::swap(p.segments[0].reads, p.segments[1].reads); }},
      {"P9: segment 0 reads node 4, which is not before its end 4", with_read,
       [](program& p) { p.segments[0].reads[0].value = 4; }},
      {"P9: segment 0 saw 2 elements of node 3", with_read,
       [](program& p) { p.segments[0].reads[0].seen.pop_back(); }},
      {"P9: segment 0 saw 0x100000000 in node 3", with_read,
       [](program& p) { p.segments[0].reads[0].seen[0] = std::uint64_t{1} << 32; }},
      {"P9: segment 0 reads node 3, float32(1025,): more than 4096 bytes", with_read,
       [](program& p) {
         for (int i : {0, 1}) p.parameters[static_cast<std::size_t>(i)].type.shape = {1025};
         for (int i : {0, 1, 3, 4}) p.nodes[static_cast<std::size_t>(i)].shape = {1025};
       }},
      {"P10: node 1: repeat: operand float32(): has 0 regions, not 1", with_region,
       [](program& p) { p.nodes[1].region_count = 0, p.regions.clear(); }},
      {"P10: node 1: its regions are not the next ones", with_region,
       [](program& p) { p.nodes[1].region_count = 2; }},
      {"P10: node 1: its regions are not the next ones", with_region,
       [](program& p) { p.nodes[1].first_region = 1; }},
      {"P10: 1 regions belong to nodes, of 2", with_region,
       [](program& p) { p.regions.push_back(p.regions[0]); }},
      {"P10: node 1: neg: operand float32(): takes no regions", with_region,
       [](program& p) { p.nodes[1].code = op::neg, p.nodes[1].attribute_count = 0; }},
      {"P10: node 1: repeat: operand float32(): count is -1", with_region,
       [](program& p) { p.attributes[1] = -1; }},
      {"P10: node 1: repeat: operand float32(): parameter 0 of the body is float64(), its operand is "
       "float32()",
       with_region,
       [](program& p) {
         program& body = p.regions[0];
         body.parameters[0].type.type = body.nodes[0].type = body.nodes[1].type = f64;
       }},
      {"P10: node 1: repeat: operand float32(): result 0 of the body is bool()", with_region,
       [](program& p) {
         program& body = p.regions[0];
         body.nodes[1].code = op::logical_not, body.nodes[1].type = boolean;
       }},
      {"P10: node 1: repeat: operand float32(): the body has 0 results", with_region,
       [](program& p) { p.regions[0].results.clear(); }},
      {"P10: node 1, in region 0: a region has more than one segment", with_region,
       [](program& p) { p.regions[0].segments = {{1, {}}, {2, {}}}; }},
      {"P10: node 1, in region 0: result 0 of a region is not returned", with_region,
       [](program& p) { p.regions[0].results[0].role = result_role::in_out; }},
      {"P10: node 1, in region 0: parameter 0 of a region is not an argument", with_region,
       [](program& p) { p.regions[0].parameters[0].role = parameter_role::captured; }},
      {"P1: node 1, in region 0: node 1 (neg): operand 1 is not an earlier node", with_region,
       [](program& p) { p.regions[0].operands[0] = 1; }},
  };
  for (broken_program const& c : cases) {
    program p = c.from();
    c.change(p);
    try {
      verify(p);
      ADD_FAILURE() << "accepted, not: " << c.message;
    } catch (argument_error const& e) {
      EXPECT_EQ(std::string(e.what()).find(c.message), 0u) << e.what() << "\n  not: " << c.message;
    }
  }
}

TEST(verify, judges_the_regions_of_every_kind) {
  program test, body, two;
  builder a(test), b(body), c(two);
  test.results.push_back(
      {a.add(op::less, {a.parameter({f32, {}}), a.constant(f32, 3.0)}), result_role::returned, 0, "0"});
  test.segments.push_back({3, {}});
  body.results.push_back({b.add(op::neg, {b.parameter({f32, {}})}), result_role::returned, 0, "0"});
  body.segments.push_back({2, {}});
  two.results.push_back(
      {c.add(op::add, {c.parameter({f32, {}}), c.parameter({f32, {}})}), result_role::returned, 0, "0"});
  two.segments.push_back({3, {}});
  tensor_type const x{f32, {}}, t{boolean, {}};
  auto infer_of = [](op code, std::vector<tensor_type> operands, std::vector<program> regions) {
    std::int64_t const attributes[] = {1, 0};
    return str(infer_region(code, operands, words(attributes).subspan(code == op::repeat ? 0 : 1), regions));
  };
  EXPECT_EQ(infer_of(op::while_loop, {x}, {test, body}), "float32()");
  EXPECT_EQ(infer_of(op::cond, {t, x}, {body, body}), "float32()");
  EXPECT_EQ(infer_of(op::repeat, {x, x}, {two}), "float32()");  // the second argument stays
  program pair = two;  // two results: the attribute says which the node is
  pair.results.push_back({1, result_role::returned, 0, "1"});
  std::int64_t const second[] = {1}, third[] = {2};
  tensor_type const operands[] = {t, x, x};
  program const both[] = {pair, pair};
  EXPECT_EQ(str(infer_region(op::cond, operands, second, both)), "float32()");
  EXPECT_THROW(infer_region(op::cond, operands, third, both), argument_error);
  EXPECT_THROW(infer_of(op::while_loop, {x}, {body, body}), argument_error);
  EXPECT_THROW(infer_of(op::while_loop, {x}, {test, test}), argument_error);
  EXPECT_THROW(infer_of(op::while_loop, {x}, {test}), argument_error);
  EXPECT_THROW(infer_of(op::cond, {x, x}, {body, body}), argument_error);
  EXPECT_THROW(infer_of(op::cond, {t, x}, {body, test}), argument_error);
  EXPECT_THROW(infer_of(op::cond, {t, x}, {body, two}), argument_error);
  EXPECT_THROW(infer_of(op::cond, {t, x}, {body}), argument_error);
  EXPECT_THROW(infer_of(op::repeat, {x}, {two}), argument_error);
}

TEST(verify, runs_no_deeper_than_it_says) {
  program p = with_region();
  for (int i = 0; i < max_nesting - 1; ++i) {
    program around = with_region();
    around.regions[0] = p;
    p = around;
  }
  EXPECT_NO_THROW(verify(p));
  program around = with_region();
  around.regions[0] = p;
  EXPECT_THROW(verify(around), argument_error);
  EXPECT_THROW(key_bytes(around), argument_error);
  EXPECT_THROW(canonical(around), argument_error);
  EXPECT_THROW(to_json(around), argument_error);
  EXPECT_EQ(key_bytes(from_json(to_json(p))), key_bytes(p));
}

TEST(verify, refuses_to_run_what_this_version_does_not) {
  try {
    verify_runnable(with_region());
    ADD_FAILURE();
  } catch (unsupported_error const& e) {
    EXPECT_EQ(std::string(e.what()).find("P12: node 1 (repeat) has regions"), 0u) << e.what();
  }
  try {
    verify_runnable(with_read());
    ADD_FAILURE();
  } catch (unsupported_error const& e) {
    EXPECT_EQ(std::string(e.what()).find("P12: 2 segments, the first ends at node 4"), 0u) << e.what();
  }
}

}  // namespace
}  // namespace reprise::ir
