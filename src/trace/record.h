// Shared by the record_*.cpp files: what they compose operations of, as nodes of one editor.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "trace/tape.h"

namespace reprise::record {

// The node of an operand: an array cast to `type`, a constant of it, or a run-time number (of its own dtype).
ir::node_id operand_node(editor& e, reprise::detail::argument const& a, dtype type);
shape broadcast_shapes(editor const& e, std::span<shape const> shapes);
ir::node_id elementwise(editor& e, ir::op code, std::span<ir::node_id> operands);
ir::node_id elementwise(editor& e, ir::op code, std::initializer_list<ir::node_id> operands);
std::vector<int> normalized_axes(editor const& e, reprise::detail::axes_argument const& a, int rank);
ir::node_id reduce(editor& e, ir::op code, ir::node_id x, std::vector<int> axes, bool keepdims);
// Slices given as start, step and extents of every axis.
ir::node_id slice(editor& e, ir::node_id x, std::span<std::int64_t const> start,
                  std::span<std::int64_t const> step, shape const& extents);
ir::node_id number_node(editor& e, dtype type, double value);

}  // namespace reprise::record
