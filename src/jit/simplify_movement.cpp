// Views of views, views that change nothing, and views of which only one part is seen. What is read through
// them is the same element, so every rule is exact; none looks through a reduction.
#include <algorithm>
#include <array>

#include "jit/simplify.h"

namespace reprise::jit::simplifying {
namespace {

using maybe = std::optional<outcome>;
using numbers = std::vector<std::int64_t>;

ir::words list(scene const& s, node_id n, std::string_view name) { return s.program.ints_of(n, name); }
ir::words list(request const& r, std::string_view name) {
  return ir::attribute_ints(r.code, r.attributes, name);
}

reprise::shape shape_of(ir::words extents) {
  reprise::shape made;
  for (std::int64_t e : extents) made.push_back(e);
  return made;
}

reprise::shape result_shape(scene const& s, request const& r) {
  std::vector<ir::tensor_type> types;
  for (node_id n : r.operands) types.push_back(s.program.type_of(n));
  return ir::infer(r.code, types, r.attributes).shape;
}

bool empty(reprise::shape const& s) { return s.size() == 0; }

request reshape(node_id x, reprise::shape const& to) { return {op::reshape, {x}, words_of(to)}; }

// A slice by numbers; steps of axes with one element are 1, starts of empty axes 0, so that equal slices are
// one node.
request slice(node_id x, numbers start, numbers step, numbers extent) {
  for (std::size_t i = 0; i < extent.size(); ++i) {
    if (extent[i] <= 1) step[i] = 1;
    if (extent[i] == 0) start[i] = 0;
  }
  request r{op::slice, {x}, {}};
  put(r.attributes, start);
  put(r.attributes, step);
  put(r.attributes, extent);
  return r;
}

struct slice_numbers {
  numbers start, step, extent;
};
numbers copy(ir::words w) { return {w.begin(), w.end()}; }
slice_numbers numbers_of(request const& r) {
  return {copy(list(r, "start")), copy(list(r, "step")), copy(list(r, "shape"))};
}
slice_numbers numbers_of(scene const& s, node_id n) {
  return {copy(list(s, n, "start")), copy(list(s, n, "step")), copy(list(s, n, "shape"))};
}
// The first and the last position that an axis of the slice takes; it is not empty.
std::pair<std::int64_t, std::int64_t> reach(slice_numbers const& c, std::size_t axis) {
  std::int64_t const a = c.start[axis], b = a + (c.extent[axis] - 1) * c.step[axis];
  return {std::min(a, b), std::max(a, b)};
}
bool takes_nothing(slice_numbers const& c) {
  return std::find(c.extent.begin(), c.extent.end(), 0) != c.extent.end();
}

// reshape, transpose, slice, sliding_window of x or broadcast(x), x of rank 0 -> broadcast(x)
maybe of_scalar(scene const& s, request const& r) {
  node_id x = r.operands[0];
  if (s.is(x, op::broadcast_to)) x = s.operand(x);
  if (s.shape(x).rank() != 0) return std::nullopt;
  return s.as(x, result_shape(s, r));
}

// concatenate, pad, slice_update of one constant only -> broadcast(constant)
maybe of_one_number(scene const& s, request const& r) {
  auto const value = s.splat(r.operands[0]);
  if (!value) return std::nullopt;
  for (node_id n : r.operands)
    if (s.splat(n) != value) return std::nullopt;
  return s.constant(s.type(r.operands[0]), *value, result_shape(s, r));
}

// reshape(x) to the shape of x -> x; reshape(reshape(x)) -> reshape(x)
maybe reshape_again(scene const& s, request const& r) {
  node_id const x = r.operands[0];
  reprise::shape const to = shape_of(list(r, "shape"));
  if (s.shape(x) == to) return x;
  if (s.is(x, op::reshape)) return reshape(s.operand(x), to);
  return std::nullopt;
}

// transpose(transpose(x)) -> transpose(x)
maybe transpose_again(scene const& s, request const& r) {
  node_id const x = r.operands[0];
  if (!s.is(x, op::transpose)) return std::nullopt;
  ir::words const outer = list(r, "axes"), inner = list(s, x, "axes");
  numbers axes;
  for (std::int64_t a : outer) axes.push_back(inner[static_cast<std::size_t>(a)]);
  request simpler{op::transpose, {s.operand(x)}, {}};
  put(simpler.attributes, axes);
  return simpler;
}
// transpose(x) that moves axes of extent 1 only -> reshape(x)
maybe transpose_in_order(scene const& s, request const& r) {
  reprise::shape const& from = s.shape(r.operands[0]);
  std::int64_t last = -1;
  if (!empty(from))
    for (std::int64_t a : list(r, "axes")) {
      if (from[static_cast<int>(a)] == 1) continue;
      if (a < last) return std::nullopt;
      last = a;
    }
  return reshape(r.operands[0], result_shape(s, r));
}

// broadcast(x) to the shape of x -> x; broadcast(broadcast(x)) -> broadcast(x)
maybe broadcast_again(scene const& s, request const& r) {
  node_id const x = r.operands[0];
  reprise::shape const to = shape_of(list(r, "shape"));
  if (s.shape(x) == to) return x;
  if (s.is(x, op::broadcast_to)) return request{op::broadcast_to, {s.operand(x)}, r.attributes};
  return std::nullopt;
}
// broadcast(x) that repeats nothing -> reshape(x); a value of rank 0 stays as it is
maybe broadcast_of_all(scene const& s, request const& r) {
  node_id const x = r.operands[0];
  reprise::shape const to = shape_of(list(r, "shape"));
  if (s.shape(x).rank() == 0 || s.shape(x).size() != to.size()) return std::nullopt;
  return reshape(x, to);
}

// slice(x) of everything -> x
maybe slice_of_all(scene const& s, request const& r) {
  slice_numbers const c = numbers_of(r);
  reprise::shape const& from = s.shape(r.operands[0]);
  for (std::size_t i = 0; i < c.extent.size(); ++i)
    if (c.extent[i] != from[static_cast<int>(i)] || (c.extent[i] > 0 && c.start[i] != 0) ||
        (c.extent[i] > 1 && c.step[i] != 1))
      return std::nullopt;
  return r.operands[0];
}
// slice(x) -> the same, written the one way
maybe slice_normal(scene const&, request const& r) {
  slice_numbers c = numbers_of(r);
  request normal = slice(r.operands[0], std::move(c.start), std::move(c.step), std::move(c.extent));
  if (normal.attributes == r.attributes) return std::nullopt;
  return normal;
}
// slice(slice(x)) -> slice(x)
maybe slice_again(scene const& s, request const& r) {
  node_id const x = r.operands[0];
  if (!s.is(x, op::slice)) return std::nullopt;
  slice_numbers c = numbers_of(r);
  slice_numbers const inner = numbers_of(s, x);
  for (std::size_t i = 0; i < c.extent.size(); ++i) {
    c.start[i] = inner.start[i] + c.start[i] * inner.step[i];
    c.step[i] *= inner.step[i];
  }
  return slice(s.operand(x), std::move(c.start), std::move(c.step), std::move(c.extent));
}
// slice(broadcast(x)) -> broadcast(slice(x))
maybe slice_of_broadcast(scene const& s, request const& r) {
  node_id const wide = r.operands[0];
  if (!s.is(wide, op::broadcast_to)) return std::nullopt;
  node_id x = s.operand(wide);
  reprise::shape const from = s.shape(x), to = shape_of(list(r, "shape"));
  slice_numbers c = numbers_of(r), narrow;
  std::size_t const added = c.extent.size() - static_cast<std::size_t>(from.rank());
  bool all = true;
  for (std::size_t i = added; i < c.extent.size(); ++i) {
    std::int64_t const extent = from[static_cast<int>(i - added)];
    bool const repeated = extent == 1;
    narrow.start.push_back(repeated ? 0 : c.start[i]);
    narrow.step.push_back(repeated ? 1 : c.step[i]);
    narrow.extent.push_back(repeated ? 1 : c.extent[i]);
    all &= repeated || (c.extent[i] == extent && c.start[i] == 0 && c.step[i] == 1);
  }
  if (!all) {
    request const part = slice(x, std::move(narrow.start), std::move(narrow.step), std::move(narrow.extent));
    x = s.build.add(part.code, part.operands, part.attributes);
  }
  return s.as(x, to);
}
// slice(concatenate(.., x, ..)) that sees one part only -> slice(x)
maybe slice_of_part(scene const& s, request const& r) {
  node_id const whole = r.operands[0];
  slice_numbers c = numbers_of(r);
  if (!s.is(whole, op::concatenate) || takes_nothing(c)) return std::nullopt;
  std::size_t const axis = static_cast<std::size_t>(s.program.int_of(whole, "axis"));
  auto const [low, high] = reach(c, axis);
  std::int64_t begin = 0;
  for (node_id part : s.program.operands_of(whole)) {
    std::int64_t const end = begin + s.shape(part)[static_cast<int>(axis)];
    if (low >= begin && high < end) {
      c.start[axis] -= begin;
      return slice(part, std::move(c.start), std::move(c.step), std::move(c.extent));
    }
    if (low < end) return std::nullopt;
    begin = end;
  }
  return std::nullopt;
}
// slice(pad(x, v)) inside of x -> slice(x), outside -> broadcast(v)
maybe slice_of_pad(scene const& s, request const& r) {
  node_id const whole = r.operands[0];
  slice_numbers c = numbers_of(r);
  if (!s.is(whole, op::pad) || takes_nothing(c)) return std::nullopt;
  node_id const x = s.operand(whole), value = s.operand(whole, 1);
  ir::words const before = list(s, whole, "low");
  bool inside = true;
  for (std::size_t i = 0; i < c.extent.size(); ++i) {
    auto const [low, high] = reach(c, i);
    std::int64_t const begin = before[i], end = begin + s.shape(x)[static_cast<int>(i)];
    if (high < begin || low >= end) return s.as(value, shape_of(c.extent));
    inside &= low >= begin && high < end;
  }
  if (!inside) return std::nullopt;
  for (std::size_t i = 0; i < c.extent.size(); ++i) c.start[i] -= before[i];
  return slice(x, std::move(c.start), std::move(c.step), std::move(c.extent));
}
// slice(slice_update(x, y)) of just that slice -> y, of something beside it -> slice(x)
maybe slice_of_update(scene const& s, request const& r) {
  node_id const whole = r.operands[0];
  slice_numbers c = numbers_of(r);
  if (!s.is(whole, op::slice_update) || takes_nothing(c)) return std::nullopt;
  node_id const y = s.operand(whole, 1);
  slice_numbers const written{copy(list(s, whole, "start")), copy(list(s, whole, "step")),
                              numbers(s.shape(y).begin(), s.shape(y).end())};
  bool same = true, beside = takes_nothing(written);
  for (std::size_t i = 0; i < c.extent.size(); ++i) {
    same &= c.start[i] == written.start[i] && c.extent[i] == written.extent[i] &&
            (c.step[i] == written.step[i] || c.extent[i] == 1);
    if (written.extent[i] == 0) continue;
    auto const a = reach(c, i), b = reach(written, i);
    beside |= a.second < b.first || b.second < a.first;
  }
  if (same) return y;
  if (!beside) return std::nullopt;
  return slice(s.operand(whole), std::move(c.start), std::move(c.step), std::move(c.extent));
}

// slice_update(x, y) of nothing -> x, of everything in order -> y
maybe update_all_or_nothing(scene const& s, request const& r) {
  reprise::shape const &x = s.shape(r.operands[0]), &y = s.shape(r.operands[1]);
  if (empty(y)) return r.operands[0];
  if (x != y) return std::nullopt;
  ir::words const start = list(r, "start"), step = list(r, "step");
  for (std::size_t i = 0; i < start.size(); ++i)
    if (start[i] != 0 || (y[static_cast<int>(i)] > 1 && step[i] != 1)) return std::nullopt;
  return r.operands[1];
}

// concatenate(x) -> x; concatenate(x, empty, y) -> concatenate(x, y)
maybe concatenate_parts(scene const& s, request const& r) {
  if (r.operands.size() == 1) return r.operands[0];
  int const axis = static_cast<int>(r.attributes[0]);
  request simpler{r.code, {}, r.attributes};
  for (node_id n : r.operands)
    if (s.shape(n)[axis] != 0) simpler.operands.push_back(n);
  if (simpler.operands.size() == r.operands.size()) return std::nullopt;
  if (simpler.operands.empty()) return r.operands[0];
  return simpler;
}

// pad(x) by nothing -> x
maybe pad_nothing(scene const& s, request const& r) {
  if (result_shape(s, r) != s.shape(r.operands[0])) return std::nullopt;
  return r.operands[0];
}
// pad(pad(x, v), v) -> pad(x, v)
maybe pad_again(scene const& s, request const& r) {
  node_id const inner = r.operands[0];
  if (!s.is(inner, op::pad) || s.operand(inner, 1) != r.operands[1]) return std::nullopt;
  request simpler{op::pad, {s.operand(inner), r.operands[1]}, {}};
  for (std::string_view side : {"low", "high"}) {
    numbers sum = copy(list(r, side));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += list(s, inner, side)[i];
    put(simpler.attributes, sum);
  }
  return simpler;
}

// sliding_window(x) along no axis -> x
maybe window_of_nothing(scene const&, request const& r) {
  if (!list(r, "axes").empty()) return std::nullopt;
  return r.operands[0];
}

}  // namespace

std::span<rule const> movement_rules() {
  static std::vector<rule> const rules{
      {"view of a scalar", of_scalar, {op::reshape, op::transpose, op::slice, op::sliding_window}},
      {"one number", of_one_number, {op::concatenate, op::pad, op::slice_update}},
      {"reshape of reshape", reshape_again, {op::reshape}},
      {"transpose of transpose", transpose_again, {op::transpose}},
      {"transpose in order", transpose_in_order, {op::transpose}},
      {"broadcast of broadcast", broadcast_again, {op::broadcast_to}},
      {"broadcast of all", broadcast_of_all, {op::broadcast_to}},
      {"slice of all", slice_of_all, {op::slice}},
      {"slice in normal form", slice_normal, {op::slice}},
      {"slice of slice", slice_again, {op::slice}},
      {"slice of broadcast", slice_of_broadcast, {op::slice}},
      {"slice of a part", slice_of_part, {op::slice}},
      {"slice of pad", slice_of_pad, {op::slice}},
      {"slice of slice_update", slice_of_update, {op::slice}},
      {"update of all or nothing", update_all_or_nothing, {op::slice_update}},
      {"concatenate parts", concatenate_parts, {op::concatenate}},
      {"pad by nothing", pad_nothing, {op::pad}},
      {"pad of pad", pad_again, {op::pad}},
      {"window of nothing", window_of_nothing, {op::sliding_window}},
  };
  return rules;
}

}  // namespace reprise::jit::simplifying
