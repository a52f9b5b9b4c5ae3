// Constants computed beforehand, and casts. An operation on constants is run by the reference, which is the
// law; elementary functions are left alone, since generated code may differ from it in the last places.
#include <algorithm>

#include "jit/simplify.h"
#include "trace/reference.h"

namespace reprise::jit::simplifying {
namespace {

using maybe = std::optional<outcome>;

bool exact(scene const& s, request const& r) {
  ir::op_info const& row = ir::info(r.code);
  switch (row.kind) {
    case ir::category::elementwise: return row.ulps == 0 || !is_floating(s.type(r.operands[0]));
    case ir::category::select:
    case ir::category::cast: return true;
    case ir::category::reduction:
    case ir::category::arg_reduction:
    case ir::category::movement:
    case ir::category::source:
    case ir::category::library:
    case ir::category::region: return false;
  }
  return false;
}

// f(1, broadcast(2)) -> broadcast(f(1, 2))
maybe constants(scene const& s, request const& r) {
  if (r.operands.empty() || !exact(s, r)) return std::nullopt;
  if (!std::all_of(r.operands.begin(), r.operands.end(), [&](node_id n) { return s.splat(n).has_value(); }))
    return std::nullopt;
  ir::program one;
  std::vector<node_id> in;
  for (node_id n : r.operands) {
    std::int64_t const bits = static_cast<std::int64_t>(*s.splat(n));
    in.push_back(one.append_typed(op::constant, {s.type(n), {}}, {&bits, 1}));
  }
  node_id const n = one.append(r.code, in, r.attributes);
  one.results.push_back({n, ir::result_role::returned, 0, {}});
  one.segments = {{static_cast<node_id>(one.nodes.size()), {}}};
  ir::host_tensor const value = ir::run_reference(one, {})[0];
  return s.constant(value.type.type, value.bits(0), s.shape_of(r));
}

dtype target(request const& r) { return static_cast<dtype>(r.attributes[0]); }

// cast(x) to the dtype it has -> x
maybe cast_to_itself(scene const& s, request const& r) {
  if (s.type(r.operands[0]) != target(r)) return std::nullopt;
  return r.operands[0];
}

// Is from -> middle -> to the same as from -> to, for every value?
bool passes_through(dtype from, dtype middle, dtype to) {
  bool const integers = class_of(middle) == dtype_class::integer && class_of(to) == dtype_class::integer;
  switch (from) {
    case dtype::boolean: return middle != dtype::boolean;
    case dtype::u8: return middle != dtype::boolean;  // every dtype has the numbers up to 255
    case dtype::i32:
      if (middle == dtype::i64) return !is_half(to);  // i64 goes to halves through f32
      if (middle == dtype::f64)                       // saturates where an integer would wrap
        return to == dtype::i32 || to == dtype::i64 || to == dtype::f32 || to == dtype::f64 ||
               to == dtype::boolean;
      return integers && size_of(to) <= size_of(middle);  // the low bits of the low bits
    case dtype::i64: return integers && size_of(to) <= size_of(middle);
    case dtype::f16:
    case dtype::bf16: return middle == dtype::f32 || middle == dtype::f64;
    case dtype::f32: return middle == dtype::f64;
    case dtype::f64: return false;
  }
  return false;
}

// cast(cast(x)) -> cast(x) where the dtype between changes nothing
maybe cast_of_cast(scene const& s, request const& r) {
  node_id const inner = r.operands[0];
  if (!s.is(inner, op::cast)) return std::nullopt;
  node_id const x = s.operand(inner);
  if (!passes_through(s.type(x), s.type(inner), target(r))) return std::nullopt;
  return request{op::cast, {x}, r.attributes};
}

}  // namespace

std::span<rule const> fold_rules() {
  static std::vector<rule> const rules{{"constants", constants, {}}};
  return rules;
}

std::span<rule const> cast_rules() {
  static std::vector<rule> const rules{
      {"cast to itself", cast_to_itself, {op::cast}},
      {"cast of cast", cast_of_cast, {op::cast}},
  };
  return rules;
}

}  // namespace reprise::jit::simplifying
