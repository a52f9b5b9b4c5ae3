#include "trace/value_table.h"

#include <algorithm>
#include <utility>

namespace reprise::ir {
namespace {

std::uint32_t hash_of(value_table::candidate const& c) {
  std::uint64_t h = static_cast<std::uint64_t>(c.code) << 8 | static_cast<std::uint64_t>(c.type);
  auto mix = [&](std::uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  };
  mix(c.operands.size());
  for (node_id operand : c.operands) mix(operand);
  for (std::int64_t word : c.attributes) mix(static_cast<std::uint64_t>(word));
  mix(c.regions.size());
  return static_cast<std::uint32_t>(h >> 32);
}

}  // namespace

node_id value_table::find(program const& p, candidate const& c) const {
  std::uint32_t const hash = hash_of(c);
  for (std::size_t i = hash & mask();; i = (i + 1) & mask()) {
    slot const& s = slots_[i];
    if (s.node == no_node) return no_node;
    if (s.hash != hash) continue;
    node const& n = p.nodes[s.node];
    if (n.code != c.code || n.type != c.type || (n.region_count > 0) == c.regions.empty()) continue;
    if (!std::ranges::equal(p.operands_of(n), c.operands) ||
        !std::ranges::equal(p.attributes_of(n), c.attributes))
      continue;
    if (!c.regions.empty()) {
      auto const at = std::ranges::lower_bound(regions_, s.node, {}, &std::pair<node_id, std::string>::first);
      if (at == regions_.end() || at->first != s.node || at->second != c.regions) continue;
    }
    return s.node;
  }
}

void value_table::insert(node_id n, candidate const& c) {
  if (2 * (used_ + 1) > slots_.size()) {
    std::vector<slot> const old = std::exchange(slots_, std::vector<slot>(2 * slots_.size()));
    for (slot const& s : old) {
      if (s.node == no_node) continue;
      std::size_t i = s.hash & mask();
      while (slots_[i].node != no_node) i = (i + 1) & mask();
      slots_[i] = s;
    }
  }
  std::uint32_t const hash = hash_of(c);
  std::size_t i = hash & mask();
  while (slots_[i].node != no_node) i = (i + 1) & mask();
  slots_[i] = {hash, n};
  ++used_;
  if (!c.regions.empty()) regions_.emplace_back(n, c.regions);
}

}  // namespace reprise::ir
