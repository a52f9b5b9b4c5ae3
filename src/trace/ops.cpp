// The operation table as data: ops.def read once into one array, indexed by the enumerator, with each row's
// attribute schema parsed. Reading packed attributes by name is a walk over a schema of at most four entries.
#include "trace/ops.h"

#include <fmt/format.h>

#include <array>
#include <unordered_map>

#include <reprise/error.h>

namespace reprise::ir {
namespace {

attribute_kind kind_of(std::string_view name) {
  if (name == "int") return attribute_kind::integer;
  if (name == "ints") return attribute_kind::integers;
  if (name == "dtype") return attribute_kind::dtype;
  if (name == "scalar") return attribute_kind::scalar;
  throw argument_error(fmt::format("ops.def: no attribute kind \"{}\"", name));
}

// "name:kind name:kind"; the names are views of the row's literal.
std::vector<attribute> parse_schema(std::string_view text) {
  std::vector<attribute> schema;
  while (!text.empty()) {
    std::string_view const entry = text.substr(0, text.find(' '));
    text.remove_prefix(entry.size() == text.size() ? entry.size() : entry.size() + 1);
    std::size_t const colon = entry.find(':');
    schema.push_back({entry.substr(0, colon), kind_of(entry.substr(colon + 1))});
  }
  return schema;
}

std::vector<op_info> build_table() {
  using c = category;
  using r = result_rule;
  constexpr auto no_identity = identity_value::none;
  std::vector<op_info> rows;
#define ELEMENTWISE(id, arity, accepts_, result, ulps, reference, kernel, doc) \
  rows.push_back(                                                              \
      {op::id, #id, c::elementwise, arity, accepts::accepts_, r::result, ulps, no_identity, {}, doc});
#define SELECT(id, doc) \
  rows.push_back({op::id, #id, c::select, 3, accepts::any, r::by_rule, 0, no_identity, {}, doc});
#define CAST(id, attributes, doc) \
  rows.push_back(                 \
      {op::id, #id, c::cast, 1, accepts::any, r::by_rule, 0, no_identity, parse_schema(attributes), doc});
#define REDUCTION(id, accepts_, result, identity, reference, kernel, doc)                                  \
  rows.push_back({op::id, #id, c::reduction, 1, accepts::accepts_, r::result, 0, identity_value::identity, \
                  parse_schema("axes:ints"), doc});
#define ARG_REDUCTION(id, better, doc)                                                      \
  rows.push_back({op::id, #id, c::arg_reduction, 1, accepts::any, r::index, 0, no_identity, \
                  parse_schema("axis:int"), doc});
#define MOVEMENT(id, arity, attributes, doc)                                                 \
  rows.push_back({op::id, #id, c::movement, arity, accepts::any, r::by_rule, 0, no_identity, \
                  parse_schema(attributes), doc});
#define SOURCE(id, arity, attributes, doc)                                                  \
  rows.push_back({op::id, #id, c::source, arity, accepts::none, r::by_rule, 0, no_identity, \
                  parse_schema(attributes), doc});
#define LIBRARY(id, arity, attributes, doc)                                                     \
  rows.push_back({op::id, #id, c::library, arity, accepts::numeric, r::by_rule, 0, no_identity, \
                  parse_schema(attributes), doc});
#define REGION(id, attributes, doc)                                                      \
  rows.push_back({op::id, #id, c::region, -1, accepts::none, r::by_rule, 0, no_identity, \
                  parse_schema(attributes), doc});
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
  return rows;
}

std::vector<op_info> const& table() {
  static std::vector<op_info> const rows = build_table();
  return rows;
}

// The words of one attribute: where it starts, and how many including an ints' count.
words find_attribute(op code, words attributes, std::string_view name, attribute_kind& kind) {
  std::size_t at = 0;
  for (attribute const& a : info(code).attributes) {
    if (at >= attributes.size()) break;
    std::int64_t const count = a.kind == attribute_kind::integers ? attributes[at] : 0;
    if (count < 0 || count >= std::ssize(attributes) - static_cast<std::ptrdiff_t>(at)) break;
    std::size_t const size = 1 + static_cast<std::size_t>(count);
    if (a.name == name) {
      kind = a.kind;
      return attributes.subspan(at, size);
    }
    at += size;
  }
  throw argument_error(fmt::format("{}: no attribute \"{}\"", info(code).name, name));
}

}  // namespace

int op_count() { return static_cast<int>(table().size()); }

op_info const& info(op code) { return table()[static_cast<std::size_t>(code)]; }

std::optional<op> find_op(std::string_view name) {
  static std::unordered_map<std::string_view, op> const by_name = [] {
    std::unordered_map<std::string_view, op> map;
    for (op_info const& row : table()) map.emplace(row.name, row.code);
    return map;
  }();
  auto const found = by_name.find(name);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

bool accepts_dtype(accepts set, dtype type) {
  dtype_class const cls = class_of(type);
  switch (set) {
    case accepts::any: return true;
    case accepts::numeric: return cls != dtype_class::boolean;
    case accepts::floating: return cls == dtype_class::floating;
    case accepts::integral: return cls != dtype_class::floating;
    case accepts::integer: return cls == dtype_class::integer;
    case accepts::boolean: return cls == dtype_class::boolean;
    case accepts::none: return false;
  }
  return false;
}

std::string str(tensor_type const& t) { return name_of(t.type) + t.shape.str(); }

std::int64_t attribute_int(op code, words attributes, std::string_view name) {
  attribute_kind kind{};
  words const found = find_attribute(code, attributes, name, kind);
  if (kind == attribute_kind::integers)
    throw argument_error(fmt::format("{}: attribute \"{}\" is a list", info(code).name, name));
  return found[0];
}

words attribute_ints(op code, words attributes, std::string_view name) {
  attribute_kind kind{};
  words const found = find_attribute(code, attributes, name, kind);
  if (kind != attribute_kind::integers)
    throw argument_error(fmt::format("{}: attribute \"{}\" is not a list", info(code).name, name));
  return found.subspan(1);
}

}  // namespace reprise::ir
