// The rules of docs/program.md, by number. What this accepts, everything below may rely on; it relies on
// nothing itself, so that it can judge a program from anywhere.
#include <fmt/format.h>

#include <reprise/error.h>

#include "trace/infer.h"
#include "trace/program.h"

namespace reprise::ir {
namespace {

[[noreturn]] void broken(int rule, std::string const& what) {
  throw argument_error(fmt::format("P{}: {}", rule, what));
}

bool fits(dtype type, std::uint64_t bits) {
  int const width = type == dtype::boolean ? 1 : 8 * size_of(type);
  return width == 64 || bits >> width == 0;
}

class verifier {
 public:
  verifier(program const& p, int depth) : p_(p), depth_(depth) {}

  void run() {
    if (depth_ > max_nesting) broken(10, fmt::format("regions are nested more than {} deep", max_nesting));
    if (p_.nodes.size() >= no_node) broken(1, "a program has fewer than 2^32 - 1 nodes");
    check_parameters();
    for (std::size_t i = 0; i < p_.nodes.size(); ++i) check_node(static_cast<node_id>(i));
    if (next_region_ != p_.regions.size())
      broken(10, fmt::format("{} regions belong to nodes, of {}", next_region_, p_.regions.size()));
    check_results();
    check_segments();
  }

 private:
  void check_parameters() {
    for (std::size_t i = 0; i < p_.parameters.size(); ++i) {
      parameter const& x = p_.parameters[i];
      if (static_cast<int>(x.type.type) >= dtype_count)
        broken(2, fmt::format("parameter {} has no dtype of ours", i));
      for (std::int64_t extent : x.type.shape)
        if (extent < 0) broken(6, fmt::format("parameter {} is {}: a negative extent", i, str(x.type)));
      if (!small_enough(x.type.shape))
        broken(6, fmt::format("parameter {} is {}: 2^62 elements or more", i, str(x.type)));
      if (x.role == parameter_role::lifted && x.type.shape.rank() != 0)
        broken(7, fmt::format("the lifted parameter {} is {}, not of rank 0", i, str(x.type)));
      if (depth_ > 0 && x.role != parameter_role::argument)
        broken(10, fmt::format("parameter {} of a region is not an argument", i));
    }
    named_.resize(p_.parameters.size());
  }

  void check_node(node_id id) {
    node const& n = p_.nodes[id];
    if (static_cast<int>(n.code) >= op_count())
      broken(2, fmt::format("node {} has no operation of ours", id));
    if (n.first_operand > p_.operands.size() || n.operand_count > p_.operands.size() - n.first_operand)
      broken(1, fmt::format("node {}: its operands are not in the program", id));
    if (n.first_attribute > p_.attributes.size() ||
        n.attribute_count > p_.attributes.size() - n.first_attribute)
      broken(4, fmt::format("node {}: its attributes are not in the program", id));
    if (n.line != 0 && n.line >= p_.lines.size())
      broken(1, fmt::format("node {}: no source line {}", id, n.line));
    types_.clear();
    for (node_id operand : p_.operands_of(n)) {
      if (operand >= id)
        broken(1, fmt::format("node {} ({}): operand {} is not an earlier node", id, info(n.code).name,
                              operand));
      types_.push_back(p_.type_of(operand));
    }
    tensor_type const expected = n.region_count > 0 || info(n.code).kind == category::region ? region_type(id)
                                 : n.code == op::parameter ? parameter_type(id)
                                 : n.code == op::constant  ? constant_type(id)
                                                           : inferred(id);
    if (!(expected == tensor_type{n.type, n.shape}))
      broken(n.code == op::parameter ? 5 : 2,
             fmt::format("node {} ({}) is {}, its rule gives {}", id, info(n.code).name,
                         str({n.type, n.shape}), str(expected)));
  }

  tensor_type inferred(node_id id) const {
    node const& n = p_.nodes[id];
    try {
      return infer(n.code, types_, p_.attributes_of(n));
    } catch (refusal const& e) { broken(e.rule, fmt::format("node {}: {}", id, e.what())); }
  }

  tensor_type region_type(node_id id) {
    node const& n = p_.nodes[id];
    // In order and disjoint: each region has one owner.
    if (n.first_region != next_region_ || n.region_count > p_.regions.size() - next_region_)
      broken(10, fmt::format("node {}: its regions are not the next ones of the program", id));
    std::span<program const> const nested(p_.regions.data() + n.first_region, n.region_count);
    for (program const& region : nested) {
      try {
        verifier(region, depth_ + 1).run();
      } catch (argument_error const& e) {
        std::string_view const what = e.what();
        std::size_t const colon = what.find(':');
        throw argument_error(fmt::format("{}: node {}, in region {}{}", what.substr(0, colon), id,
                                         next_region_ - n.first_region, what.substr(colon)));
      }
      ++next_region_;
    }
    try {
      return infer_region(n.code, types_, p_.attributes_of(n), nested);
    } catch (refusal const& e) { broken(e.rule, fmt::format("node {}: {}", id, e.what())); }
  }

  tensor_type parameter_type(node_id id) {
    words const attributes = p_.attributes_of(id);
    if (!types_.empty() || attributes.size() != 1)
      broken(4, fmt::format("node {} (parameter): has one attribute word and no operand", id));
    std::int64_t const index = attributes[0];
    if (index < 0 || index >= std::ssize(p_.parameters))
      broken(5, fmt::format("node {}: parameter {} of {}", id, index, p_.parameters.size()));
    std::size_t const i = static_cast<std::size_t>(index);
    if (named_[i]) broken(5, fmt::format("node {}: a second node for parameter {}", id, index));
    named_[i] = true;
    return p_.parameters[i].type;
  }

  tensor_type constant_type(node_id id) const {
    node const& n = p_.nodes[id];
    words const attributes = p_.attributes_of(n);
    if (!types_.empty() || attributes.size() != 1)
      broken(4, fmt::format("node {} (constant): has one attribute word and no operand", id));
    if (static_cast<int>(n.type) >= dtype_count) broken(2, fmt::format("node {} has no dtype of ours", id));
    std::uint64_t const bits = static_cast<std::uint64_t>(attributes[0]);
    if (!fits(n.type, bits))
      broken(4, fmt::format("node {} (constant): {:#x} has more bits than {}", id, bits, name_of(n.type)));
    if (one_nan(n.type, bits) != bits)
      broken(4, fmt::format("node {} (constant): {:#x} is not the one nan of {}", id, bits, name_of(n.type)));
    return {n.type, {}};
  }

  void check_results() const {
    std::vector<bool> written(p_.parameters.size());
    for (std::size_t i = 0; i < p_.results.size(); ++i) {
      result const& r = p_.results[i];
      if (r.value >= p_.nodes.size())
        broken(8, fmt::format("result {} names node {}, of {}", i, r.value, p_.nodes.size()));
      if (depth_ > 0 && r.role != result_role::returned)
        broken(10, fmt::format("result {} of a region is not returned", i));
      if (r.role != result_role::in_out) continue;
      if (r.parameter >= p_.parameters.size())
        broken(8, fmt::format("result {} is written to parameter {}, of {}", i, r.parameter,
                              p_.parameters.size()));
      parameter const& target = p_.parameters[r.parameter];
      if (target.role == parameter_role::lifted)
        broken(8, fmt::format("result {} is written to parameter {}, a lifted number", i, r.parameter));
      if (!(target.type == p_.type_of(r.value)))
        broken(8, fmt::format("result {} is {} and is written to parameter {}, which is {}", i,
                              str(p_.type_of(r.value)), r.parameter, str(target.type)));
      if (written[r.parameter])
        broken(8, fmt::format("two results are written to parameter {}", r.parameter));
      written[r.parameter] = true;
    }
  }

  void check_segments() const {
    if (p_.segments.empty()) broken(9, "there is no segment");
    if (depth_ > 0 && p_.segments.size() != 1) broken(10, "a region has more than one segment");
    node_id before = 0;
    for (std::size_t i = 0; i < p_.segments.size(); ++i) {
      segment const& s = p_.segments[i];
      if (s.end < before) broken(9, fmt::format("segment {} ends at {}, before the one before it", i, s.end));
      if (s.end > p_.nodes.size())
        broken(9, fmt::format("segment {} ends at {}, of {} nodes", i, s.end, p_.nodes.size()));
      before = s.end;
      for (read const& r : s.reads) check_read(r, s.end, i);
    }
    if (before != p_.nodes.size())
      broken(9,
             fmt::format("the last segment ends at {}, not at the node count {}", before, p_.nodes.size()));
    if (!p_.segments.back().reads.empty()) broken(9, "the last segment has reads");
  }

  void check_read(read const& r, node_id end, std::size_t segment) const {
    if (r.value >= end)
      broken(9,
             fmt::format("segment {} reads node {}, which is not before its end {}", segment, r.value, end));
    tensor_type const type = p_.type_of(r.value);
    std::int64_t const count = type.shape.size();
    if (count > 4096 / size_of(type.type))
      broken(9,
             fmt::format("segment {} reads node {}, {}: more than 4096 bytes", segment, r.value, str(type)));
    if (std::ssize(r.seen) != count)
      broken(9, fmt::format("segment {} saw {} elements of node {}, {}", segment, r.seen.size(), r.value,
                            str(type)));
    for (std::uint64_t bits : r.seen)
      if (!fits(type.type, bits))
        broken(9, fmt::format("segment {} saw {:#x} in node {}, {}", segment, bits, r.value, str(type)));
  }

  program const& p_;
  int depth_;
  std::size_t next_region_ = 0;
  std::vector<bool> named_;  // parameters that have their node
  std::vector<tensor_type> types_;
};

}  // namespace

void verify(program const& p) { verifier(p, 0).run(); }

void verify_runnable(program const& p) {
  verify(p);
  for (std::size_t i = 0; i < p.nodes.size(); ++i)
    if (p.nodes[i].region_count > 0)
      throw unsupported_error(
          fmt::format("P12: node {} ({}) has regions; this version does not run control flow", i,
                      info(p.nodes[i].code).name));
  if (p.segments.size() != 1)
    throw unsupported_error(
        fmt::format("P12: {} segments, the first ends at node {}; this version runs programs of one",
                    p.segments.size(), p.segments[0].end));
}

}  // namespace reprise::ir
