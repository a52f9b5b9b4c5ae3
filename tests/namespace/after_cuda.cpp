// After CUDA's own headers.
#include <thrust/device_vector.h>
#include <cuda/pipeline>
#include <cuda/std/tuple>

#include <reprise/reprise.h>

#include "program.h"

cuda::std::tuple<int> const theirs(3);
float after_cuda() { return use_of_the_library(); }
