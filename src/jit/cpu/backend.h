// The CPU backend: kernels by LLVM, matrix products and convolutions by oneDNN where it is found, one thread
// pool, host memory.
#pragma once

#include <memory>

#include "jit/backend.h"

namespace reprise::cpu {

// `threads` 0: REPRISE_THREADS, else all cores. Throws argument_error for a number that makes no sense.
std::unique_ptr<jit::backend> make_backend(int threads = 0);

}  // namespace reprise::cpu
