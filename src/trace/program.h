// A program: recorded operations as a value. Pure, immutable once canonical, cheap to map to other programs;
// nothing below the recorder depends on how it came to be. docs/program.md has its rules,
// docs/trace.schema.json its written form.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trace/ops.h"

namespace reprise::ir {

using node_id = std::uint32_t;
inline constexpr node_id no_node = 0xffffffffu;

struct source_line {
  std::string file;
  int line = 0;
};

struct node {
  op code = op::constant;
  dtype type = dtype::f32;
  reprise::shape shape;
  std::uint32_t first_operand = 0, operand_count = 0;      // into program::operands
  std::uint32_t first_attribute = 0, attribute_count = 0;  // into program::attributes
  std::uint32_t first_region = 0, region_count = 0;        // into program::regions
  std::uint32_t line = 0;  // into program::lines, 0: unknown; never part of a key
};

// How a parameter came to be. A lifted parameter is a number of rank 0 that the caller passes by value.
enum class parameter_role : std::uint8_t { argument, captured, lifted };
struct parameter {
  tensor_type type;
  parameter_role role = parameter_role::argument;
  std::string name;  // "0", "1.weight", "captured.0": for people and the command line; not part of a key
};

// What becomes of a result: returned, written back to a parameter, or bound to a handle that outlived the
// body.
enum class result_role : std::uint8_t { returned, in_out, handle };
struct result {
  node_id value = no_node;
  result_role role = result_role::returned;
  std::uint32_t parameter = 0;  // of an in_out result
  std::string name;             // not part of a key
};

// A program is a list of segments; each read ends one: nodes before `end` have run when the host looks at
// `reads`, and what follows was recorded for the values that it saw (`seen`, bits of each element). A program
// without reads has one segment.
struct read {
  node_id value = no_node;
  std::vector<std::uint64_t> seen;
};
struct segment {
  node_id end = 0;
  std::vector<read> reads;
};

class program {
 public:
  std::vector<node> nodes;  // topologically sorted: operands come first
  std::vector<node_id> operands;
  std::vector<std::int64_t> attributes;
  std::vector<parameter> parameters;
  std::vector<result> results;
  std::vector<segment> segments;
  std::vector<program> regions;  // nested programs of region nodes, owned by value
  std::vector<source_line> lines{1};

  std::span<node_id const> operands_of(node const& n) const {
    return {operands.data() + n.first_operand, n.operand_count};
  }
  std::span<node_id const> operands_of(node_id n) const { return operands_of(nodes[n]); }
  words attributes_of(node const& n) const {
    return {attributes.data() + n.first_attribute, n.attribute_count};
  }
  words attributes_of(node_id n) const { return attributes_of(nodes[n]); }
  std::int64_t int_of(node_id n, std::string_view name) const {
    return attribute_int(nodes[n].code, attributes_of(n), name);
  }
  words ints_of(node_id n, std::string_view name) const {
    return attribute_ints(nodes[n].code, attributes_of(n), name);
  }
  tensor_type type_of(node_id n) const { return {nodes[n].type, nodes[n].shape}; }

  // Appends a node after infer(); no value numbering (see builder).
  node_id append(op code, std::span<node_id const> operands, words attributes, std::uint32_t line = 0);
  // The nodes whose type no operand gives: a constant (one word: the bits of its value, a nan becomes the one
  // nan) and a parameter (one word: its index in `parameters`, which must hold it already).
  node_id append_typed(op code, tensor_type const& type, words attributes, std::uint32_t line = 0);
  // A node that owns regions; infer_region() gives its type.
  node_id append_region(op code, std::span<node_id const> operands, words attributes,
                        std::vector<program> nested, std::uint32_t line = 0);
  std::uint32_t add_line(std::string_view file, int line);  // the same index for the same line
};

// The bits of a C++ number as a constant of a dtype: rounded once; integers saturate, nan becomes 0 in them
// and the one nan in floating types. And the bits with every nan made the one nan.
std::uint64_t constant_bits(dtype type, double value);
std::uint64_t one_nan(dtype type, std::uint64_t bits);

// What a region node gives (P10). cond: a boolean of rank 0, then the arguments of both regions. while_loop:
// the arguments of a condition and of a body; repeat: of a body. A body gives the first of its arguments
// anew, at least one; the node is the one of them that the attribute `result` names, at the end.
inline constexpr int max_nesting = 64;
tensor_type infer_region(op code, std::span<tensor_type const> operands, words attributes,
                         std::span<program const> regions);

// Appends with value numbering: the same operation on the same operands is the same node. Helpers for passes
// and tests.
class builder {
 public:
  explicit builder(program& p);
  ~builder();
  node_id add(op code, std::span<node_id const> operands, words attributes, std::uint32_t line = 0);
  node_id add(op code, std::initializer_list<node_id> operands,
              std::initializer_list<std::int64_t> attributes = {});
  node_id parameter(tensor_type type, parameter_role role = parameter_role::argument, std::string name = {});
  node_id constant(dtype type, std::uint64_t bits);
  node_id constant(dtype type, double value);                  // converted by docs/numbers.md
  node_id broadcast(node_id value, reprise::shape const& to);  // no node when it has the shape already
  program& target();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

// The canonical form: dead nodes gone, duplicates merged, numbered by a depth-first walk from the results in
// their order; parameters keep their order. Independent of evaluation order, addresses and compiler.
// Iterative: no recursion at any size.
//
// Constants that happen to be equal are one node, or stay apart. Recordings keep them apart, so that the
// shape of a program does not depend on the values of its numbers: a rate that equals a decay in one call
// only would otherwise be another program.
enum class constants : std::uint8_t { merged, apart };
program canonical(program const& p, constants how = constants::merged);

// The bytes that say what is computed: everything but names and lines. Two canonical programs are the same
// work exactly when these are equal. `skeleton` leaves out the values of constants (and lists them), to find
// a program that differs in numbers only.
std::string key_bytes(program const& p);
struct skeleton {
  std::string bytes;               // key bytes with each constant's value left out
  std::vector<node_id> constants;  // in node order
  std::vector<std::uint64_t> values;
};
skeleton skeleton_of(program const& p);
// The program with the given constants turned into lifted parameters, appended to the parameter list in that
// order.
program lift(program const& p, std::span<node_id const> constants);

struct hash128 {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(hash128, hash128) = default;
};
hash128 hash_bytes(std::string_view bytes);
std::string hex(hash128);

// Throws argument_error naming the rule of docs/program.md that is broken ("P7: ..."), or unsupported_error
// for what this version writes and reads but does not run (regions, several segments).
void verify(program const& p);
void verify_runnable(program const& p);

// docs/trace.schema.json. from_json throws format_error saying where (a JSON pointer) and what; what it
// returns is verified.
std::string to_json(program const& p);
program from_json(std::string_view text);

}  // namespace reprise::ir
