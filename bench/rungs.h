// The ladder's workloads, each written with public operations as a user would write it, and each with the
// same shapes, dtypes and formulas as in peers/peers.py. A rung knows what its result must be, in double
// precision.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace ladder {

struct workload {
  std::function<void()> call;          // one call; keeps its result until the next
  std::function<std::string()> wrong;  // what is wrong with the last result; empty: nothing
};

struct rung {
  char const* name;
  workload (*make)(double scale);  // fresh input, in the current context
};

std::span<rung const> rungs();

}  // namespace ladder
