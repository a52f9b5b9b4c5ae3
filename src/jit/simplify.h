// Programs made simpler without changing one bit of any result, by docs/numbers.md. Nodes are rebuilt one
// after the other; each is a `request` that rules rewrite until none applies. A rule answers with a simpler
// request or with a node that exists, and never looks at who uses a value. Reductions are rebuilt as they
// are: a view that moved through one would change the order of its sum.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "trace/program.h"

namespace reprise::jit::simplifying {

using ir::node_id;
using ir::op;

struct request {
  op code = op::constant;
  std::vector<node_id> operands;
  std::vector<std::int64_t> attributes;
};
using outcome = std::variant<node_id, request>;

// The program under construction, as rules see it.
class scene {
 public:
  scene(ir::program& p, ir::builder& b) : program(p), build(b) {}
  ir::program& program;
  ir::builder& build;

  ir::node const& at(node_id n) const { return program.nodes[n]; }
  reprise::shape const& shape(node_id n) const { return program.nodes[n].shape; }
  dtype type(node_id n) const { return program.nodes[n].type; }
  bool is(node_id n, op code) const { return program.nodes[n].code == code; }
  node_id operand(node_id n, std::size_t i = 0) const { return program.operands_of(n)[i]; }
  // The one number that all elements of n are: n is a constant, or a broadcast of one.
  std::optional<std::uint64_t> splat(node_id n) const;
  // Are all elements of n this number? It is rounded to the dtype of n; -0 is not 0.
  bool is_number(node_id n, double value) const;
  // Of an elementwise operation.
  reprise::shape shape_of(request const& r) const;

  // n with another shape, to which it broadcasts.
  outcome as(node_id n, reprise::shape const& to) const;
  outcome constant(dtype t, std::uint64_t bits, reprise::shape const& to) const;
  outcome number(dtype t, double value, reprise::shape const& to) const;
  // An operand of the operation of r in the place of its result.
  outcome instead(request const& r, node_id n) const { return as(n, shape_of(r)); }
};

using rewrite = std::optional<outcome> (*)(scene const&, request const&);
struct rule {
  std::string_view name;
  rewrite apply;
  std::vector<op> codes;  // empty: any operation
};
std::span<rule const> fold_rules();
std::span<rule const> elementwise_rules();
std::span<rule const> cast_rules();
std::span<rule const> movement_rules();

// An attribute that lists numbers, in words.
void put(std::vector<std::int64_t>& words, std::span<std::int64_t const> values);
std::vector<std::int64_t> words_of(reprise::shape const& s);

}  // namespace reprise::jit::simplifying
