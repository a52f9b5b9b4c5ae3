// Plans as bytes and as text, and what the verifier refuses, rule by rule.
#include "jit/plan.h"

#include <gtest/gtest.h>

#include "jit/memory_plan.h"
#include "jit/plan_support.h"
#include "jit/schedule.h"
#include "reprise/error.h"

namespace reprise::jit {
namespace {

using test::plan_maker;
using ::testing::Test;

// A plan with every kind of step, a lifted number and index expressions with divisions.
struct all_kinds {
  plan_maker m;
  plan p;

  all_kinds() {
    buffer_id const x = m.parameter(24), w = m.parameter(32), image = m.parameter(50),
                    filter = m.parameter(9);
    buffer_id const t = m.temporary(24), u = m.temporary(12), y = m.result(12), z = m.result(18),
                    a = m.result(24);
    m.negate(x, t);  // 3 x 8
    m.step({u}, {y});
    plan& made = m.made;

    step product;  // 3 x 8 by 8 x 4
    product.work = matmul_step{.m = 3, .n = 4, .k = 8, .act = activation::relu};
    product.operands = {t, w};
    product.written = {u};
    made.steps.insert(made.steps.begin() + 1, product);

    step image_step;
    image_step.work = conv2d_step{.n = 1, .c = 2, .h = 5, .w = 5, .o = 2, .kh = 3, .kw = 3, .groups = 2};
    image_step.operands = {image, filter};
    image_step.written = {z};
    std::get<conv2d_step>(image_step.work).c = 2;
    made.buffers[filter].elements = 18;
    m.of.parameters[3].type.shape = {18};
    made.steps.push_back(image_step);

    step copy;
    copy.work = copy_step{};
    copy.operands = {x};
    copy.written = {a};
    made.steps.push_back(copy);

    // a lifted number, and the transposed element
    m.of.parameters.push_back({{dtype::f32, {}}, ir::parameter_role::lifted, "k"});
    kernel& k = made.kernels[0];
    k.scalars = {dtype::f32};
    std::get<kernel_step>(made.steps[0].work).scalars = {4};
    index_id const i = k.index.variable(1);
    k.phases[0].body[0].index = k.index.add(k.index.mul(k.index.modulo(i, 3), 8), k.index.divide(i, 3));

    p = m.take();
    p.notes = {"the first", "the second"};
    schedule(p);
    plan_memory(p);
    verify(p, m.of);
  }
};

TEST(PlanBytes, EverythingComesBack) {
  all_kinds const all;
  std::string const bytes = to_bytes(all.p);
  plan const back = from_bytes(bytes);
  EXPECT_EQ(to_bytes(back), bytes);
  EXPECT_EQ(str(back), str(all.p));
  verify(back, all.m.of);
  for (std::size_t k = 0; k < back.kernels.size(); ++k)
    EXPECT_EQ(key_bytes(back.kernels[k]), key_bytes(all.p.kernels[k]));
  index_arena const &was = all.p.kernels[0].index, &is = back.kernels[0].index;
  index_id const before = all.p.kernels[0].phases[0].body[0].index,
                 after = back.kernels[0].phases[0].body[0].index;
  for (std::int64_t i = 0; i < 24; ++i) {
    std::int64_t const at[] = {0, i};
    EXPECT_EQ(is.evaluate(after, at), was.evaluate(before, at));
  }
  EXPECT_EQ(to_bytes(from_bytes(to_bytes(plan{}))), to_bytes(plan{}));
}

TEST(PlanBytes, EveryPrefixIsRefused) {
  std::string const bytes = to_bytes(all_kinds().p);
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_THROW(from_bytes(bytes.substr(0, n)), format_error) << n;
  EXPECT_THROW(from_bytes(bytes + '\0'), format_error);
}

// A changed byte is refused, or gives another plan that can be written and read.
TEST(PlanBytes, AnyChangedByteIsSafe) {
  std::string const bytes = to_bytes(all_kinds().p);
  int refused = 0;
  for (std::size_t n = 0; n < bytes.size(); ++n)
    for (int bit = 0; bit < 8; ++bit) {
      std::string wrong = bytes;
      wrong[n] = static_cast<char>(wrong[n] ^ 1 << bit);
      try {
        std::string const once = to_bytes(from_bytes(wrong));
        EXPECT_EQ(to_bytes(from_bytes(once)), once);
      } catch (format_error const&) { ++refused; }
    }
  EXPECT_GT(refused, 100);
}

// A count that the bytes cannot hold is refused before anything is allocated for it.
TEST(PlanBytes, CountsAreNotBelieved) {
  std::string bytes = to_bytes(plan{}).substr(0, 5);
  for (int i = 0; i < 9; ++i) bytes += '\xff';
  bytes += '\x01';
  EXPECT_THROW(from_bytes(bytes), format_error);
  try {
    from_bytes("plan\x07");
    FAIL();
  } catch (format_error const& e) {
    EXPECT_NE(std::string(e.what()).find("version 7"), std::string::npos) << e.what();
  }
}

TEST(PlanText, SaysWhatRunsWhereAndAfterWhat) {
  std::string const text = str(all_kinds().p);
  for (char const* line :
       {"plan: 5 steps, 2 edges, 9 buffers, 2 kernels, arena of 512 bytes", "b0: parameter 0 float32[24]",
        "b4: temporary float32[24] at ", "b6: result 0 float32[12]",
        "matmul float32 3x4x8, relu (b4, b1 -> b5)", "conv2d float32 1x2x5x5 by 2x3x3", "copy (b0 -> b8)",
        "lifted parameters 4", "result 2: b8", "note: the second"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

class Refusals : public Test {
 protected:
  all_kinds all;
  plan& p = all.p;
  template <class T>
  step& first() {
    for (step& s : p.steps)
      if (std::holds_alternative<T>(s.work)) return s;
    throw std::logic_error("no such step");
  }
  void expect(char const* rule) {
    try {
      verify(p, all.m.of);
      FAIL() << "accepted; should break " << rule;
    } catch (compile_error const& e) {
      EXPECT_NE(std::string(e.what()).find(rule), std::string::npos) << e.what();
    }
  }
};

TEST_F(Refusals, L1SlotOutOfRange) {
  p.buffers[0].slot = 9;
  expect("L1");
}
TEST_F(Refusals, L1OtherType) {
  p.buffers[0].type = dtype::i32;
  expect("L1");
}
TEST_F(Refusals, L1OtherSize) {
  p.buffers[6].elements = 13;
  expect("L1");
}
TEST_F(Refusals, L1TwoBuffersForOneParameter) {
  p.buffers.push_back(p.buffers[0]);
  expect("L1");
}
TEST_F(Refusals, L1LiftedParameter) {
  p.buffers.push_back({.place = buffer_place::parameter, .slot = 4, .type = dtype::f32, .elements = 1});
  expect("L1");
}
TEST_F(Refusals, L1NegativeSize) {
  p.buffers[4].elements = -1;
  expect("L1");
}
TEST_F(Refusals, L1HugeSize) {
  p.buffers[4].elements = INT64_MAX;
  expect("L1");
}
TEST_F(Refusals, L2ResultMissing) {
  p.results.pop_back();
  expect("L2");
}
TEST_F(Refusals, L2ResultsExchanged) {
  std::swap(p.results[0], p.results[1]);
  expect("L2");
}
TEST_F(Refusals, L2ResultInATemporary) {
  p.results[0] = 5;
  expect("L2");
}
TEST_F(Refusals, L3NoSuchBuffer) {
  p.steps[0].operands[0] = 99;
  expect("L3");
}
TEST_F(Refusals, L3NoSuchKernel) {
  std::get<kernel_step>(first<kernel_step>().work).kernel = 7;
  expect("L3");
}
TEST_F(Refusals, L3KernelReachesFurther) {
  p.kernels[0].buffers[0].elements = 25;
  expect("L3");
}
TEST_F(Refusals, L3KernelOfAnotherType) {
  p.kernels[1].buffers[0].type = dtype::i32;
  EXPECT_THROW(verify(p, all.m.of), compile_error);
}
TEST_F(Refusals, L3ArgumentMissing) {
  first<kernel_step>().arguments.pop_back();
  expect("L3");
}
TEST_F(Refusals, L3OperandNotRead) {
  first<kernel_step>().operands.push_back(1);
  expect("L3");
}
TEST_F(Refusals, L3WrittenAndRead) {
  step& s = first<kernel_step>();
  s.arguments[1] = s.arguments[0];
  expect("L3");
}
TEST_F(Refusals, L3ScalarIsNotLifted) {
  std::get<kernel_step>(first<kernel_step>().work).scalars = {0};
  expect("L3");
}
TEST_F(Refusals, L3ScalarOfAnotherType) {
  all.m.of.parameters[4].type.type = dtype::f64;
  expect("L3");
}
TEST_F(Refusals, L3ScalarMissing) {
  std::get<kernel_step>(first<kernel_step>().work).scalars = {};
  expect("L3");
}
TEST_F(Refusals, L3KernelNamesEqual) {
  p.kernels[1].name = p.kernels[0].name;
  expect("L3");
}
TEST_F(Refusals, L3MatmulReachesFurther) {
  std::get<matmul_step>(first<matmul_step>().work).k = 9;
  expect("L3");
}
TEST_F(Refusals, L3MatmulBatchReachesFurther) {
  matmul_step& s = std::get<matmul_step>(first<matmul_step>().work);
  s.batch = 2;
  s.stride_c = 12;
  expect("L3");
}
TEST_F(Refusals, L3MatmulWritesOverItself) {
  matmul_step& s = std::get<matmul_step>(first<matmul_step>().work);
  s.batch = 2;
  s.m = 1;
  s.stride_c = 3;
  expect("L3");
}
TEST_F(Refusals, L3MatmulHugeNumbers) {
  std::get<matmul_step>(first<matmul_step>().work).m = INT64_MAX;
  expect("L3");
}
TEST_F(Refusals, L3MatmulWithoutItsBias) {
  std::get<matmul_step>(first<matmul_step>().work).bias = true;
  expect("L3");
}
TEST_F(Refusals, L3ConvReachesFurther) {
  std::get<conv2d_step>(first<conv2d_step>().work).pad_top = 1;
  expect("L3");
}
TEST_F(Refusals, L3ConvGroups) {
  std::get<conv2d_step>(first<conv2d_step>().work).groups = 3;
  expect("L3");
}
TEST_F(Refusals, L3ConvWindowTooLarge) {
  std::get<conv2d_step>(first<conv2d_step>().work).kh = 6;
  expect("L3");
}
TEST_F(Refusals, L3ConvStrideZero) {
  std::get<conv2d_step>(first<conv2d_step>().work).stride_h = 0;
  expect("L3");
}
TEST_F(Refusals, L3CopyOfAnotherSize) {
  first<copy_step>().operands = {1};
  expect("L3");
}
TEST_F(Refusals, L3AlternativeOfAKernel) {
  first<kernel_step>().alternative = 0;
  expect("L3");
}
TEST_F(Refusals, L3AlternativeThatDoesNotFit) {
  first<matmul_step>().alternative = 0;
  expect("L3");
}
TEST_F(Refusals, L3ChosenButMissing) {
  first<matmul_step>().chosen = choice::generated;
  expect("L3");
}
TEST_F(Refusals, L4NeverWritten) {
  p.steps.pop_back();
  p.edges = reduced(needed_edges(p), p.steps.size());
  expect("L4");
}
TEST_F(Refusals, L4WrittenTwice) {
  p.steps.push_back(first<copy_step>());
  expect("L4");
}
TEST_F(Refusals, L4ReadBeforeItIsWritten) {
  std::swap(p.steps[0], p.steps[1]);
  expect("L4");
}
TEST_F(Refusals, L4ParameterWritten) {
  first<copy_step>().written = {0};
  first<copy_step>().operands = {4};
  expect("L4");
}
TEST_F(Refusals, L5Backwards) {
  std::swap(p.edges[0].from, p.edges[0].to);
  expect("L5");
}
TEST_F(Refusals, L5OutOfRange) {
  p.edges[0].to = 77;
  expect("L5");
}
TEST_F(Refusals, L5Twice) {
  p.edges.push_back(p.edges[0]);
  expect("L5");
}
TEST_F(Refusals, L5FollowsFromOthers) {
  p.edges.push_back({0, 2});
  expect("L5");
}
TEST_F(Refusals, L6EdgeMissing) {
  p.edges.erase(p.edges.begin());
  expect("L6");
}
TEST_F(Refusals, L7NotPlaced) {
  p.buffers[4].offset = -1;
  expect("L7");
}
TEST_F(Refusals, L7NotAligned) {
  p.buffers[4].offset = 8;
  expect("L7");
}
TEST_F(Refusals, L7OutsideOfTheArena) {
  p.buffers[4].offset = 512;
  expect("L7");
}
TEST_F(Refusals, L7Shared) {
  p.buffers[4].offset = p.buffers[5].offset;
  expect("L7");
}
TEST_F(Refusals, L7OffsetOfAResult) {
  p.buffers[6].offset = 0;
  expect("L7");
}

// A result may stay where it is: in a parameter of its type.
TEST(PlanVerify, AResultMayBeAParameter) {
  plan_maker m;
  m.parameter(8);
  buffer_id const y = m.result(8);
  plan p = m.take();
  p.results[0] = 0;
  p.buffers.erase(p.buffers.begin() + y);
  EXPECT_NO_THROW(verify(p, m.of));
  m.of.parameters[0].type.type = p.buffers[0].type = dtype::i32;
  EXPECT_THROW(verify(p, m.of), compile_error);
}

}  // namespace
}  // namespace reprise::jit
