// How many lanes a kernel has on a processor, and small facts of its form. Only emit*.cpp include this.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "jit/cpu/target.h"
#include "jit/kernel.h"

namespace reprise::cpu {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// As many as a register holds of four bytes, or of the widest value that is computed where that is narrower.
inline int kernel_lanes(jit::kernel const& k, target const& host) {
  int widest = 1;
  for (auto const& p : k.phases) {
    for (auto const& i : p.body) widest = std::max(widest, size_of(i.type));
    for (auto const& r : p.reductions) widest = std::max(widest, size_of(r.type));
  }
  return std::max(host.lanes, host.register_bytes() / widest);
}

// No more than the power of two that a loop of that extent fills.
inline int lanes_for(int most, std::int64_t extent) {
  if (extent >= most) return most;
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1))));
}

inline bool contracts(jit::kernel const& k) {
  for (auto const& p : k.phases)
    for (auto const& r : p.reductions)
      if (r.order == jit::order::contract) return true;
  return false;
}

}  // namespace reprise::cpu
