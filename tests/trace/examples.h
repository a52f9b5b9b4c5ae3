// One legal use of every row of ops.def and its result: elementwise rows and reductions from their columns,
// every other row by hand. A row without an example fails the test `infer.knows_every_row`.
#pragma once

#include <vector>

#include "trace/program.h"

namespace reprise::ir {

struct example {
  op code;
  std::vector<tensor_type> operands;
  std::vector<std::int64_t> attributes;
  tensor_type expected;
};

inline std::vector<dtype> dtypes() {
  std::vector<dtype> all;
  for (int i = 0; i < dtype_count; ++i) all.push_back(static_cast<dtype>(i));
  return all;
}

inline std::vector<example> examples() {
  using enum dtype;
  std::vector<example> all;
  for (int i = 0; i < op_count(); ++i) {
    op_info const& row = info(static_cast<op>(i));
    for (dtype t : dtypes()) {
      if (!accepts_dtype(row.operands, t)) continue;
      if (row.kind == category::elementwise) {
        dtype const result = row.result == result_rule::boolean ? boolean : t;
        std::vector<tensor_type> operands(static_cast<std::size_t>(row.arity), {t, {2, 3}});
        all.push_back({row.code, operands, {}, {result, {2, 3}}});
        operands.back().shape = {};
        if (row.arity > 1) all.push_back({row.code, operands, {}, {result, {2, 3}}});
      } else if (row.kind == category::reduction) {
        dtype const result = row.result == result_rule::summed ? sum_type(t) : t;
        all.push_back({row.code, {{t, {2, 3, 4}}}, {1, 1}, {result, {2, 4}}});
        all.push_back({row.code, {{t, {2, 3, 4}}}, {3, 0, 1, 2}, {result, {}}});
      } else if (row.kind == category::arg_reduction) {
        all.push_back({row.code, {{t, {2, 3}}}, {0}, {i64, {3}}});
      }
    }
  }
  std::int64_t const to_half = static_cast<std::int64_t>(f16);
  std::vector<example> const others = {
      {op::where, {{boolean, {}}, {f32, {3}}, {f32, {}}}, {}, {f32, {3}}},
      {op::where, {{boolean, {3}}, {i32, {}}, {i32, {}}}, {}, {i32, {3}}},
      {op::cast, {{boolean, {2, 0}}}, {to_half}, {f16, {2, 0}}},
      {op::reshape, {{f32, {2, 3}}}, {3, 3, 1, 2}, {f32, {3, 1, 2}}},
      {op::reshape, {{f32, {1}}}, {0}, {f32, {}}},
      {op::transpose, {{u8, {2, 3, 4}}}, {3, 2, 0, 1}, {u8, {4, 2, 3}}},
      {op::broadcast_to, {{f32, {3, 1}}}, {3, 2, 3, 4}, {f32, {2, 3, 4}}},
      {op::broadcast_to, {{f32, {1}}}, {1, 0}, {f32, {0}}},
      {op::slice, {{f32, {5, 6}}}, {2, 4, 1, 2, -2, 3, 2, 3, 2}, {f32, {3, 2}}},
      {op::slice, {{f32, {5}}}, {1, 5, 1, 1, 1, 0}, {f32, {0}}},
      {op::slice_update, {{f32, {5, 6}}, {f32, {3, 2}}}, {2, 4, 1, 2, -2, 3}, {f32, {5, 6}}},
      {op::concatenate, {{f32, {2, 3}}, {f32, {2, 0}}, {f32, {2, 4}}}, {1}, {f32, {2, 7}}},
      {op::pad, {{f32, {2, 3}}, {f32, {}}}, {2, 1, 0, 2, 0, 4}, {f32, {3, 7}}},
      {op::sliding_window, {{f32, {1, 8, 9}}}, {2, 2, 1, 2, 3, 2, 2, 2, 1, 2, 1, 3}, {f32, {1, 5, 4, 3, 2}}},
      {op::iota, {}, {2, 2, 3, 1}, {i64, {2, 3}}},
      {op::philox, {{i64, {}}}, {1, 7}, {i64, {7}}},
      {op::matmul, {{f32, {2, 3}}, {f32, {3, 4}}}, {}, {f32, {2, 4}}},
      {op::matmul, {{i32, {5, 1, 2, 0}}, {i32, {7, 0, 4}}}, {}, {i32, {5, 7, 2, 4}}},
      {op::conv2d,
       {{f32, {2, 4, 9, 8}}, {f32, {6, 2, 3, 2}}},
       {2, 2, 1, 4, 1, 0, 2, 3, 2, 2, 3, 2},
       {f32, {2, 6, 4, 8}}},
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

// A program of all examples, each with parameters of its own, each a result; and constants of every dtype
// with the values that are easily lost.
inline program program_of_examples() {
  program p;
  builder b(p);
  auto result = [&](node_id n) {
    p.results.push_back({n, result_role::returned, 0, std::to_string(p.results.size())});
  };
  for (example const& e : examples()) {
    std::vector<node_id> operands;
    for (tensor_type const& t : e.operands) operands.push_back(b.parameter(t));
    result(b.add(e.code, operands, e.attributes,
                 p.add_line("some \"file\"\n.cpp", static_cast<int>(p.nodes.size()))));
  }
  for (dtype t : dtypes())
    for (double value :
         {0.0, -0.0, 1.0, 0.1, -1.5, 1e-7, 1e9, 3e38, 4.9e-324, 1e-42, -1.0 / 0.0, 1.0 / 0.0, 0.0 / 0.0})
      result(b.constant(t, value));
  for (std::uint64_t bits : {0x8000000000000000u, 0x7fffffffffffffffu, 0x20000000000001u})
    result(b.constant(dtype::i64, std::uint64_t{bits}));
  // A region node and, in it, another.
  program body;
  builder in(body);
  node_id const x = in.parameter({dtype::f32, {2}});
  body.results.push_back({in.add(op::mul, {x, in.constant(dtype::f32, 0.5)}), result_role::returned, 0, "0"});
  body.segments.push_back({static_cast<node_id>(body.nodes.size()), {}});
  program condition;
  builder test(condition);
  node_id const y = test.parameter({dtype::f32, {2}});
  node_id const small = test.add(op::less, {y, test.constant(dtype::f32, 3.0)});
  condition.results.push_back({test.add(op::any, {small}, {1, 0}), result_role::returned, 0, "0"});
  condition.segments.push_back({static_cast<node_id>(condition.nodes.size()), {}});
  std::int64_t const first = 0;
  program loop;
  builder around(loop);
  node_id const z[] = {around.parameter({dtype::f32, {2}})};
  loop.results.push_back(
      {loop.append_region(op::while_loop, z, {&first, 1}, {condition, body}), result_role::returned, 0, "0"});
  loop.segments.push_back({static_cast<node_id>(loop.nodes.size()), {}});
  node_id const start[] = {b.parameter({dtype::f32, {2}}, parameter_role::captured, "captured.0")};
  std::int64_t const count[] = {3, 0};
  node_id const repeated = p.append_region(op::repeat, start, count, {loop});
  p.results.push_back(
      {repeated, result_role::in_out, static_cast<std::uint32_t>(p.parameters.size() - 1), "w"});
  node_id const choice[] = {b.parameter({dtype::boolean, {}}), start[0]};
  p.results.push_back(
      {p.append_region(op::cond, choice, {&first, 1}, {body, loop}), result_role::handle, 0, "h"});
  // A read of what an early node gave.
  node_id const lifted = b.parameter({dtype::f16, {}}, parameter_role::lifted, "lifted.0");
  result(b.add(op::neg, {lifted}));
  p.segments.push_back(
      {static_cast<node_id>(p.nodes.size()), {{lifted, {0x3c00}}, {start[0], {0x7fc00000, 0x80000000}}}});
  result(b.add(op::exp, {start[0]}));
  p.segments.push_back({static_cast<node_id>(p.nodes.size()), {}});
  return p;
}

}  // namespace reprise::ir
