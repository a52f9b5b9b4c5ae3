// Builds the simpler program node by node, in one pass, and gives each new node to the rules of its operation
// until none applies.
#include "jit/simplify.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <reprise/error.h>

#include "jit/plan.h"

namespace reprise::jit {
namespace simplifying {

std::optional<std::uint64_t> scene::splat(node_id n) const {
  if (is(n, op::broadcast_to)) n = operand(n);
  if (!is(n, op::constant)) return std::nullopt;
  return static_cast<std::uint64_t>(program.attributes_of(n)[0]);
}

bool scene::is_number(node_id n, double value) const { return splat(n) == ir::constant_bits(type(n), value); }

reprise::shape scene::shape_of(request const& r) const {
  for (node_id n : r.operands)
    if (shape(n).rank() > 0) return shape(n);
  return {};
}

outcome scene::as(node_id n, reprise::shape const& to) const {
  if (shape(n) == to) return n;
  return request{op::broadcast_to, {n}, words_of(to)};
}

outcome scene::constant(dtype t, std::uint64_t bits, reprise::shape const& to) const {
  return as(build.constant(t, bits), to);
}

outcome scene::number(dtype t, double value, reprise::shape const& to) const {
  return constant(t, ir::constant_bits(t, value), to);
}

void put(std::vector<std::int64_t>& words, std::span<std::int64_t const> values) {
  words.push_back(std::ssize(values));
  words.insert(words.end(), values.begin(), values.end());
}

std::vector<std::int64_t> words_of(reprise::shape const& s) {
  std::vector<std::int64_t> words;
  put(words, std::span(s.begin(), s.end()));
  return words;
}

namespace {

// The rules of each operation, in their order.
class rule_table {
 public:
  rule_table() : of_(static_cast<std::size_t>(ir::op_count())) {
    for (auto rules : {fold_rules(), cast_rules(), elementwise_rules(), movement_rules()})
      for (rule const& r : rules) {
        if (r.codes.empty())
          for (auto& list : of_) list.push_back(&r);
        for (op code : r.codes) of_[static_cast<std::size_t>(code)].push_back(&r);
      }
  }
  std::vector<rule const*> const& of(op code) const { return of_[static_cast<std::size_t>(code)]; }

 private:
  std::vector<std::vector<rule const*>> of_;
};

class pass {
 public:
  explicit pass(ir::program const& from)
      : from_(from), build_(out_), scene_(out_, build_), number_(from.nodes.size()) {
    out_.parameters = from.parameters;
    out_.lines = from.lines;
  }

  ir::program run() {
    for (node_id n = 0; n < from_.nodes.size(); ++n) {
      number_[n] = rebuild(n);
      if (out_.type_of(number_[n]) != from_.type_of(n))
        throw compile_error(fmt::format("simplify: node {} was {} and has become {}", n,
                                        ir::str(from_.type_of(n)), ir::str(out_.type_of(number_[n]))));
    }
    out_.results = from_.results;
    for (ir::result& r : out_.results) r.value = number_[r.value];
    out_.segments = {{static_cast<node_id>(out_.nodes.size()), {}}};
    return ir::canonical(out_);
  }

 private:
  node_id rebuild(node_id n) {
    ir::node const& was = from_.nodes[n];
    if (was.code == op::parameter || was.code == op::constant)
      return was.code == op::constant
                 ? build_.constant(was.type, static_cast<std::uint64_t>(from_.attributes_of(n)[0]))
                 : out_.append_typed(was.code, from_.type_of(n), from_.attributes_of(n), was.line);
    request r{was.code, {}, {from_.attributes_of(n).begin(), from_.attributes_of(n).end()}};
    for (node_id o : from_.operands_of(n)) r.operands.push_back(number_[o]);
    for (;;) {
      std::optional<outcome> simpler = rewritten(r);
      if (!simpler) return build_.add(r.code, r.operands, r.attributes, was.line);
      if (auto const* known = std::get_if<node_id>(&*simpler)) return *known;
      r = std::move(std::get<request>(*simpler));
    }
  }

  std::optional<outcome> rewritten(request const& r) const {
    for (rule const* one : rules_.of(r.code))
      if (auto simpler = one->apply(scene_, r)) return simpler;
    return std::nullopt;
  }

  ir::program const& from_;
  ir::program out_;
  ir::builder build_;
  scene scene_;
  std::vector<node_id> number_;  // of each node in the new program
  rule_table rules_;
};

}  // namespace
}  // namespace simplifying

ir::program simplify(ir::program const& p) {
  ir::verify_runnable(p);
  return simplifying::pass(p).run();
}

}  // namespace reprise::jit
