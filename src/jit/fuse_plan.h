// From what fusion has decided to steps: kernels, library calls and copies, and the buffers that they work
// on. Edges and offsets come later.
#pragma once

#include "jit/fuse.h"
#include "jit/plan.h"

namespace reprise::jit {

plan make_steps(ir::program const& p, fusion const& f, compile_options const& o);

}  // namespace reprise::jit
