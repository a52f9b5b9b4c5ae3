// Loops and the axes that they run over. Neighbouring axes become one loop where every index expression of a
// kernel allows it, that is, uses them only as outer * extent + inner: a contiguous kernel is one loop,
// whatever the shape of its arrays.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "jit/index.h"

namespace reprise::jit {

// One loop over variables of an arena, row-major, the last one varying fastest.
struct axis_loop {
  std::int64_t extent = 1;
  std::vector<std::uint32_t> variables;
};

// Merges neighbours of `loops` where all expressions of `used`, and those inside them, allow it.
std::vector<axis_loop> collapse(index_arena const& arena, std::span<index_id const> used,
                                std::vector<axis_loop> loops);

// Sets by[v] of each variable of the loop when the loop's position is `at`.
void spread(index_arena const& from, axis_loop const& loop, index_arena& to, index_id at,
            std::span<index_id> by);

// Carries expressions from one arena to another, variable v becoming by[v].
class index_map {
 public:
  index_map(index_arena const& from, index_arena& to, std::vector<index_id> by)
      : from_(from), to_(to), by_(std::move(by)) {}
  index_id operator()(index_id e);

 private:
  index_arena const& from_;
  index_arena& to_;
  std::vector<index_id> by_;
  std::unordered_map<index_id, index_id> known_;
};

}  // namespace reprise::jit
