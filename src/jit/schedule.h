// The order of a plan's steps. Edges come from the buffers: a read after the write that it needs, a write
// after the reads of what it replaces, a write after a write. The steps of the plan given are in a legal
// sequential order, and that order says which write a read needs; from then on the edges say all, and any
// order that they allow gives the same.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "jit/plan.h"
#include "trace/program.h"

namespace reprise::jit {

// Fills `edges`, transitively reduced and ordered by (to, from), and reorders the steps so that few bytes of
// temporaries are alive at a time; steps stay where they are when nothing is gained.
void schedule(plan& p);

// The edges alone, for the steps in the order that they have.
std::vector<edge> needed_edges(plan const& p);

// The same order by as few edges as possible. Every edge leads to a later step; duplicates are welcome.
std::vector<edge> reduced(std::vector<edge> edges, std::size_t steps);

// Bytes of temporaries alive at the worst moment when the steps run one after the other: no plan of this
// order needs fewer.
std::int64_t peak_bytes(plan const& p);

// What jit::verify(plan) says of a plan that is not finished: the steps and buffers (L1 - L4), and the edges
// as well (L1 - L6).
void verify_steps(plan const& p, ir::program const& of);
void verify_schedule(plan const& p, ir::program const& of);

}  // namespace reprise::jit
