// Where each temporary lies in the arena. Two buffers share bytes only if every access of one happens before
// every access of the other along edges. Independent branches stay independent as long as that does not cost
// too much memory; beyond it, the planner adds edges that the order of the steps has already, which leaves
// fewer branches at a time.
#pragma once

#include <cstdint>

#include "jit/plan.h"

namespace reprise::jit {

inline constexpr std::int64_t arena_alignment = 256;
// Up to this many bytes, an arena may be any multiple of what a sequential run needs: edges cost more than
// memory.
inline constexpr std::int64_t spare_arena_bytes = std::int64_t{16} << 20;

// Gives temporaries their offsets and the plan its arena_bytes; may add edges, let kernels write over what
// they read (then a temporary is gone and the kernel is another one), and drops temporaries that no step
// uses. The plan is scheduled.
void plan_memory(plan& p);

// Can buffer `written` of the kernel take the place of its buffer `read`? Only where each loaded element is
// the one that is stored by the same iteration, or by a later phase of the same row, and no other iteration
// touches it.
bool can_run_in_place(kernel const& k, std::uint32_t read, std::uint32_t written);
// That kernel: `read` is now written, `written` is gone and the buffers behind it have moved up.
kernel run_in_place(kernel const& k, std::uint32_t read, std::uint32_t written);

}  // namespace reprise::jit
