// Arithmetic, comparisons, logic and selection. Floating rules hold for nan, infinities and both zeros, or
// are not here: x + 0 is not x when x is -0. Before and after are in each rule's comment; `x o y` stands for
// a commutative operation in either order.
#include <bit>
#include <cmath>

#include "jit/simplify.h"

namespace reprise::jit::simplifying {
namespace {

using maybe = std::optional<outcome>;

bool floating(scene const& s, request const& r) { return is_floating(s.type(r.operands[0])); }
bool boolean(scene const& s, request const& r) { return s.type(r.operands[0]) == dtype::boolean; }
bool same(request const& r) { return r.operands[0] == r.operands[1]; }

// Is one operand this number? The other one.
std::optional<node_id> other_than(scene const& s, request const& r, double value) {
  if (s.is_number(r.operands[1], value)) return r.operands[0];
  if (s.is_number(r.operands[0], value)) return r.operands[1];
  return std::nullopt;
}
maybe instead(scene const& s, request const& r, std::optional<node_id> n) {
  if (!n) return std::nullopt;
  return s.instead(r, *n);
}
maybe number(scene const& s, request const& r, double value) {
  return s.number(s.type(r.operands[0]), value, s.shape_of(r));
}
maybe truth(scene const& s, request const& r, bool value) {
  return s.constant(dtype::boolean, value, s.shape_of(r));
}

// y o x -> x o y, so that both are one node
maybe sorted(scene const&, request const& r) {
  if (r.operands[0] <= r.operands[1]) return std::nullopt;
  return request{r.code, {r.operands[1], r.operands[0]}, {}};
}

// y o broadcast(a) -> y o a, a of rank 0, where another operand still has the shape
maybe scalar_operand(scene const& s, request const& r) {
  std::size_t shaped = 0, found = r.operands.size();
  for (std::size_t i = 0; i < r.operands.size(); ++i) {
    node_id const n = r.operands[i];
    shaped += s.shape(n).rank() > 0;
    if (s.is(n, op::broadcast_to) && s.shape(s.operand(n)).rank() == 0) found = i;
  }
  if (shaped < 2 || found == r.operands.size()) return std::nullopt;
  request simpler = r;
  simpler.operands[found] = s.operand(r.operands[found]);
  return simpler;
}

// floating: x + -0 -> x; integers: x + 0 -> x
maybe add_nothing(scene const& s, request const& r) {
  return instead(s, r, other_than(s, r, floating(s, r) ? -0.0 : 0));
}

// x - 0 -> x
maybe sub_nothing(scene const& s, request const& r) {
  if (!s.is_number(r.operands[1], 0)) return std::nullopt;
  return s.instead(r, r.operands[0]);
}
// integers: x - x -> 0, x ^ x -> 0
maybe of_itself_zero(scene const& s, request const& r) {
  if (!same(r) || floating(s, r)) return std::nullopt;
  return number(s, r, 0);
}
// 0 - x -> -x for integers, -0 - x -> -x for floating
maybe sub_from_nothing(scene const& s, request const& r) {
  if (!s.is_number(r.operands[0], floating(s, r) ? -0.0 : 0)) return std::nullopt;
  request const negated{op::neg, {r.operands[1]}, {}};
  if (s.shape(r.operands[1]) != s.shape_of(r)) return std::nullopt;
  return negated;
}

// x * 1 -> x
maybe mul_one(scene const& s, request const& r) { return instead(s, r, other_than(s, r, 1)); }
// integers: x * 0 -> 0
maybe mul_zero(scene const& s, request const& r) {
  if (floating(s, r) || !other_than(s, r, 0)) return std::nullopt;
  return number(s, r, 0);
}
// x * -1 -> -x
maybe mul_minus_one(scene const& s, request const& r) {
  if (s.type(r.operands[0]) == dtype::u8) return std::nullopt;
  auto const x = other_than(s, r, -1);
  if (!x || s.shape(*x) != s.shape_of(r)) return std::nullopt;
  return request{op::neg, {*x}, {}};
}

// x / 1 -> x; integers: floor_divide(x, 1) -> x
maybe div_one(scene const& s, request const& r) {
  if (r.code == op::floor_divide && floating(s, r)) return std::nullopt;  // rounds
  if (!s.is_number(r.operands[1], 1)) return std::nullopt;
  return s.instead(r, r.operands[0]);
}
// floating: x / 2^n -> x * 2^-n, both the same number rounded once
maybe div_power_of_two(scene const& s, request const& r) {
  dtype const t = s.type(r.operands[0]);
  auto const bits = s.splat(r.operands[1]);
  if (!bits || !is_floating(t)) return std::nullopt;
  double value = 0;
  switch (t) {
    case dtype::f16:
      value = static_cast<double>(static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(*bits))));
      break;
    case dtype::bf16:
      value = static_cast<double>(static_cast<float>(bfloat16::from_bits(static_cast<std::uint16_t>(*bits))));
      break;
    case dtype::f32:
      value = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(*bits)));
      break;
    case dtype::f64: value = std::bit_cast<double>(*bits); break;
    case dtype::boolean:
    case dtype::u8:
    case dtype::i32:
    case dtype::i64: return std::nullopt;
  }
  int exponent = 0;
  if (value == 0 || !std::isfinite(value) || std::fabs(std::frexp(value, &exponent)) != 0.5)
    return std::nullopt;
  double const inverse = 1 / value;
  int const most = t == dtype::f16   ? 14
                   : t == dtype::f64 ? 1022
                                     : 126;  // the inverse is neither denormal nor infinite
  if (std::abs(exponent - 1) > most) return std::nullopt;
  node_id const by = s.build.constant(t, inverse);
  std::vector<node_id> operands{r.operands[0], by};
  if (s.shape(r.operands[0]) != s.shape_of(r)) return std::nullopt;
  return request{op::mul, std::move(operands), {}};
}
// integers: x % 1 -> 0
maybe mod_one(scene const& s, request const& r) {
  if (floating(s, r) || !s.is_number(r.operands[1], 1)) return std::nullopt;
  return number(s, r, 0);
}
// integers: x ** 1 -> x, x ** 0 -> 1
maybe integer_pow(scene const& s, request const& r) {
  if (floating(s, r)) return std::nullopt;
  if (s.is_number(r.operands[1], 1)) return s.instead(r, r.operands[0]);
  if (s.is_number(r.operands[1], 0)) return number(s, r, 1);
  return std::nullopt;
}

// --x -> x, ~~x -> x, !!x -> x for a boolean x
maybe twice(scene const& s, request const& r) {
  node_id const inner = r.operands[0];
  if (!s.is(inner, r.code)) return std::nullopt;
  node_id const x = s.operand(inner);
  if (s.type(x) != s.type(inner)) return std::nullopt;
  return x;
}
// f(f(x)) -> f(x): abs, relu, sign
maybe idempotent(scene const& s, request const& r) {
  if (!s.is(r.operands[0], r.code)) return std::nullopt;
  return r.operands[0];
}
// a whole number rounded: floor(ceil(x)) -> ceil(x)
maybe rounded_twice(scene const& s, request const& r) {
  for (op code : {op::floor, op::ceil, op::round, op::trunc})
    if (s.is(r.operands[0], code)) return r.operands[0];
  return std::nullopt;
}
// abs(-x) -> abs(x)
maybe abs_of_neg(scene const& s, request const& r) {
  if (!s.is(r.operands[0], op::neg) || s.type(r.operands[0]) == dtype::u8)
    return std::nullopt;  // -1 of u8 is 255
  return request{op::abs, {s.operand(r.operands[0])}, {}};
}
// x + -y -> x - y; x - -y -> x + y
maybe add_neg(scene const& s, request const& r) {
  op const becomes = r.code == op::add ? op::sub : op::add;
  if (s.is(r.operands[1], op::neg)) return request{becomes, {r.operands[0], s.operand(r.operands[1])}, {}};
  if (r.code == op::add && s.is(r.operands[0], op::neg))
    return request{becomes, {r.operands[1], s.operand(r.operands[0])}, {}};
  return std::nullopt;
}

// minimum(x, x) -> x; also maximum, &, |
maybe of_itself(scene const& s, request const& r) {
  if (!same(r)) return std::nullopt;
  return s.instead(r, r.operands[0]);
}

// x & -1 -> x, x & 0 -> 0; for booleans -1 is true
maybe and_constant(scene const& s, request const& r) {
  if (other_than(s, r, 0)) return number(s, r, 0);
  return instead(s, r,
                 boolean(s, r)                        ? other_than(s, r, 1)
                 : s.type(r.operands[0]) == dtype::u8 ? other_than(s, r, 255)
                                                      : other_than(s, r, -1));
}
// x | 0 -> x; booleans: x | true -> true
maybe or_constant(scene const& s, request const& r) {
  if (boolean(s, r) && other_than(s, r, 1)) return truth(s, r, true);
  return instead(s, r, other_than(s, r, 0));
}
// x ^ 0 -> x
maybe xor_constant(scene const& s, request const& r) { return instead(s, r, other_than(s, r, 0)); }
// x << 0 -> x, x >> 0 -> x
maybe shift_by_nothing(scene const& s, request const& r) {
  if (!s.is_number(r.operands[1], 0)) return std::nullopt;
  return s.instead(r, r.operands[0]);
}

// booleans: logical_and(x, true) -> x, with false -> false; any dtype: with a constant that is zero -> false
maybe logical_and_constant(scene const& s, request const& r) {
  bool const zero = other_than(s, r, 0) || (floating(s, r) && other_than(s, r, -0.0));
  if (zero) return truth(s, r, false);
  if (!boolean(s, r)) return std::nullopt;
  if (same(r)) return s.instead(r, r.operands[0]);
  return instead(s, r, other_than(s, r, 1));
}
// booleans: logical_or(x, false) -> x, with true -> true
maybe logical_or_constant(scene const& s, request const& r) {
  if (!boolean(s, r)) return std::nullopt;
  if (other_than(s, r, 1)) return truth(s, r, true);
  if (same(r)) return s.instead(r, r.operands[0]);
  return instead(s, r, other_than(s, r, 0));
}
// booleans: logical_xor(x, false) -> x; any dtype: logical_xor(x, x) -> false
maybe logical_xor_constant(scene const& s, request const& r) {
  if (same(r)) return truth(s, r, false);
  if (!boolean(s, r)) return std::nullopt;
  return instead(s, r, other_than(s, r, 0));
}
// !(x == y) -> x != y, !(x != y) -> x == y; integers: !(x < y) -> x >= y and so on (a nan makes both false)
maybe not_comparison(scene const& s, request const& r) {
  node_id const n = r.operands[0];
  bool const ordered = s.at(n).operand_count == 2 && !is_floating(s.type(s.operand(n)));
  struct opposite {
    op code, becomes;
    bool ordered_only;
  };
  static constexpr opposite pairs[] = {
      {op::equal, op::not_equal, false},   {op::not_equal, op::equal, false},
      {op::less, op::greater_equal, true}, {op::less_equal, op::greater, true},
      {op::greater, op::less_equal, true}, {op::greater_equal, op::less, true},
  };
  for (opposite const& p : pairs)
    if (s.is(n, p.code) && (ordered || !p.ordered_only))
      return request{p.becomes, {s.operand(n, 0), s.operand(n, 1)}, {}};
  return std::nullopt;
}

// x < x, x > x -> false; integers: x != x -> false, x == x, x <= x, x >= x -> true
maybe compared_to_itself(scene const& s, request const& r) {
  if (!same(r)) return std::nullopt;
  if (r.code == op::less || r.code == op::greater) return truth(s, r, false);
  if (floating(s, r)) return std::nullopt;
  return truth(s, r, r.code != op::not_equal);
}
// booleans: x == true -> x, x != false -> x, x == false -> !x, x != true -> !x
maybe compared_to_truth(scene const& s, request const& r) {
  if (!boolean(s, r)) return std::nullopt;
  for (int value : {0, 1}) {
    auto const x = other_than(s, r, value);
    if (!x) continue;
    if ((value == 1) == (r.code == op::equal)) return s.instead(r, *x);
    if (s.shape(*x) == s.shape_of(r)) return request{op::logical_not, {*x}, {}};
  }
  return std::nullopt;
}

// where(true, x, y) -> x, where(false, x, y) -> y, where(c, x, x) -> x
maybe where_constant(scene const& s, request const& r) {
  if (auto const c = s.splat(r.operands[0])) return s.instead(r, r.operands[*c != 0 ? 1 : 2]);
  if (r.operands[1] == r.operands[2]) return s.instead(r, r.operands[1]);
  return std::nullopt;
}
// where(!c, x, y) -> where(c, y, x)
maybe where_not(scene const& s, request const& r) {
  if (!s.is(r.operands[0], op::logical_not) && !s.is(r.operands[0], op::invert)) return std::nullopt;
  node_id const c = s.operand(r.operands[0]);
  if (s.type(c) != dtype::boolean) return std::nullopt;
  return request{op::where, {c, r.operands[2], r.operands[1]}, {}};
}
// where(c, true, false) -> c, where(c, false, true) -> !c, for booleans
maybe where_truth(scene const& s, request const& r) {
  if (s.type(r.operands[1]) != dtype::boolean || s.shape(r.operands[0]) != s.shape_of(r)) return std::nullopt;
  auto const x = s.splat(r.operands[1]), y = s.splat(r.operands[2]);
  if (!x || !y || *x == *y) return std::nullopt;
  if (*x != 0) return r.operands[0];
  return request{op::logical_not, {r.operands[0]}, {}};
}

std::vector<op> elementwise_operations() {
  std::vector<op> all{op::where};
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc) \
  if (arity > 1) all.push_back(op::id);
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
  return all;
}

}  // namespace

std::span<rule const> elementwise_rules() {
  static std::vector<rule> const rules{
      {"scalar operand", scalar_operand, elementwise_operations()},
      {"sorted operands",
       sorted,
       {op::add, op::mul, op::minimum, op::maximum, op::equal, op::not_equal, op::bitwise_and, op::bitwise_or,
        op::bitwise_xor, op::logical_and, op::logical_or, op::logical_xor}},
      {"add nothing", add_nothing, {op::add}},
      {"subtract nothing", sub_nothing, {op::sub}},
      {"subtract from nothing", sub_from_nothing, {op::sub}},
      {"zero of itself", of_itself_zero, {op::sub, op::bitwise_xor}},
      {"times one", mul_one, {op::mul}},
      {"times zero", mul_zero, {op::mul}},
      {"times minus one", mul_minus_one, {op::mul}},
      {"divided by one", div_one, {op::div, op::floor_divide}},
      {"divided by a power of two", div_power_of_two, {op::div}},
      {"remainder by one", mod_one, {op::mod, op::fmod}},
      {"integer power", integer_pow, {op::pow}},
      {"twice", twice, {op::neg, op::invert, op::logical_not}},
      {"idempotent", idempotent, {op::abs, op::relu, op::sign}},
      {"rounded twice", rounded_twice, {op::floor, op::ceil, op::round, op::trunc}},
      {"abs of neg", abs_of_neg, {op::abs}},
      {"add neg", add_neg, {op::add, op::sub}},
      {"of itself", of_itself, {op::minimum, op::maximum, op::bitwise_and, op::bitwise_or}},
      {"and constant", and_constant, {op::bitwise_and}},
      {"or constant", or_constant, {op::bitwise_or}},
      {"xor constant", xor_constant, {op::bitwise_xor}},
      {"shift by nothing", shift_by_nothing, {op::left_shift, op::right_shift}},
      {"logical and", logical_and_constant, {op::logical_and}},
      {"logical or", logical_or_constant, {op::logical_or}},
      {"logical xor", logical_xor_constant, {op::logical_xor}},
      {"not of a comparison", not_comparison, {op::logical_not}},
      {"compared to itself",
       compared_to_itself,
       {op::equal, op::not_equal, op::less, op::less_equal, op::greater, op::greater_equal}},
      {"compared to truth", compared_to_truth, {op::equal, op::not_equal}},
      {"where constant", where_constant, {op::where}},
      {"where not", where_not, {op::where}},
      {"where truth", where_truth, {op::where}},
  };
  return rules;
}

}  // namespace reprise::jit::simplifying
