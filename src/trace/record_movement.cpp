// Recording of views, slices and new arrays: negative axes, missing bounds, ellipses and -1 extents are
// resolved here.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trace/record.h"

namespace reprise::record {

ir::node_id slice(editor& e, ir::node_id x, std::span<std::int64_t const> start,
                  std::span<std::int64_t const> step, shape const& extents) {
  int const rank = extents.rank();
  shape const whole = e.type_of(x).shape;
  bool all = whole == extents;
  for (int i = 0; i < rank && all; ++i)
    all = start[static_cast<std::size_t>(i)] == 0 &&
          (step[static_cast<std::size_t>(i)] == 1 || extents[i] <= 1);
  if (all) return x;
  std::vector<std::int64_t> words;
  words.push_back(rank);
  words.insert(words.end(), start.begin(), start.end());
  words.push_back(rank);
  words.insert(words.end(), step.begin(), step.end());
  words.push_back(rank);
  words.insert(words.end(), extents.begin(), extents.end());
  ir::node_id const one[] = {x};
  return e.add(ir::op::slice, one, words);
}

ir::node_id number_node(editor& e, dtype type, double value) {
  return e.constant(type, ir::constant_bits(type, value));
}

namespace {

using reprise::detail::index_argument;
using reprise::detail::index_kind;

// x(...) resolved against a shape: a slice of every axis, and the shape that the result has once integer axes
// are gone and new ones in.
struct resolved_slice {
  std::vector<std::int64_t> start, step;
  shape extents, result;
};

resolved_slice resolve(editor const& e, shape const& of, index_argument const* indices) {
  int given = 0, count = 0, ellipses = 0;
  for (; count < max_rank && indices[count].kind != index_kind::absent; ++count) {
    if (indices[count].kind == index_kind::integer || indices[count].kind == index_kind::range) ++given;
    if (indices[count].kind == index_kind::ellipsis) ++ellipses;
  }
  if (ellipses > 1) e.fail("more than one ellipsis");
  if (given > of.rank()) e.fail(fmt::format("{} indices for an array of shape {}", given, of.str()));
  resolved_slice r;
  int axis = 0;
  auto const whole = [&](int axes) {
    for (int i = 0; i < axes; ++i, ++axis) {
      r.start.push_back(0);
      r.step.push_back(1);
      r.extents.push_back(of[axis]);
      r.result.push_back(of[axis]);
    }
  };
  for (int i = 0; i < count; ++i) {
    index_argument const& x = indices[i];
    switch (x.kind) {
      case index_kind::absent: break;
      case index_kind::newaxis: r.result.push_back(1); break;
      case index_kind::ellipsis: whole(of.rank() - given); break;
      case index_kind::integer: {
        std::int64_t const at = x.start < 0 ? x.start + of[axis] : x.start;
        if (at < 0 || at >= of[axis])
          e.fail(fmt::format("index {} is out of range for axis {} of extent {}", x.start, axis, of[axis]));
        r.start.push_back(at);
        r.step.push_back(1);
        r.extents.push_back(1);
        ++axis;
        break;
      }
      case index_kind::range: {
        std::int64_t const n = of[axis], step = x.step;
        if (step == 0) e.fail("a step of 0");
        auto const clamp = [&](std::int64_t v, std::int64_t low, std::int64_t high) {
          return std::min(std::max(v < 0 ? v + n : v, low), high);
        };
        std::int64_t first, last, length;
        if (step > 0) {
          first = x.has_start ? clamp(x.start, 0, n) : 0;
          last = x.has_stop ? clamp(x.stop, 0, n) : n;
          length = first < last ? (last - first - 1) / step + 1 : 0;
        } else {
          first = x.has_start ? clamp(x.start, -1, n - 1) : n - 1;
          last = x.has_stop ? clamp(x.stop, -1, n - 1) : -1;
          length = last < first ? (first - last - 1) / -step + 1 : 0;
        }
        r.start.push_back(length ? first : 0);
        r.step.push_back(length > 1 ? step : 1);
        r.extents.push_back(length);
        r.result.push_back(length);
        ++axis;
        break;
      }
    }
  }
  whole(of.rank() - axis);
  return r;
}

}  // namespace
}  // namespace reprise::record

namespace reprise::inline v1::detail {

using namespace record;

handle record_reshape(handle const& x, std::span<std::int64_t const> extents, location at) {
  handle const* one[] = {&x};
  editor e(one, "reshape", at);
  ir::node_id const n = e.in(x);
  std::int64_t const size = e.type_of(n).shape.size();
  shape to;
  int unknown = -1;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == -1 && unknown < 0) {
      unknown = static_cast<int>(i);
      to.push_back(1);
      continue;
    }
    if (extents[i] < 0) e.fail(fmt::format("extent {} is negative", extents[i]));
    to.push_back(extents[i]);
    known *= extents[i];
  }
  if (unknown >= 0) {
    if (known == 0 || size % known != 0)
      e.fail(fmt::format("{} elements of shape {} do not divide into the given extents", size,
                         e.type_of(n).shape.str()));
    to[unknown] = size / known;
  }
  return e.finish(e.reshape(n, to));
}

handle record_transpose(handle const& x, axes_argument const& axes, location at) {
  handle const* one[] = {&x};
  editor e(one, "transpose", at);
  ir::node_id const n = e.in(x);
  int const rank = e.type_of(n).shape.rank();
  std::vector<int> order = normalized_axes(e, axes, rank);
  if (static_cast<int>(order.size()) != rank)
    e.fail(fmt::format("{} axes for an array of shape {}", order.size(), e.type_of(n).shape.str()));
  if (axes.all) std::reverse(order.begin(), order.end());
  if (std::is_sorted(order.begin(), order.end())) return e.finish(n);
  std::vector<std::int64_t> words{rank};
  words.insert(words.end(), order.begin(), order.end());
  ir::node_id const operand[] = {n};
  return e.finish(e.add(ir::op::transpose, operand, words));
}

handle record_broadcast(handle const& x, shape const& to, location at) {
  handle const* one[] = {&x};
  editor e(one, "broadcast_to", at);
  return e.finish(e.broadcast(e.in(x), to));
}

handle record_expand_dims(handle const& x, std::int64_t axis, location at) {
  handle const* one[] = {&x};
  editor e(one, "expand_dims", at);
  ir::node_id const n = e.in(x);
  shape to = e.type_of(n).shape;
  std::int64_t const place = axis < 0 ? axis + to.rank() + 1 : axis;
  if (place < 0 || place > to.rank())
    e.fail(fmt::format("axis {} is out of range for a result of rank {}", axis, to.rank() + 1));
  to.insert(static_cast<int>(place), 1);
  return e.finish(e.reshape(n, to));
}

handle record_squeeze(handle const& x, axes_argument const& axes, location at) {
  handle const* one[] = {&x};
  editor e(one, "squeeze", at);
  ir::node_id const n = e.in(x);
  shape const from = e.type_of(n).shape;
  std::vector<int> const gone = normalized_axes(e, axes, from.rank());
  shape to;
  for (int i = 0; i < from.rank(); ++i) {
    bool const named = std::find(gone.begin(), gone.end(), i) != gone.end();
    if (named && from[i] != 1 && !axes.all)
      e.fail(fmt::format("axis {} of shape {} has extent {}", i, from.str(), from[i]));
    if (!named || from[i] != 1) to.push_back(from[i]);
  }
  return e.finish(e.reshape(n, to));
}

handle record_slice(handle const& x, index_argument const* indices, location at) {
  handle const* one[] = {&x};
  editor e(one, "slice", at);
  ir::node_id const n = e.in(x);
  auto const r = resolve(e, e.type_of(n).shape, indices);
  return e.finish(e.reshape(record::slice(e, n, r.start, r.step, r.extents), r.result));
}

handle record_slice_update(handle const& x, index_argument const* indices, argument const& y, location at) {
  handle const* both[] = {&x, y.array};
  editor e({both, y.kind == argument_kind::array ? 2u : 1u}, "slice assignment", at);
  ir::node_id const n = e.in(x);
  ir::tensor_type const type = e.type_of(n);
  auto const r = resolve(e, type.shape, indices);
  ir::node_id update = e.cast(operand_node(e, y, type.type), type.type);
  shape const from = e.type_of(update).shape, shapes[] = {from, r.result};
  if (!(broadcast_shapes(e, shapes) == r.result))
    e.fail("a value of shape " + from.str() + " does not fit into a slice of shape " + r.result.str());
  update = e.reshape(e.broadcast(update, r.result), r.extents);
  if (r.extents.size() == 0) return e.finish(n);
  if (r.extents == type.shape &&
      std::all_of(r.step.begin(), r.step.end(), [](std::int64_t s) { return s == 1; }))
    return e.finish(update);
  std::vector<std::int64_t> words{type.shape.rank()};
  words.insert(words.end(), r.start.begin(), r.start.end());
  words.push_back(type.shape.rank());
  words.insert(words.end(), r.step.begin(), r.step.end());
  ir::node_id const operands[] = {n, update};
  return e.finish(e.add(ir::op::slice_update, operands, words));
}

handle record_concatenate(handle const* x, int count, std::int64_t axis, bool stacked, location at) {
  std::vector<handle const*> all;
  for (int i = 0; i < count; ++i) all.push_back(x + i);
  editor e(all, stacked ? "stack" : "concatenate", at);
  if (count == 0) e.fail("nothing to join");
  std::vector<ir::node_id> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(e.in(x[i]));
  shape const first = e.type_of(nodes[0]).shape;
  int const rank = first.rank() + (stacked ? 1 : 0);
  std::int64_t const along = axis < 0 ? axis + rank : axis;
  if (along < 0 || along >= rank) e.fail(fmt::format("axis {} is out of range for rank {}", axis, rank));
  if (stacked)
    for (ir::node_id& n : nodes) {
      shape to = e.type_of(n).shape;
      if (!(to == first)) e.fail("shapes " + first.str() + " and " + to.str() + " differ");
      to.insert(static_cast<int>(along), 1);
      n = e.reshape(n, to);
    }
  if (count == 1) return e.finish(nodes[0]);
  std::int64_t const words[] = {along};
  return e.finish(e.add(ir::op::concatenate, nodes, words));
}

handle record_pad(handle const& x, std::span<std::int64_t const> low, std::span<std::int64_t const> high,
                  argument const& value, location at) {
  handle const* both[] = {&x, value.array};
  editor e({both, value.kind == argument_kind::array ? 2u : 1u}, "pad", at);
  ir::node_id const n = e.in(x);
  ir::tensor_type const type = e.type_of(n);
  if (static_cast<int>(low.size()) != type.shape.rank())
    e.fail(fmt::format("{} widths for an array of shape {}", low.size(), type.shape.str()));
  bool nothing = true;
  for (std::size_t i = 0; i < low.size(); ++i) nothing = nothing && low[i] == 0 && high[i] == 0;
  if (nothing) return e.finish(n);
  std::vector<std::int64_t> words{type.shape.rank()};
  words.insert(words.end(), low.begin(), low.end());
  words.push_back(type.shape.rank());
  words.insert(words.end(), high.begin(), high.end());
  ir::node_id const frame = e.cast(operand_node(e, value, type.type), type.type);
  ir::node_id const operands[] = {n, frame};
  return e.finish(e.add(ir::op::pad, operands, words));
}

handle record_flip(handle const& x, axes_argument const& axes, location at) {
  handle const* one[] = {&x};
  editor e(one, "flip", at);
  ir::node_id const n = e.in(x);
  shape const extents = e.type_of(n).shape;
  std::vector<std::int64_t> start(static_cast<std::size_t>(extents.rank()), 0), step(start.size(), 1);
  for (int axis : normalized_axes(e, axes, extents.rank())) {
    if (extents[axis] <= 1) continue;
    start[static_cast<std::size_t>(axis)] = extents[axis] - 1;
    step[static_cast<std::size_t>(axis)] = -1;
  }
  return e.finish(record::slice(e, n, start, step, extents));
}

// NumPy's tile, as broadcasting of interleaved axes.
handle record_tile(handle const& x, std::span<std::int64_t const> counts, location at) {
  handle const* one[] = {&x};
  editor e(one, "tile", at);
  ir::node_id const n = e.in(x);
  shape from = e.type_of(n).shape;
  while (from.rank() < static_cast<int>(counts.size())) from.insert(0, 1);
  int const rank = from.rank(), missing = rank - static_cast<int>(counts.size());
  if (2 * rank > max_rank) {
    int repeated = 0;
    for (std::int64_t c : counts) repeated += c != 1;
    if (rank + repeated > max_rank)
      e.fail(fmt::format("needs rank {} between, more than 8", rank + repeated));
  }
  shape split, wide, result;
  for (int i = 0; i < rank; ++i) {
    std::int64_t const c = i < missing ? 1 : counts[static_cast<std::size_t>(i - missing)];
    if (c < 0) e.fail(fmt::format("count {} is negative", c));
    if (c != 1) {
      split.push_back(1);
      wide.push_back(c);
    }
    split.push_back(from[i]);
    wide.push_back(from[i]);
    result.push_back(c * from[i]);
  }
  return e.finish(e.reshape(e.broadcast(e.reshape(n, split), wide), result));
}

handle record_full(dtype type, shape const& extents, argument const& value, location at) {
  handle const* one[] = {value.array};
  editor e({one, value.kind == argument_kind::array ? 1u : 0u}, "full", at);
  ir::node_id const n = e.cast(operand_node(e, value, type), type);
  if (extents.rank() == 0) {  // a node of its own, so that it can be a result
    std::int64_t const none[] = {0};
    ir::node_id const c[] = {n};
    return e.finish(e.add(ir::op::reshape, c, none));
  }
  return e.finish(e.broadcast(n, extents));
}

namespace {

ir::node_id iota(editor& e, shape const& extents, int axis) {
  std::vector<std::int64_t> words{extents.rank()};
  words.insert(words.end(), extents.begin(), extents.end());
  words.push_back(axis);
  return e.add(ir::op::iota, std::span<ir::node_id const>{}, words);
}

}  // namespace

handle record_arange(dtype type, double start, double stop, double step, location at) {
  editor e({}, "arange", at);
  if (step == 0 || std::isnan(start) || std::isnan(stop) || std::isnan(step))
    e.fail("the step is 0 or a bound is nan");
  double const n = std::ceil((stop - start) / step);
  if (n > 9e18) e.fail("too many elements");
  ir::node_id const i = e.cast(iota(e, shape{n > 0 ? static_cast<std::int64_t>(n) : 0}, 0), dtype::f64);
  ir::node_id const scaled = elementwise(e, ir::op::mul, {i, number_node(e, dtype::f64, step)});
  return e.finish(e.cast(elementwise(e, ir::op::add, {scaled, number_node(e, dtype::f64, start)}), type));
}

handle record_arange_integer(dtype type, std::int64_t start, std::int64_t stop, std::int64_t step,
                             location at) {
  editor e({}, "arange", at);
  if (step == 0) e.fail("the step is 0");
  std::int64_t const n = step > 0 ? (start < stop ? (stop - start - 1) / step + 1 : 0)
                                  : (stop < start ? (start - stop - 1) / -step + 1 : 0);
  ir::node_id i = iota(e, shape{n}, 0);
  if (step != 1)
    i = elementwise(e, ir::op::mul, {i, e.constant(dtype::i64, static_cast<std::uint64_t>(step))});
  if (start != 0)
    i = elementwise(e, ir::op::add, {i, e.constant(dtype::i64, static_cast<std::uint64_t>(start))});
  return e.finish(e.cast(i, type));
}

handle record_eye(dtype type, std::int64_t rows, std::int64_t columns, std::int64_t diagonal, location at) {
  editor e({}, "eye", at);
  shape const extents{rows, columns};
  ir::node_id const below = elementwise(
      e, ir::op::add, {iota(e, extents, 0), e.constant(dtype::i64, static_cast<std::uint64_t>(diagonal))});
  return e.finish(e.cast(elementwise(e, ir::op::equal, {below, iota(e, extents, 1)}), type));
}

}  // namespace reprise::inline v1::detail
