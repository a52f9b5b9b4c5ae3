// Kernels give the reference's bits: every operation by itself and with what it is fused with, on special
// values, empty arrays and rank 0, in every order of reduction and on both sides of each limit.
#include <gtest/gtest.h>

#include "jit/programs.h"
#include "jit/run_plan.h"
#include "support/bounds.h"

namespace reprise::test {
namespace {

using jit::compile_options;

std::vector<host_tensor> inputs_of(program const& p, std::uint64_t seed = 1, values const& like = {}) {
  random_engine r(seed);
  return random_parameters(r, p, like);
}

// Runs p fused and not, and holds both against the reference and against each other.
void check(program const& p, values const& like = {}) {
  std::vector<host_tensor> const in = inputs_of(p, 7, like);
  std::vector<host_tensor> const fused = run_plan(jit::compile(p, {.libraries = false, .fuse = true}), p, in);
  EXPECT_EQ(check_results(p, in, fused), "") << to_json(p);
  std::vector<host_tensor> const alone =
      run_plan(jit::compile(p, {.libraries = false, .fuse = false}), p, in);
  for (std::size_t i = 0; i < fused.size(); ++i)
    EXPECT_EQ(difference(fused[i], alone[i]), "") << "result " << i << "\n" << to_json(p);
}

TEST(Lower, EveryElementwiseRowGivesTheReferencesBits) {
  for (int i = 0; i < ir::op_count(); ++i) {
    ir::op_info const& row = ir::info(static_cast<op>(i));
    if (row.kind != ir::category::elementwise) continue;
    for (dtype t : all_dtypes()) {
      if (!ir::accepts_dtype(row.operands, t)) continue;
      if (row.ulps != 0 && t == dtype::f64) continue;  // the host's own functions: how exact is theirs to say
      SCOPED_TRACE(std::string(row.name) + " " + name_of(t));
      std::vector<tensor_type> in(static_cast<std::size_t>(row.arity), {t, {5, 31}});
      if (row.arity > 1) in.back().shape = {};
      check(one_node(row.code, in));
    }
  }
}

TEST(Lower, EveryCast) {
  for (dtype from : all_dtypes())
    for (dtype to : all_dtypes()) {
      if (from == to) continue;
      tensor_type const in[] = {{from, {203}}};
      SCOPED_TRACE(std::string(name_of(from)) + " to " + name_of(to));
      check(one_node(op::cast, in, attribute_words().one(static_cast<std::int64_t>(to))));
    }
}

struct reduced_shape {
  reprise::shape shape;
  std::vector<std::int64_t> axes;
};

std::vector<reduced_shape> const& reduced_shapes() {
  static std::vector<reduced_shape> const all = {
      {{7}, {0}},
      {{1000}, {0}},
      {{5000}, {0}},
      {{3, 300}, {1}},
      {{300, 3}, {0}},
      {{5000, 2}, {0}},
      {{4, 5, 6}, {1}},
      {{4, 5, 6}, {0, 2}},
      {{2, 3, 4, 5}, {1, 3}},
      {{0, 3}, {0}},
      {{3, 0}, {1}},
      {{0, 3}, {1}},
      {{70000}, {0}},
      {{70000, 2}, {0}},
      {{2, 66000}, {1}},
      {{3, 200, 400}, {1, 2}},
      {{400, 2, 200}, {0, 2}},
      {{300, 1}, {0}},
      {{64, 4}, {1}},
      {{16, 9, 2, 2}, {2, 3}},
  };
  return all;
}

TEST(Lower, EveryReductionInEveryOrder) {
  for (op code : {op::sum, op::prod, op::max, op::min, op::any, op::all})
    for (dtype t : all_dtypes()) {
      if (!ir::accepts_dtype(ir::info(code).operands, t)) continue;
      bool const thorough = t == dtype::f32 || t == dtype::i32 || t == dtype::boolean;
      for (reduced_shape const& s : reduced_shapes()) {
        if (s.shape.size() == 0 && (code == op::max || code == op::min)) continue;
        if (!thorough && s.shape.size() > 2000) continue;
        SCOPED_TRACE(std::string(ir::info(code).name) + " " + name_of(t) + s.shape.str());
        tensor_type const in[] = {{t, s.shape}};
        program const p = one_node(code, in, attribute_words().list(s.axes));
        std::vector<host_tensor> const x = inputs_of(p, 3, {.specials = 0.001, .spread = 1});
        EXPECT_EQ(check_results(p, x, run_plan(jit::compile(p, {}), p, x)), "");
      }
    }
}

TEST(Lower, ArgMaxFindsTheFirst) {
  for (op code : {op::argmax, op::argmin})
    for (dtype t : all_dtypes())
      for (int axis : {0, 1}) {
        if (t == dtype::boolean) continue;
        SCOPED_TRACE(std::string(ir::info(code).name) + " " + name_of(t));
        tensor_type const in[] = {{t, {30, 70}}};
        check(one_node(code, in, attribute_words().one(axis)), {.specials = 0.02});
      }
}

TEST(Lower, SoftmaxInOneKernel) { check(softmax_program(5, 300), {.specials = 0.01, .spread = 0.5}); }
TEST(Lower, LayerNormInOneKernel) { check(layer_norm_program(6, 130), {.specials = 0, .spread = 0.5}); }
TEST(Lower, ALongChainInOneKernel) { check(tiny_chain_program(256, 40), {.specials = 0, .spread = 0.5}); }
TEST(Lower, TwoPricesInOneKernel) { check(black_scholes_program(333), {.specials = 0, .spread = 0}); }
TEST(Lower, Stencils) {
  check(stencil_program(18, 1));
  check(stencil_program(18, 5));
}

TEST(Lower, SoftmaxAlongTheFirstAxis) {
  sketch s;
  check(s.done({s.softmax(s.input(dtype::f32, {40, 24}), 0)}), {.specials = 0.01, .spread = 0.5});
}

TEST(Lower, ALongRowTakesSeveralKernels) {
  check(softmax_program(1, 70000), {.specials = 0, .spread = 0.5});
  check(layer_norm_program(2, 70000), {.specials = 0, .spread = 0.5});
}

TEST(Lower, ResultsOfEveryKind) {
  sketch s;
  node_id const x = s.input(dtype::f32, {6, 8}), n = s.lifted(dtype::f32), c = s.number(dtype::f64, 2.5);
  node_id const y = s.add(op::add, {x, n}), flat = s.reshape(y, {48}), sum = s.reduce(op::sum, y, {0, 1});
  check(s.done({x, y, y, flat, s.reshape(x, {48}), n, c, s.b.broadcast(c, {3, 0, 2}), sum,
                s.reshape(sum, {1, 1}), x}));
}

TEST(Lower, ViewsUnderGuards) {
  sketch s;
  node_id const x = s.input(dtype::i32, {5, 7}), y = s.input(dtype::i32, {2, 7}),
                fill = s.input(dtype::i32, {});
  node_id const framed = s.add(op::pad, {x, fill}, attribute_words().list({2, 0}).list({1, 3}));
  node_id const twice =
      s.add(op::pad, {framed, s.number(dtype::i32, 9)}, attribute_words().list({1, 1}).list({0, 2}));
  node_id const flipped = s.slice(twice, {8, 12}, {-1, -3}, {9, 5});
  node_id const joined = s.add(op::concatenate, {x, y, x}, attribute_words().one(0));
  node_id const part = s.slice(joined, {10, 0}, {-2, 2}, {5, 4});
  node_id const updated =
      s.add(op::slice_update, {framed, part}, attribute_words().list({7, 9}).list({-1, -2}));
  node_id const windows = s.add(op::sliding_window, {updated},
                                attribute_words().list({1, 0}).list({3, 2}).list({2, 1}).list({1, 3}));
  node_id const pooled = s.reduce(op::max, windows, {2, 3});
  node_id const nothing = s.slice(x, {0, 0}, {1, 1}, {5, 0});
  node_id const rejoined =
      s.add(op::concatenate, {nothing, s.transpose(s.reshape(x, {7, 5}), {1, 0}), nothing},
            attribute_words().one(1));
  check(s.done({twice, flipped, part, updated, windows, pooled, rejoined}));
}

TEST(Lower, RandomWords) {
  sketch s;
  node_id const key = s.input(dtype::i64, {});
  node_id const words = s.add(op::philox, {key}, attribute_words().list({3, 14}));
  node_id const pairs = s.reshape(words, {21, 2});
  node_id const a = s.slice(pairs, {0, 0}, {1, 1}, {21, 1}), b = s.slice(pairs, {0, 1}, {1, 1}, {21, 1});
  check(s.done({words, s.add(op::bitwise_xor, {a, b})}), {.specials = 0, .any_bits = 1});
}

TEST(Lower, ProductsAsKernels) {
  for (dtype t : {dtype::f32, dtype::f64, dtype::f16, dtype::bf16, dtype::i32, dtype::i64, dtype::u8}) {
    SCOPED_TRACE(name_of(t));
    check(mlp_program(t, 9, 20, 16, 5), {.specials = 0, .spread = 0.5});
    check(conv_layer_program(t, 2, 3, 8, 7), {.specials = 0, .spread = 0.5});
  }
}

TEST(Lower, ProductsOfEveryShape) {
  struct {
    reprise::shape a, b;
  } const shapes[] = {{{3, 4}, {4, 5}},
                      {{2, 3, 4}, {4, 5}},
                      {{3, 4}, {2, 4, 5}},
                      {{2, 1, 3, 4}, {1, 6, 4, 5}},
                      {{2, 6, 3, 4}, {6, 4, 5}},
                      {{0, 4}, {4, 5}},
                      {{3, 0}, {0, 5}},
                      {{1, 1}, {1, 1}},
                      {{2, 6, 3, 4}, {2, 6, 4, 5}},
                      {{5, 1, 3, 4}, {5, 1, 4, 2}}};
  for (auto const& [a, b] : shapes) {
    SCOPED_TRACE(a.str() + " @ " + b.str());
    tensor_type const in[] = {{dtype::f32, a}, {dtype::f32, b}};
    program const p = one_node(op::matmul, in);
    check(p, {.specials = 0, .spread = 0.5});
    std::vector<host_tensor> const x = inputs_of(p, 5, {.specials = 0, .spread = 0.5});
    for (prefer which : {prefer::library, prefer::generated})
      EXPECT_EQ(check_results(p, x, run_plan(jit::compile(p, {}), p, x, which)), "");
  }
}

TEST(Lower, ConvolutionsOfEveryKind) {
  struct {
    reprise::shape x, w;
    std::vector<std::int64_t> stride, padding, dilation;
    std::int64_t groups;
  } const kinds[] = {
      {{2, 3, 9, 8}, {4, 3, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {{1, 4, 9, 8}, {6, 2, 3, 2}, {2, 1}, {1, 0, 2, 3}, {1, 2}, 2},
      {{1, 3, 5, 5}, {8, 3, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {{2, 4, 6, 6}, {4, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 4},
      {{0, 3, 5, 5}, {8, 3, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {{1, 0, 5, 5}, {2, 0, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {{1, 1, 0, 3}, {2, 1, 2, 2}, {1, 1}, {2, 1, 2, 1}, {1, 1}, 1},
  };
  for (auto const& k : kinds) {
    SCOPED_TRACE(k.x.str() + " * " + k.w.str());
    tensor_type const in[] = {{dtype::f32, k.x}, {dtype::f32, k.w}};
    program const p = one_node(
        op::conv2d, in, attribute_words().list(k.stride).list(k.padding).list(k.dilation).one(k.groups));
    check(p, {.specials = 0, .spread = 0.5});
    std::vector<host_tensor> const x = inputs_of(p, 5, {.specials = 0, .spread = 0.5});
    for (prefer which : {prefer::library, prefer::generated})
      EXPECT_EQ(check_results(p, x, run_plan(jit::compile(p, {}), p, x, which)), "");
  }
}

}  // namespace
}  // namespace reprise::test
