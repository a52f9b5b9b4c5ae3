// Which matrix products and convolutions become one library call, with the bias and the relu that follow
// them, and how the same work is a generated kernel.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "jit/lower.h"
#include "jit/plan.h"
#include "trace/program.h"

namespace reprise::jit {

struct library_call {
  ir::node_id node = ir::no_node;     // the matmul or conv2d
  ir::node_id result = ir::no_node;   // what it leaves: itself, or the end of its epilogue
  std::vector<ir::node_id> operands;  // stored arrays: a, b and the bias, if there is one
  std::vector<ir::node_id> absorbed;  // operations of the epilogue and the node, without `result`
  // Empty: no library step says this (integers, unusual batches, nothing to do); it is a kernel.
  std::variant<std::monostate, matmul_step, conv2d_step> step;
  // Worth measuring against the library, or needed because the library may not take the dtype.
  bool alternative = false;
};

// `uses[n]`: how many operands and results name node n. With `epilogues` off, each operation stands for
// itself.
std::vector<library_call> find_library_calls(ir::program const& p, std::vector<std::uint32_t> const& uses,
                                             bool epilogues);

// The call as a contraction kernel that reads its operands.
kernel_group contraction(ir::program const& p, library_call const& call);

}  // namespace reprise::jit
