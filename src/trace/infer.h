// What the shape rules share: one call of infer(), how a rule refuses, and the helpers that several rules
// need. A rule builds no string and allocates nothing unless it refuses.
#pragma once

#include <string>

#include <reprise/error.h>

#include "trace/ops.h"

namespace reprise::ir {

__extension__ typedef __int128 wide;  // sums and products of extents, before they are known to be small

struct call {
  op_info const& row;
  std::span<tensor_type const> operands;
  words attributes;

  tensor_type const& operator[](int i) const { return operands[static_cast<std::size_t>(i)]; }
  std::int64_t integer(std::string_view name) const { return attribute_int(row.code, attributes, name); }
  words integers(std::string_view name) const { return attribute_ints(row.code, attributes, name); }
};

// "matmul: operands float32(2, 3) and float32(4, 5): inner extents 3 and 4 differ"
// `rule` is the rule of docs/program.md that is broken.
[[noreturn]] void refuse(call const& c, std::string const& reason, int rule = 2);
class refusal : public argument_error {
 public:
  refusal(std::string const& what, int rule) : argument_error(what), rule(rule) {}
  int rule;
};

// The number of operands and the words of the schema; every rule relies on both.
void check_call(call const& c);

inline constexpr std::int64_t max_elements = std::int64_t{1} << 62;
// Are the extents those of P6? An extent of 0 counts as 1 here, so that no product of some of the extents
// overflows either.
bool small_enough(reprise::shape const& s);
// The result of a rule, checked by P6.
tensor_type made(call const& c, dtype type, reprise::shape const& s);
// An attribute that lists extents, as a shape.
reprise::shape extents(call const& c, std::string_view name);
// An attribute that must have one value in [low, high] for each axis.
words per_axis(call const& c, std::string_view name, int count, std::int64_t low);
// NumPy's broadcasting of two extents; -1: they do not go together.
constexpr std::int64_t broadcast(std::int64_t a, std::int64_t b) {
  return a == b || b == 1 ? a : a == 1 ? b : -1;
}
std::string list(words values);  // "[1, 2]"

#define SELECT(id, doc) tensor_type infer_##id(call const&);
#define CAST(id, attributes, doc) tensor_type infer_##id(call const&);
#define MOVEMENT(id, arity, attributes, doc) tensor_type infer_##id(call const&);
#define SOURCE(id, arity, attributes, doc) tensor_type infer_##id(call const&);
#define LIBRARY(id, arity, attributes, doc) tensor_type infer_##id(call const&);
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc)
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc)
#define ARG_REDUCTION(id, better, doc)
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

}  // namespace reprise::ir
