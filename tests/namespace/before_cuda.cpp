// Before CUDA's own headers.
#include <reprise/reprise.h>

#include <thrust/device_vector.h>
#include <cuda/pipeline>
#include <cuda/std/tuple>

#include "program.h"

cuda::std::tuple<int> const theirs_too(3);
float before_cuda() { return use_of_the_library(); }
