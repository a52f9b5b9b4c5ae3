// Writes one kernel from points: keeps the tables of its buffers, scalars, rows and locals, and turns the
// points that a phase needs into that phase's instructions.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/code.h"
#include "jit/collapse.h"
#include "jit/lower.h"

namespace reprise::jit {

// The element of an array that a point of the space stores to.
index_id store_index(kernel_group const& g, bool row);
// What a reduction adds up in.
dtype accumulator(ir::program const& p, ir::node_id reduction);

class kernel_writer {
 public:
  kernel_writer(kernel_group const& g, buffer_table& buffers, std::string name,
                std::vector<buffer_id> const& first);

  // The loops, first of all; then where the axes of the space are in them.
  void loops(std::vector<std::int64_t> const& grid, std::int64_t inner);
  index_id grid_variable(std::size_t loop) { return code_.index.variable(static_cast<std::uint32_t>(loop)); }
  index_id inner_variable() { return code_.index.variable(code_.inner()); }
  void place(std::span<axis_loop const> loops, index_id at);
  index_map& map();
  // Elements beyond the last one are computed by no one: loads and stores that depend on `element` are
  // guarded by element <= last, and reductions take the identity there.
  void limit(index_id element, std::int64_t last);
  // Decides which values a row keeps from one of its phases to a later one.
  void keep_in_locals(int phases, std::int64_t elements);

  void begin_phase(int number);
  void store(kernel_output const& o);
  void store_row(ir::node_id reduction, buffer_id to, index_id at);
  void reduce(kernel_reduction const& r, jit::order order, bool of_nothing);
  void reduce_again(ir::node_id reduction, buffer_id from, index_id at);
  void end_phase(std::int64_t extent);

  std::uint32_t slot(buffer_id b, bool written);
  kernel& code() { return code_; }
  lowered_kernel take();

 private:
  struct kept_value {
    int home = 0;  // the phase that computes and stores it
    std::uint32_t local = 0;
  };

  ir::program const& program() const { return group_.space->program(); }
  code::val value(point_id p);
  code::val made(point_id p);
  code::val condition(guard_id g);
  code::val index(index_id e);
  code::val constant(ir::node_id n);
  code::val row(ir::node_id reduction);
  value_id guard_of(point const& p, index_id at);
  bool beyond(index_id at) const;
  code::val inside();
  std::uint32_t row_slot(ir::node_id reduction);

  kernel_group const& group_;
  buffer_table& buffers_;
  kernel code_;
  std::vector<buffer_id> arguments_;
  std::vector<std::uint32_t> scalars_;
  std::unordered_map<buffer_id, std::uint32_t> slots_;
  std::unordered_map<ir::node_id, std::uint32_t> scalar_slots_, row_slots_;
  std::vector<index_id> by_;
  std::optional<index_map> map_;
  std::optional<index_id> element_;
  std::int64_t last_ = 0;
  std::unordered_map<point_id, kept_value> kept_;

  // of the phase that is being written
  int phase_ = 0;
  std::unique_ptr<code::body> body_;
  std::unordered_map<point_id, code::val> done_;
  std::unordered_map<guard_id, code::val> conditions_;
  std::vector<reduction> reductions_;
};

}  // namespace reprise::jit
