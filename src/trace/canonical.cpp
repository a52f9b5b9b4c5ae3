// The canonical form (P11). One depth-first walk, with its own stack, numbers nodes in the order in which
// they are finished: from the reads of each segment in turn, then from the results. So the nodes that a read
// needs come before its segment's end, and the numbers depend on what is computed and on nothing else. Equal
// nodes become one as they are numbered.
#include <reprise/error.h>

#include "trace/program.h"
#include "trace/value_table.h"

namespace reprise::ir {
namespace {

class walk {
 public:
  walk(program const& from, constants how, int depth)
      : from_(from), how_(how), depth_(depth), number_(from.nodes.size(), no_node) {
    if (depth > max_nesting) throw argument_error("P10: regions are nested more than 64 deep");
    out_.parameters = from.parameters;
    line_.resize(from.lines.size());
  }

  program run() {
    for (segment const& s : from_.segments) {
      segment& mapped = out_.segments.emplace_back();
      for (read const& r : s.reads) mapped.reads.push_back({visit(r.value), r.seen});
      mapped.end = static_cast<node_id>(out_.nodes.size());
    }
    for (result const& r : from_.results) {
      result& mapped = out_.results.emplace_back(r);
      mapped.value = visit(r.value);
    }
    if (out_.segments.empty()) out_.segments.emplace_back();
    out_.segments.back().end = static_cast<node_id>(out_.nodes.size());
    return std::move(out_);
  }

 private:
  struct frame {
    node_id node;
    std::uint32_t next;  // the operand to look at
  };

  node_id visit(node_id root) {
    if (number_[root] != no_node) return number_[root];
    stack_.push_back({root, 0});
    while (!stack_.empty()) {
      frame& top = stack_.back();
      std::span<node_id const> const operands = from_.operands_of(top.node);
      if (top.next < operands.size()) {
        node_id const operand = operands[top.next++];
        if (number_[operand] == no_node) stack_.push_back({operand, 0});
        continue;
      }
      number_[top.node] = finish(top.node);
      stack_.pop_back();
    }
    return number_[root];
  }

  // The new number of a node whose operands have theirs.
  node_id finish(node_id n) {
    node copy = from_.nodes[n];
    operands_.clear();
    for (node_id operand : from_.operands_of(n)) operands_.push_back(number_[operand]);
    std::vector<program> nested;
    std::string nested_key;
    for (std::uint32_t i = 0; i < copy.region_count; ++i) {
      nested.push_back(walk(from_.regions[copy.first_region + i], how_, depth_ + 1).run());
      nested_key += key_bytes(nested.back());
    }
    value_table::candidate const c{copy.code, copy.type, operands_, from_.attributes_of(n), nested_key};
    bool const merges = copy.code != op::constant || how_ == constants::merged;
    if (merges)
      if (node_id const same = table_.find(out_, c); same != no_node) return same;

    copy.first_operand = static_cast<std::uint32_t>(out_.operands.size());
    copy.first_attribute = static_cast<std::uint32_t>(out_.attributes.size());
    copy.first_region = static_cast<std::uint32_t>(copy.region_count == 0 ? 0 : out_.regions.size());
    copy.line = map_line(copy.line);
    out_.operands.insert(out_.operands.end(), operands_.begin(), operands_.end());
    out_.attributes.insert(out_.attributes.end(), c.attributes.begin(), c.attributes.end());
    for (program& region : nested) out_.regions.push_back(std::move(region));
    out_.nodes.push_back(copy);
    node_id const number = static_cast<node_id>(out_.nodes.size() - 1);
    if (merges) table_.insert(number, c);
    return number;
  }

  std::uint32_t map_line(std::uint32_t line) {
    if (line == 0 || line >= line_.size()) return 0;
    if (line_[line] == 0) {
      line_[line] = static_cast<std::uint32_t>(out_.lines.size());
      out_.lines.push_back(from_.lines[line]);
    }
    return line_[line];
  }

  program const& from_;
  constants how_;
  int depth_;
  std::vector<node_id> number_;  // of each node in the new program
  program out_;
  value_table table_;
  std::vector<frame> stack_;
  std::vector<node_id> operands_;
  std::vector<std::uint32_t> line_;
};

}  // namespace

program canonical(program const& p, constants how) { return walk(p, how, 0).run(); }

}  // namespace reprise::ir
