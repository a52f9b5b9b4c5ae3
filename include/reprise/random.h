// Random numbers by key: counter-based (Philox 4x32-10), so a draw depends on its key and shape and on
// nothing else. A key is an ordinary value; split it for independent draws.
#pragma once

#include <reprise/array.h>

namespace reprise::inline v1::random {

struct key {
  std::uint64_t seed = 0;
  // The n-th of 2^64 independent keys below this one.
  REPRISE_API key split(std::uint64_t n) const;
};

// [0, 1).
template <element T>
  requires(is_floating(dtype_v<T>))
array<T> uniform(key k, shape const& extents, location at = location::current()) {
  return array<T>(detail::record_random(dtype_v<T>, k.seed, extents, false, at));
}
// Mean 0, variance 1.
template <element T>
  requires(is_floating(dtype_v<T>))
array<T> normal(key k, shape const& extents, location at = location::current()) {
  return array<T>(detail::record_random(dtype_v<T>, k.seed, extents, true, at));
}

}  // namespace reprise::inline v1::random
