// Value numbering: finds the node of a program that is the same operation on the same operands. Open
// addressing over node numbers; the hash decides only where an entry is looked for, never an order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/program.h"

namespace reprise::ir {

class value_table {
 public:
  // A node that may exist already. `type` tells constants apart; the type of every other node follows from
  // the rest. `regions` are the key bytes of its regions.
  struct candidate {
    op code;
    dtype type;
    std::span<node_id const> operands;
    words attributes;
    std::string_view regions = {};
  };

  node_id find(program const& p, candidate const& c) const;
  void insert(node_id n, candidate const& c);  // n is not in the table

 private:
  struct slot {
    std::uint32_t hash = 0;
    node_id node = no_node;
  };
  std::size_t mask() const { return slots_.size() - 1; }
  std::vector<slot> slots_ = std::vector<slot>(16);
  std::size_t used_ = 0;
  std::vector<std::pair<node_id, std::string>> regions_;  // of the nodes that have any, ascending
};

}  // namespace reprise::ir
