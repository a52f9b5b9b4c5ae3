// Which operations of a program are computed together. Every node is either gone through wherever it is
// needed, at the coordinates that are needed, or it has a home: the group that computes it once, and may
// store it. Rules, by program and shapes only:
//
// - results, reductions, operands and results of library calls have a home; so does what is long to compute
// and would be
//   computed for several places: at several maps of coordinates, by several kernels, or again for each row;
// - a reduction joins a group over the same space that reduces the same axes, when it uses or shares what is
// computed there;
// - an elementwise node joins a group over its own space, also after the group's reductions while a row is
// short enough to be
//   kept, and as one element a row where it has one;
// - no group may come to depend on itself, and none grows past a budget of instructions.
//
// Deciding is trying: a node joins when asking the group's point space for it succeeds. What turns out to
// need a home starts the round again, with that known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jit/library_rules.h"
#include "jit/lower.h"

namespace reprise::jit {

inline constexpr std::int64_t kernel_budget = 2000;  // instructions, roughly

struct fused_group {
  std::int64_t call = -1;  // a library call, into fusion::calls; else `kernel`
  kernel_group kernel;
  std::vector<std::uint32_t> needs;  // groups whose arrays it reads
};

struct fusion {
  std::vector<fused_group> groups;  // in an order in which they can run
  std::vector<library_call> calls;
  std::vector<std::string> notes;
};

fusion fuse(ir::program const& p, compile_options const& o);

// How many operands of living nodes and results name a node.
std::vector<std::uint32_t> count_uses(ir::program const& p);

}  // namespace reprise::jit
