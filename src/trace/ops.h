// What the rest of the library knows of operations: the enumeration and the facts of each row of ops.def,
// attribute schemas, and the rule that gives a result's dtype and shape. Adding a row to ops.def is all it
// takes for an elementwise operation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <reprise/shape.h>
#include <reprise/types.h>

namespace reprise::ir {

enum class op : std::uint16_t {
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc) id,
#define SELECT(id, doc) id,
#define CAST(id, attributes, doc) id,
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc) id,
#define ARG_REDUCTION(id, better, doc) id,
#define MOVEMENT(id, arity, attributes, doc) id,
#define SOURCE(id, arity, attributes, doc) id,
#define LIBRARY(id, arity, attributes, doc) id,
#define REGION(id, attributes, doc) id,
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
};

enum class category : std::uint8_t {
  elementwise,
  select,
  cast,
  reduction,
  arg_reduction,
  movement,
  source,
  library,
  region
};
enum class accepts : std::uint8_t { any, numeric, floating, integral, integer, boolean, none };
enum class result_rule : std::uint8_t { same, boolean, summed, index, by_rule };
enum class identity_value : std::uint8_t { none, zero, one, lowest, highest };

enum class attribute_kind : std::uint8_t { integer, integers, dtype, scalar };
struct attribute {
  std::string_view name;
  attribute_kind kind;
};

struct op_info {
  op code;
  char const* name;  // the JSON name and the enumerator
  category kind;
  int arity;  // -1: one or more
  accepts operands;
  result_rule result;
  int ulps;
  identity_value identity;  // of a reduction
  std::vector<attribute> attributes;
  char const* doc;
};

int op_count();
op_info const& info(op);  // O(1)
std::optional<op> find_op(std::string_view name);
bool accepts_dtype(accepts set, dtype type);

// The result of an operation: what a node says of itself.
struct tensor_type {
  dtype type = dtype::f32;
  reprise::shape shape;
  friend bool operator==(tensor_type const&, tensor_type const&) = default;
};
std::string str(tensor_type const&);  // "float32(2, 3)"

// Attributes are packed words in the order of the schema: an int, dtype or scalar is one word (a scalar: its
// bits, zero extended), an ints is its count and then its values.
using words = std::span<std::int64_t const>;
std::int64_t attribute_int(op, words, std::string_view name);
words attribute_ints(op, words, std::string_view name);

// The dtype and shape that an operation gives, by its row. Throws argument_error with operation, operand
// shapes and reason when the operands or attributes are not legal; a node for which this does not throw
// satisfies the node rules of docs/program.md.
tensor_type infer(op code, std::span<tensor_type const> operands, words attributes);

}  // namespace reprise::ir
