// Recording of elementwise operations, casts, where and reductions: promotion, broadcasting and weak numbers
// become explicit nodes here, so that a program has none of them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "trace/record.h"

namespace reprise::record {

static_assert(static_cast<int>(detail::opcode::repeat) == static_cast<int>(ir::op::repeat),
              "two enumerations of one table");

ir::node_id operand_node(editor& e, detail::argument const& a, dtype type) {
  switch (a.kind) {
    case detail::argument_kind::array: return e.cast(e.in(*a.array), type);
    case detail::argument_kind::number: return e.constant(type, a.bits);
    case detail::argument_kind::scalar: return e.scalar(a.scalar_id, a.type, a.bits);
  }
  return ir::no_node;
}

shape broadcast_shapes(editor const& e, std::span<shape const> shapes) {
  int rank = 0;
  for (shape const& s : shapes) rank = std::max(rank, s.rank());
  shape result;
  for (int i = 0; i < rank; ++i) {
    std::int64_t extent = 1;
    for (shape const& s : shapes) {
      int const axis = i - (rank - s.rank());
      if (axis < 0 || s[axis] == 1) continue;
      if (extent != 1 && extent != s[axis]) {
        std::string all;
        for (shape const& o : shapes) all += (all.empty() ? "" : " and ") + o.str();
        e.fail("shapes " + all + " do not broadcast");
      }
      extent = s[axis];
    }
    result.push_back(extent);
  }
  return result;
}

ir::node_id elementwise(editor& e, ir::op code, std::span<ir::node_id> operands) {
  shape shapes[4];
  std::size_t n = 0;
  for (ir::node_id o : operands) shapes[n++] = e.type_of(o).shape;
  bool equal = true;
  for (std::size_t i = 0; i < n; ++i)
    equal = equal && (shapes[i] == shapes[0] || shapes[i].rank() == 0 || shapes[0].rank() == 0);
  shape const to = broadcast_shapes(e, {shapes, n});
  static_cast<void>(equal);
  for (ir::node_id& o : operands)
    if (e.type_of(o).shape.rank() != 0) o = e.broadcast(o, to);
  return e.add(code, operands, {});
}

ir::node_id elementwise(editor& e, ir::op code, std::initializer_list<ir::node_id> operands) {
  ir::node_id all[4];
  std::copy(operands.begin(), operands.end(), all);
  return elementwise(e, code, std::span(all, operands.size()));
}

std::vector<int> normalized_axes(editor const& e, detail::axes_argument const& a, int rank) {
  std::vector<int> axes;
  if (a.all) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  for (int i = 0; i < a.count; ++i) {
    std::int64_t const axis = a.axis[i] < 0 ? a.axis[i] + rank : a.axis[i];
    if (axis < 0 || axis >= rank) e.fail(fmt::format("axis {} is out of range for rank {}", a.axis[i], rank));
    if (std::find(axes.begin(), axes.end(), static_cast<int>(axis)) != axes.end())
      e.fail(fmt::format("axis {} is given twice", a.axis[i]));
    axes.push_back(static_cast<int>(axis));
  }
  return axes;
}

ir::node_id reduce(editor& e, ir::op code, ir::node_id x, std::vector<int> axes, bool keepdims) {
  std::sort(axes.begin(), axes.end());
  ir::tensor_type const type = e.type_of(x);
  std::vector<std::int64_t> words{0};
  shape kept, removed;
  for (int i = 0; i < type.shape.rank(); ++i) {
    bool const reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (reduced && type.shape[i] != 1) {
      words.push_back(i);
      ++words[0];
      if (type.shape[i] == 0 && type.shape.size() == 0 && (code == ir::op::max || code == ir::op::min))
        e.fail(fmt::format("axis {} of shape {} is empty and has no extreme", i, type.shape.str()));
    }
    if (reduced) kept.push_back(1);
    else kept.push_back(type.shape[i]), removed.push_back(type.shape[i]);
  }
  ir::node_id result = x;
  if (words[0] > 0) {
    ir::node_id const one[] = {x};
    result = e.add(code, one, words);
  } else {
    result = e.cast(x, ir::info(code).result == ir::result_rule::summed ? sum_type(type.type) : type.type);
  }
  return e.reshape(result, keepdims ? kept : removed);
}

}  // namespace reprise::record

namespace reprise::inline v1::detail {

using namespace record;

handle record_elementwise(opcode op, dtype type, argument const* arguments, int count, location at) {
  handle const* arrays[4];
  std::size_t n = 0;
  for (int i = 0; i < count; ++i)
    if (arguments[i].kind == argument_kind::array) arrays[n++] = arguments[i].array;
  auto const code = static_cast<ir::op>(op);
  editor e({arrays, n}, ir::info(code).name, at);
  ir::node_id operands[4];
  for (int i = 0; i < count; ++i) {
    operands[i] = operand_node(e, arguments[i], type);
    operands[i] = e.cast(operands[i], type);
  }
  return e.finish(elementwise(e, code, std::span(operands, static_cast<std::size_t>(count))));
}

handle record_where(argument const& condition, argument const& yes, argument const& no, dtype type,
                    location at) {
  handle const* arrays[3];
  std::size_t n = 0;
  for (argument const* a : {&condition, &yes, &no})
    if (a->kind == argument_kind::array) arrays[n++] = a->array;
  editor e({arrays, n}, "where", at);
  ir::node_id const c = operand_node(e, condition, dtype::boolean),
                    x = e.cast(operand_node(e, yes, type), type), y = e.cast(operand_node(e, no, type), type);
  return e.finish(elementwise(e, ir::op::where, {c, x, y}));
}

handle record_cast(handle const& x, dtype to, location at) {
  handle const* one[] = {&x};
  editor e(one, "cast", at);
  return e.finish(e.cast(e.in(x), to));
}

handle record_reduction(opcode op, handle const& x, axes_argument const& axes, bool keepdims, location at) {
  auto const code = static_cast<ir::op>(op);
  handle const* one[] = {&x};
  editor e(one, ir::info(code).name, at);
  ir::node_id n = e.in(x);
  return e.finish(reduce(e, code, n, normalized_axes(e, axes, e.type_of(n).shape.rank()), keepdims));
}

handle record_arg_reduction(opcode op, handle const& x, axes_argument const& axis, bool keepdims,
                            location at) {
  auto const code = static_cast<ir::op>(op);
  handle const* one[] = {&x};
  editor e(one, ir::info(code).name, at);
  ir::node_id n = e.in(x);
  shape const full = e.type_of(n).shape;
  if (!axis.all && axis.count != 1) e.fail("takes one axis, or none for the flattened array");
  std::int64_t along = 0;
  shape kept;
  if (axis.all) {
    n = e.reshape(n, shape{full.size()});
    for (int i = 0; i < full.rank(); ++i) kept.push_back(1);
  } else {
    along = normalized_axes(e, axis, full.rank())[0];
    kept = full;
    kept[static_cast<int>(along)] = 1;
  }
  ir::node_id r = e.add(code, {n}, {along});
  return e.finish(keepdims ? e.reshape(r, kept) : r);
}

std::uint64_t number_bits(dtype type, double value) { return ir::constant_bits(type, value); }

std::uint64_t number_bits(dtype type, std::int64_t value, location at) {
  auto const check = [&](std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
      throw argument_error(
          message("number", fmt::format("{} does not fit into {}", value, name_of(type)), at));
  };
  switch (type) {
    case dtype::boolean: check(0, 1); return static_cast<std::uint64_t>(value);
    case dtype::u8: check(0, 255); return static_cast<std::uint64_t>(value);
    case dtype::i32:
      check(std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max());
      return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
    case dtype::i64: return static_cast<std::uint64_t>(value);
    case dtype::f16:
    case dtype::bf16:
    case dtype::f32: {
      // Rounded once: a double between would round twice.
      float const f = static_cast<float>(value);
      return type == dtype::f32 ? std::bit_cast<std::uint32_t>(f)
                                : ir::constant_bits(type, static_cast<double>(f));
    }
    case dtype::f64: return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  }
  return 0;
}

std::uint64_t number_bits_unsigned(dtype type, std::uint64_t value, location at) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return number_bits(type, static_cast<std::int64_t>(value), at);
  if (!is_floating(type))
    throw argument_error(message("number", fmt::format("{} does not fit into {}", value, name_of(type)), at));
  return ir::constant_bits(type, static_cast<double>(value));
}

}  // namespace reprise::inline v1::detail
