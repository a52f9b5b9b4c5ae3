// From what one kernel is to compute (points, reductions, outputs: see fuse_points.h) to the kernel: which
// axes are loops of its grid and which its inner loop, which phase computes what, what a row keeps from one
// phase to a later one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/fuse_points.h"
#include "jit/kernel.h"
#include "jit/plan.h"

namespace reprise::jit {

// A row of this many elements, reduced or not, is taken by one grid point in as many phases as it needs; a
// longer one is reduced once at most, and in two kernels where there are few rows.
inline constexpr std::int64_t longest_row = 65536;

struct kernel_reduction {
  ir::node_id node = ir::no_node;
  point_id value = no_point;
  point_id factor = no_point;  // of a contraction: the second factor
};
// A node that is stored: for each element of the space, or (row) once a row.
struct kernel_output {
  ir::node_id node = ir::no_node;
  point_id value = no_point;
  bool row = false;
};
struct kernel_group {
  std::unique_ptr<point_space> space;
  std::uint32_t reduced = 0;  // axes of the space that are reduced, a bit each; 0: no reductions
  std::vector<kernel_reduction> reductions;
  std::vector<kernel_output> outputs;
  std::int64_t tile_axis = -1;  // axis of the space whose points share loads: see kernel::tile
  bool contract = false;        // the reductions are contractions

  bool is_reduced(int axis) const { return (reduced >> axis & 1u) != 0; }
  std::int64_t rows() const;
  std::int64_t row_elements() const;
  // One pass over few long rows, in two kernels.
  bool split() const;
  // The element order of the reductions.
  jit::order order() const;
};
// The coordinates of what has one element a row: the axes that are not reduced.
coordinates row_coordinates(kernel_group const& g);
reprise::shape row_shape(kernel_group const& g);

// Where arrays are.
class buffer_table {
 public:
  virtual ~buffer_table() = default;
  virtual buffer_id read(ir::node_id n) = 0;
  virtual std::vector<buffer_id> const& written(ir::node_id n) = 0;  // one or more: each gets the values
  virtual buffer_id temporary(dtype t, std::int64_t elements) = 0;
  virtual plan_buffer const& at(buffer_id b) const = 0;
};

struct lowered_kernel {
  kernel code;
  std::vector<buffer_id> arguments;    // one for each kernel buffer
  std::vector<std::uint32_t> scalars;  // parameters of the program
};

// One kernel, or two for a split reduction, in the order in which they run. `first` are buffers that the
// kernel must list first, in that order, whether it needs them or not.
std::vector<lowered_kernel> lower(kernel_group const& g, buffer_table& buffers, std::string const& name,
                                  std::vector<buffer_id> const& first = {});

}  // namespace reprise::jit
