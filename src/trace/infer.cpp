// The rule of each operation: dtype and shape of its result, or why it is refused. Elementwise operations and
// reductions are read from their rows' columns; every other row has a function named infer_<row> (here:
// select, cast and sources).
#include "trace/infer.h"

#include <fmt/format.h>

#include <reprise/error.h>

namespace reprise::ir {
namespace {

char const* name_of(accepts set) {
  switch (set) {
    case accepts::any: return "any";
    case accepts::numeric: return "numeric";
    case accepts::floating: return "floating";
    case accepts::integral: return "integer and boolean";
    case accepts::integer: return "integer";
    case accepts::boolean: return "boolean";
    case accepts::none: return "no";
  }
  return "no";
}

void check_arity(call const& c) {
  std::size_t const n = c.operands.size();
  if (c.row.arity < 0 ? n > 0 : n == static_cast<std::size_t>(c.row.arity)) return;
  refuse(c, c.row.arity < 0
                ? "takes one operand or more"
                : fmt::format("takes {} operand{}, not {}", c.row.arity, c.row.arity == 1 ? "" : "s", n));
}

// P4: exactly the words that the row's schema says. No list is longer than a shape.
void check_layout(call const& c) {
  std::size_t at = 0;
  std::size_t const size = c.attributes.size();
  for (attribute const& a : c.row.attributes) {
    if (at >= size) refuse(c, fmt::format("attribute \"{}\" is missing", a.name), 4);
    std::int64_t const word = c.attributes[at++];
    switch (a.kind) {
      case attribute_kind::integer:
      case attribute_kind::scalar: break;
      case attribute_kind::dtype:
        if (word < 0 || word >= dtype_count)
          refuse(c, fmt::format("attribute \"{}\" is no dtype: {}", a.name, word), 4);
        break;
      case attribute_kind::integers:
        if (word < 0 || word > max_rank)
          refuse(c, fmt::format("attribute \"{}\" has {} values; at most {}", a.name, word, max_rank), 4);
        if (static_cast<std::size_t>(word) > size - at)
          refuse(c, fmt::format("attribute \"{}\" is cut short", a.name), 4);
        at += static_cast<std::size_t>(word);
    }
  }
  if (at != size) refuse(c, fmt::format("{} attribute words too many", size - at), 4);
}

[[noreturn]] void refuse_dtype(call const& c) {
  refuse(c, fmt::format("takes {} dtypes", name_of(c.row.operands)), 3);
}

// P3: the one shape of the operands that are not of rank 0.
reprise::shape const& common_shape(call const& c) {
  reprise::shape const* result = &c[0].shape;
  for (std::size_t i = 1; i < c.operands.size(); ++i) {
    reprise::shape const& s = c.operands[i].shape;
    if (s.rank() == 0) continue;
    if (result->rank() == 0) result = &s;
    else if (!(*result == s)) refuse(c, "shapes differ, and neither is of rank 0", 3);
  }
  return *result;
}

tensor_type infer_elementwise(call const& c) {
  dtype const type = c[0].type;
  for (std::size_t i = 1; i < c.operands.size(); ++i)
    if (c.operands[i].type != type) refuse(c, "dtypes differ", 3);
  if (!accepts_dtype(c.row.operands, type)) refuse_dtype(c);
  return {c.row.result == result_rule::boolean ? dtype::boolean : type, common_shape(c)};
}

// The extreme of nothing has no value, unless there is no place to put it either.
void refuse_empty(call const& c, reprise::shape const& result) {
  if (c[0].shape.size() == 0 && result.size() != 0)
    refuse(c, fmt::format("has no value for an empty axis (the result would be {})", result.str()));
}

tensor_type infer_reduction(call const& c) {
  tensor_type const& x = c[0];
  if (!accepts_dtype(c.row.operands, x.type)) refuse_dtype(c);
  words const axes = c.integers("axes");
  if (axes.empty()) refuse(c, "reduces no axis", 4);
  bool removed[max_rank] = {};
  std::int64_t before = -1;
  for (std::int64_t axis : axes) {
    if (axis < 0 || axis >= x.shape.rank())
      refuse(c, fmt::format("no axis {} in axes {}", axis, list(axes)), 4);
    if (axis <= before) refuse(c, fmt::format("axes {} are not in ascending order", list(axes)), 4);
    if (x.shape[static_cast<int>(axis)] == 1) refuse(c, fmt::format("axis {} has extent 1", axis), 4);
    removed[axis] = true;
    before = axis;
  }
  reprise::shape result;
  for (int i = 0; i < x.shape.rank(); ++i)
    if (!removed[i]) result.push_back(x.shape[i]);
  bool const needs_elements =
      c.row.identity == identity_value::lowest || c.row.identity == identity_value::highest;
  if (needs_elements) refuse_empty(c, result);
  return {c.row.result == result_rule::summed ? sum_type(x.type) : x.type, result};
}

tensor_type infer_arg_reduction(call const& c) {
  tensor_type const& x = c[0];
  std::int64_t const axis = c.integer("axis");
  if (axis < 0 || axis >= x.shape.rank()) refuse(c, fmt::format("no axis {}", axis), 4);
  reprise::shape result = x.shape;
  result.erase(static_cast<int>(axis));
  refuse_empty(c, result);
  return {dtype::i64, result};
}

[[noreturn]] tensor_type infer_region_row(call const& c) {
  refuse(c, "its regions give its type (infer_region)");
}

}  // namespace

void check_call(call const& c) {
  check_arity(c);
  check_layout(c);
}

void refuse(call const& c, std::string const& reason, int rule) {
  std::string text = c.row.name;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    if (i == 0) text += c.operands.size() == 1 ? ": operand " : ": operands ";
    else if (i == 8 && c.operands.size() > 9) {
      text += fmt::format(" and {} more", c.operands.size() - i);
      break;
    } else text += i + 1 == c.operands.size() ? " and " : ", ";
    text += str(c.operands[i]);
  }
  throw refusal(text + ": " + reason, rule);
}

std::string list(words values) { return fmt::format("[{}]", fmt::join(values.begin(), values.end(), ", ")); }

bool small_enough(reprise::shape const& s) {
  wide count = 1;
  for (std::int64_t extent : s) {
    count *= extent > 1 ? extent : 1;
    if (count >= max_elements) return false;
  }
  return true;
}

tensor_type made(call const& c, dtype type, reprise::shape const& s) {
  if (!small_enough(s)) refuse(c, fmt::format("the result {} would have 2^62 elements or more", s.str()), 6);
  return {type, s};
}

reprise::shape extents(call const& c, std::string_view name) {
  reprise::shape s;
  for (std::int64_t extent : c.integers(name)) {
    if (extent < 0) refuse(c, fmt::format("{} {} has a negative extent", name, list(c.integers(name))), 4);
    s.push_back(extent);
  }
  return s;
}

words per_axis(call const& c, std::string_view name, int count, std::int64_t low) {
  words const values = c.integers(name);
  if (std::ssize(values) != count)
    refuse(c, fmt::format("{} {} has {} values, not {}", name, list(values), values.size(), count), 4);
  for (std::int64_t v : values)
    if (v < low) refuse(c, fmt::format("{} {} has a value below {}", name, list(values), low), 4);
  return values;
}

tensor_type infer_where(call const& c) {
  if (c[0].type != dtype::boolean) refuse(c, "the condition is not boolean", 3);
  if (c[1].type != c[2].type) refuse(c, "dtypes of the two choices differ", 3);
  return {c[1].type, common_shape(c)};
}

tensor_type infer_cast(call const& c) { return {static_cast<dtype>(c.integer("dtype")), c[0].shape}; }

tensor_type infer_parameter(call const& c) { refuse(c, "the parameter list gives its type (append_typed)"); }

tensor_type infer_constant(call const& c) { refuse(c, "no operand gives its dtype (append_typed)"); }

tensor_type infer_iota(call const& c) {
  reprise::shape const s = extents(c, "shape");
  std::int64_t const axis = c.integer("axis");
  if (axis < 0 || axis >= s.rank()) refuse(c, fmt::format("no axis {} in shape {}", axis, s.str()), 4);
  return made(c, dtype::i64, s);
}

tensor_type infer_philox(call const& c) {
  if (c[0].type != dtype::i64 || c[0].shape.rank() != 0) refuse(c, "the key is an int64 of rank 0");
  return made(c, dtype::i64, extents(c, "shape"));
}

tensor_type infer(op code, std::span<tensor_type const> operands, words attributes) {
  call const c{info(code), operands, attributes};
  check_call(c);
  switch (code) {
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc) case op::id:
#define SELECT(id, doc)
#define CAST(id, attributes, doc)
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc)
#define ARG_REDUCTION(id, better, doc)
#define MOVEMENT(id, arity, attributes, doc)
#define SOURCE(id, arity, attributes, doc)
#define LIBRARY(id, arity, attributes, doc)
#define REGION(id, attributes, doc)
#include <reprise/ops.def>
#undef ELEMENTWISE
#undef SELECT
#undef CAST
#undef REDUCTION
#undef ARG_REDUCTION
#undef MOVEMENT
#undef SOURCE
#undef LIBRARY
#undef REGION
    return infer_elementwise(c);
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc)
#define SELECT(id, doc) \
  case op::id: return infer_##id(c);
#define CAST(id, attributes, doc) \
  case op::id: return infer_##id(c);
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc) \
  case op::id: return infer_reduction(c);
#define ARG_REDUCTION(id, better, doc) \
  case op::id: return infer_arg_reduction(c);
#define MOVEMENT(id, arity, attributes, doc) \
  case op::id: return infer_##id(c);
#define SOURCE(id, arity, attributes, doc) \
  case op::id: return infer_##id(c);
#define LIBRARY(id, arity, attributes, doc) \
  case op::id: return infer_##id(c);
#define REGION(id, attributes, doc) \
  case op::id: infer_region_row(c);
#include <reprise/ops.def>
#undef ELEMENTWISE
#undef SELECT
#undef CAST
#undef REDUCTION
#undef ARG_REDUCTION
#undef MOVEMENT
#undef SOURCE
#undef LIBRARY
#undef REGION
  }
  refuse(c, "no such operation");
}

}  // namespace reprise::ir
