// Shape rules of the operations that move elements.
#include <fmt/format.h>

#include "trace/infer.h"

namespace reprise::ir {
namespace {

// P4 for a slice: the first and the last element of each axis are elements of the operand. An empty axis only
// needs a start in or just behind the operand.
void check_slice(call const& c, reprise::shape const& taken) {
  reprise::shape const& of = c[0].shape;
  words const start = per_axis(c, "start", of.rank(), 0), step = c.integers("step");
  if (std::ssize(step) != of.rank())
    refuse(c, fmt::format("step {} has {} values, not {}", list(step), step.size(), of.rank()), 4);
  for (int i = 0; i < of.rank(); ++i) {
    std::size_t const k = static_cast<std::size_t>(i);
    if (step[k] == 0) refuse(c, fmt::format("axis {} has a step of 0", i), 4);
    if (taken[i] == 0) {
      if (start[k] > of[i])
        refuse(c, fmt::format("axis {} starts at {}, outside of extent {}", i, start[k], of[i]), 4);
      continue;
    }
    wide const last = static_cast<wide>(start[k]) + static_cast<wide>(taken[i] - 1) * step[k];
    if (start[k] >= of[i] || last < 0 || last >= of[i])
      refuse(c,
             fmt::format("axis {}: {} elements from {} by {} are not all inside of extent {}", i, taken[i],
                         start[k], step[k], of[i]),
             4);
  }
}

// Axes of an operand, each at most once, in any order.
words distinct_axes(call const& c, std::string_view name) {
  words const axes = c.integers(name);
  bool used[max_rank] = {};
  for (std::int64_t axis : axes) {
    if (axis < 0 || axis >= c[0].shape.rank())
      refuse(c, fmt::format("no axis {} in {} {}", axis, name, list(axes)), 4);
    if (used[axis]) refuse(c, fmt::format("axis {} twice in {} {}", axis, name, list(axes)), 4);
    used[axis] = true;
  }
  return axes;
}

}  // namespace

tensor_type infer_reshape(call const& c) {
  tensor_type const result = made(c, c[0].type, extents(c, "shape"));
  if (result.shape.size() != c[0].shape.size())
    refuse(c, fmt::format("{} elements do not fill shape {}, which has {}", c[0].shape.size(),
                          result.shape.str(), result.shape.size()));
  return result;
}

tensor_type infer_transpose(call const& c) {
  words const axes = distinct_axes(c, "axes");
  if (std::ssize(axes) != c[0].shape.rank())
    refuse(c, fmt::format("axes {} are not a permutation of {} axes", list(axes), c[0].shape.rank()), 4);
  tensor_type result{c[0].type, {}};
  for (std::int64_t axis : axes) result.shape.push_back(c[0].shape[static_cast<int>(axis)]);
  return result;
}

tensor_type infer_broadcast_to(call const& c) {
  reprise::shape const& from = c[0].shape;
  tensor_type const result = made(c, c[0].type, extents(c, "shape"));
  int const added = result.shape.rank() - from.rank();
  if (added < 0) refuse(c, fmt::format("shape {} has fewer axes", result.shape.str()));
  for (int i = 0; i < from.rank(); ++i)
    if (from[i] != 1 && from[i] != result.shape[added + i])
      refuse(c, fmt::format("axis {} of extent {} does not broadcast to shape {}", i, from[i],
                            result.shape.str()));
  return result;
}

tensor_type infer_slice(call const& c) {
  tensor_type const result{c[0].type, extents(c, "shape")};
  if (result.shape.rank() != c[0].shape.rank())
    refuse(c, fmt::format("shape {} has another rank", result.shape.str()), 4);
  check_slice(c, result.shape);
  return made(c, result.type, result.shape);
}

tensor_type infer_slice_update(call const& c) {
  if (c[0].type != c[1].type) refuse(c, "dtypes differ");
  if (c[0].shape.rank() != c[1].shape.rank()) refuse(c, "ranks differ");
  check_slice(c, c[1].shape);
  return c[0];
}

tensor_type infer_concatenate(call const& c) {
  std::int64_t const axis = c.integer("axis");
  tensor_type const& first = c[0];
  if (axis < 0 || axis >= first.shape.rank()) refuse(c, fmt::format("no axis {}", axis), 4);
  wide length = 0;
  for (tensor_type const& t : c.operands) {
    if (t.type != first.type) refuse(c, "dtypes differ");
    if (t.shape.rank() != first.shape.rank()) refuse(c, "ranks differ");
    for (int i = 0; i < first.shape.rank(); ++i)
      if (i != axis && t.shape[i] != first.shape[i])
        refuse(c, fmt::format("extents {} and {} of axis {} differ", first.shape[i], t.shape[i], i));
    length += t.shape[static_cast<int>(axis)];
  }
  if (length >= max_elements) refuse(c, "the result would have 2^62 elements or more", 6);
  reprise::shape result = first.shape;
  result[static_cast<int>(axis)] = static_cast<std::int64_t>(length);
  return made(c, first.type, result);
}

tensor_type infer_pad(call const& c) {
  if (c[0].type != c[1].type) refuse(c, "dtypes differ");
  if (c[1].shape.rank() != 0) refuse(c, "the padding value is not of rank 0");
  int const rank = c[0].shape.rank();
  words const low = per_axis(c, "low", rank, 0), high = per_axis(c, "high", rank, 0);
  reprise::shape result = c[0].shape;
  for (int i = 0; i < rank; ++i) {
    std::size_t const k = static_cast<std::size_t>(i);
    wide const extent = static_cast<wide>(result[i]) + low[k] + high[k];
    if (extent >= max_elements) refuse(c, fmt::format("axis {} would have an extent of 2^62 or more", i), 6);
    result[i] = static_cast<std::int64_t>(extent);
  }
  return made(c, c[0].type, result);
}

tensor_type infer_sliding_window(call const& c) {
  words const axes = distinct_axes(c, "axes");
  int const count = static_cast<int>(axes.size());
  words const window = per_axis(c, "window", count, 1), stride = per_axis(c, "stride", count, 1),
              dilation = per_axis(c, "dilation", count, 1);
  if (c[0].shape.rank() + count > max_rank)
    refuse(c, fmt::format("the result would have more than {} axes", max_rank), 6);
  reprise::shape result = c[0].shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    int const axis = static_cast<int>(axes[i]);
    wide const reach = static_cast<wide>(dilation[i]) * (window[i] - 1) + 1;
    if (reach > c[0].shape[axis])
      refuse(c, fmt::format("a window of {} by {} does not fit in axis {}", window[i], dilation[i], axis));
    result[axis] = (c[0].shape[axis] - static_cast<std::int64_t>(reach)) / stride[i] + 1;
    result.push_back(window[i]);
  }
  return made(c, c[0].type, result);
}

}  // namespace reprise::ir
