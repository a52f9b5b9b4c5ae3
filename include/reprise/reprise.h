// The one header that users include: C++ code over arrays, recorded, compiled and replayed on a GPU or a CPU.
// Write `using namespace reprise;`, or name things in full; docs/semantics.md says what a trace sees.
#pragma once

#include <reprise/array.h>
#include <reprise/context.h>
#include <reprise/functions.h>
#include <reprise/layers.h>
#include <reprise/random.h>
#include <reprise/trace.h>

#ifndef REPRISE_NO_CUDA_NAMESPACE
// NVIDIA's libcu++ owns namespace cuda and grows there: these names and no others.
namespace cuda {
using ::reprise::array;
using ::reprise::context;
using ::reprise::require_device;
using ::reprise::scalar;
using ::reprise::trace;
using ::reprise::use;
}  // namespace cuda
#endif
