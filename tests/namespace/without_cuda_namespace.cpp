// Where namespace cuda is another library's alone.
#define REPRISE_NO_CUDA_NAMESPACE
#include <reprise/reprise.h>

namespace cuda {
struct trace {};  // theirs: no clash
struct array {};
}  // namespace cuda

namespace without {
#include "program.h"
}
float without_cuda_namespace() { return without::use_of_the_library(); }
