// A kernel as LLVM IR of explicit vectors.
//
//   void symbol(i64 begin, i64 end, ptr const* buffers, u64 const* scalars, ptr scratch)
//
// does units [begin, end) of its work; units are independent of each other and each is done by one thread.
// What a unit is depends on the kernel: a point of the grid; a chunk of the one loop of a point that reduces
// nothing; a block of vectors along the last grid loop. `scratch` is memory of that thread alone, of the
// launch's size.
//
// Along the inner loop, lane l of a vector is inner index base + l. Along the grid, lane l is a point of its
// own. What does not depend on the lane is computed once, as a scalar; what does not depend on the inner loop
// is computed before it. Shapes are known, so the end of a loop that fills no vector is code of its own with
// a constant mask.
#pragma once

#include <cstdint>
#include <string>

#include "jit/cpu/target.h"
#include "jit/kernel.h"

namespace reprise::cpu {

struct launch {
  std::int64_t units = 0;
  std::int64_t grain = 1;          // the fewest units worth a thread
  std::int64_t scratch_bytes = 0;  // of each thread
};

// Adds the function to the module. Throws compile_error for what the form allows and this cannot do.
launch emit(jit::kernel const& k, std::string const& symbol, target const& host, llvm::Module& m);

}  // namespace reprise::cpu
