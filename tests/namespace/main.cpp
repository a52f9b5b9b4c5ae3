// Links all of them into one program and runs each: exp(0) * 2 + 0, times 2, is 4.
#include <cstdio>

#include <reprise/reprise.h>

#include "program.h"

float one_definition();
float reprise_then_std();
float std_then_reprise();
float without_cuda_namespace();
#ifdef WITH_CUDA_HEADERS
float after_cuda();
float before_cuda();
#endif

int main() {
  int wrong = 0;
  auto const expect = [&](char const* what, float is, float right) {
    if (is == right) return;
    std::fprintf(stderr, "%s: %g, not %g\n", what, static_cast<double>(is), static_cast<double>(right));
    ++wrong;
  };
  expect("main", use_of_the_library(), 4);
  expect("one_definition", one_definition(), 4);
  expect("without_cuda_namespace", without_cuda_namespace(), 4);
  expect("the order of using", reprise_then_std(), std_then_reprise());
#ifdef WITH_CUDA_HEADERS
  expect("after_cuda", after_cuda(), 4);
  expect("before_cuda", before_cuda(), 4);
#endif
  return wrong;
}
