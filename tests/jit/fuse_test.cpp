// What is fused, and what is not: counted in the plans of programs whose fusion matters.
#include <gtest/gtest.h>

#include "jit/programs.h"
#include "jit/run_plan.h"

namespace reprise::test {
namespace {

using jit::kernel;
using jit::plan;

plan planned(program const& p, bool libraries = true) {
  return jit::compile(p, {.libraries = libraries, .fuse = true});
}

TEST(Fuse, AContiguousKernelIsOneLoop) {
  sketch s;
  node_id const x = s.input(dtype::f32, {4, 5, 6}), y = s.input(dtype::f32, {4, 5, 6});
  plan const p = planned(s.done({s.add(op::mul, {s.add(op::add, {x, y}), s.number(dtype::f32, 3)})}));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_TRUE(p.kernels[0].grid.empty());
  ASSERT_EQ(p.kernels[0].phases.size(), 1u);
  EXPECT_EQ(p.kernels[0].phases[0].extent, 120);
}

TEST(Fuse, ABroadcastAlongTheLastAxisKeepsTwoLoops) {
  sketch s;
  node_id const x = s.input(dtype::f32, {4, 5, 60}), y = s.input(dtype::f32, {60});
  plan const p = planned(s.done({s.add(op::add, {x, s.b.broadcast(y, {4, 5, 60})})}));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.kernels[0].grid, (std::vector<std::int64_t>{20}));
  EXPECT_EQ(p.kernels[0].phases[0].extent, 60);
}

TEST(Fuse, SoftmaxIsOneKernelOfThreePhases) {
  plan const p = planned(softmax_program(8, 1000));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.kernels[0].phases.size(), 3u);
  EXPECT_EQ(p.kernels[0].grid, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(p.arena_bytes, 0);
}

TEST(Fuse, LayerNormIsOneKernel) {
  plan const p = planned(layer_norm_program(8, 1000));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.kernels[0].phases.size(), 3u);
}

TEST(Fuse, AChainOfSumsIsOneKernelWithFewLocals) {
  plan const p = planned(tiny_chain_program(1024, 200));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.kernels[0].phases.size(), 201u);
  EXPECT_LE(p.kernels[0].locals.size(), 3u);
}

TEST(Fuse, TwoResultsOfOneSpaceAreOneKernel) {
  plan const p = planned(black_scholes_program(1000));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.steps[0].written.size(), 2u);
}

TEST(Fuse, ResultsThatShareNothingAreIndependent) {
  sketch s;
  node_id const x = s.input(dtype::f32, {100}), y = s.input(dtype::f32, {100});
  plan const p = planned(s.done({s.add(op::exp, {x}), s.add(op::log, {y})}));
  EXPECT_EQ(p.kernels.size(), 2u);
  EXPECT_TRUE(p.edges.empty());
}

TEST(Fuse, ASweepOfAStencilIsOneKernelAndManyStoreBetween) {
  EXPECT_EQ(planned(stencil_program(64, 1)).kernels.size(), 1u);
  plan const p = planned(stencil_program(64, 6));
  EXPECT_EQ(p.kernels.size(), 6u);
  EXPECT_FALSE(p.notes.empty());
}

TEST(Fuse, ALongSumIsBlocksAndATree) {
  sketch s;
  node_id const x = s.input(dtype::f32, {1'000'000});
  plan const p = planned(s.done({s.reduce(op::sum, s.add(op::mul, {x, x}), {0})}));
  ASSERT_EQ(p.kernels.size(), 2u);
  EXPECT_EQ(p.kernels[0].grid, (std::vector<std::int64_t>{245}));
  EXPECT_EQ(p.kernels[1].phases[0].reductions[0].order, jit::order::tree);
}

TEST(Fuse, ColumnsAreSummedAlongTheGrid) {
  sketch s;
  plan const p = planned(s.done({s.reduce(op::sum, s.input(dtype::f32, {500, 600}), {0})}));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.kernels[0].lanes, jit::lanes_along::grid);
  EXPECT_EQ(p.kernels[0].phases[0].reductions[0].order, jit::order::runs);
}

TEST(Fuse, MeanAndVarianceShareTheirLoad) {
  sketch s;
  node_id const x = s.input(dtype::f32, {100, 50});
  plan const p = planned(s.done({s.reduce(op::sum, x, {1}), s.reduce(op::sum, s.add(op::mul, {x, x}), {1})}));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.kernels[0].phases[0].reductions.size(), 2u);
}

TEST(Fuse, SumsAlongDifferentAxesAreTwoKernels) {
  sketch s;
  node_id const x = s.input(dtype::f32, {100, 50});
  EXPECT_EQ(planned(s.done({s.reduce(op::sum, x, {1}), s.reduce(op::sum, x, {0})})).kernels.size(), 2u);
}

TEST(Fuse, LongWorkForTwoKernelsIsStoredOnce) {
  sketch s;
  node_id const x = s.input(dtype::f32, {100, 50}), e = s.add(op::exp, {x});
  plan const p = planned(s.done({s.reduce(op::sum, e, {1}), s.reduce(op::max, e, {0})}));
  EXPECT_EQ(p.kernels.size(), 2u) << "exp is stored by the kernel of one sum and read by the other";
  EXPECT_GT(p.arena_bytes, 0);
}

TEST(Fuse, ALongProgramIsCutByTheBudget) {
  sketch s;
  node_id x = s.input(dtype::f32, {1000});
  for (int i = 0; i < 10000; ++i)
    x = s.add(i % 2 == 0 ? op::mul : op::add, {x, s.number(dtype::f32, 1.0 + i)});
  plan const p = planned(s.done({x}));
  EXPECT_GE(p.kernels.size(), 5u);
  EXPECT_LE(p.kernels.size(), 7u);
}

TEST(Fuse, AKernelHasFewArguments) {
  sketch s;
  node_id const x = s.input(dtype::f32, {100});
  std::vector<node_id> results, inputs;
  for (int i = 0; i < 300; ++i) results.push_back(s.add(op::mul, {x, s.number(dtype::f32, 2.0 + i)}));
  node_id sum = x;
  for (int i = 0; i < 600; ++i) sum = s.add(op::add, {sum, s.input(dtype::f32, {100})});
  results.push_back(sum);
  for (kernel const& k : planned(s.done(results)).kernels) EXPECT_LE(k.buffers.size(), 300u);
}

TEST(Fuse, AConvolutionTakesItsBiasAndRelu) {
  plan const p = planned(conv_layer_program(dtype::f32, 2, 3, 16, 20));
  ASSERT_EQ(p.steps.size(), 1u);
  auto const& c = std::get<jit::conv2d_step>(p.steps[0].work);
  EXPECT_TRUE(c.bias);
  EXPECT_EQ(c.act, jit::activation::relu);
  ASSERT_GE(p.steps[0].alternative, 0) << "27 products a result: worth measuring";
  kernel const& k = p.kernels[static_cast<std::size_t>(p.steps[0].alternative)];
  EXPECT_EQ(k.lanes, jit::lanes_along::grid);
  EXPECT_EQ(k.tile, 8);
  EXPECT_EQ(p.steps[0].chosen, jit::choice::undecided);
  EXPECT_EQ(jit::compile(conv_layer_program(dtype::f32, 2, 64, 16, 20), {}).steps[0].alternative, -1);
}

TEST(Fuse, AProductTakesTransposedWeightsAndItsEpilogue) {
  plan const p = planned(mlp_program(dtype::f32, 64, 784, 512, 10));
  ASSERT_EQ(p.steps.size(), 2u);
  for (jit::step const& s : p.steps) {
    auto const& m = std::get<jit::matmul_step>(s.work);
    EXPECT_TRUE(m.transpose_b);
    EXPECT_FALSE(m.transpose_a);
    EXPECT_TRUE(m.bias);
    EXPECT_EQ(m.act, jit::activation::relu);
  }
  EXPECT_TRUE(p.kernels.empty());
}

TEST(Fuse, AnEpilogueThatIsUsedElsewhereStaysApart) {
  sketch s;
  node_id const x = s.input(dtype::f32, {8, 300}), w = s.input(dtype::f32, {300, 8});
  node_id const y = s.add(op::matmul, {x, w});
  plan const p = planned(s.done({s.add(op::relu, {y}), y}));
  ASSERT_EQ(p.steps.size(), 2u);
  EXPECT_EQ(std::get<jit::matmul_step>(p.steps[0].work).act, jit::activation::none);
}

TEST(Fuse, ResultsAreFresh) {  // a second result is never the first one's buffer
  sketch s;
  node_id const x = s.input(dtype::f32, {10}), y = s.add(op::neg, {x});
  plan const p = planned(s.done({y, y, x, x}));
  EXPECT_EQ(p.kernels.size(), 1u);
  std::vector<jit::buffer_id> results = p.results;
  std::sort(results.begin(), results.end());
  EXPECT_EQ(std::unique(results.begin(), results.end()), results.end());
  for (jit::buffer_id b : p.results) EXPECT_EQ(p.buffers[b].place, jit::buffer_place::result);
}

TEST(Fuse, NothingIsFusedWhenAskedNotTo) {
  program const p = softmax_program(8, 100);
  std::size_t computed = 0;
  for (ir::node const& n : p.nodes) computed += n.code != op::parameter && n.code != op::reshape;
  EXPECT_EQ(jit::compile(p, {.libraries = true, .fuse = false}).kernels.size(), computed);
}

TEST(Fuse, ANumberThatIsLiftedIsAScalarOfItsKernels) {
  sketch s;
  node_id const x = s.input(dtype::f32, {10}), n = s.lifted(dtype::f32);
  plan const p = planned(s.done({s.add(op::mul, {x, n})}));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.kernels[0].scalars, (std::vector<dtype>{dtype::f32}));
  EXPECT_EQ(std::get<jit::kernel_step>(p.steps[0].work).scalars, (std::vector<std::uint32_t>{1}));
}

}  // namespace
}  // namespace reprise::test
