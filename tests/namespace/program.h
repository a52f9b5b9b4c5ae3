// The same use of the library in every translation unit of these tests: the names resolve, whatever else was
// included or opened before.
#pragma once

#ifdef REPRISE_NO_CUDA_NAMESPACE
namespace traced_by = reprise;
#else
namespace traced_by = cuda;
#endif

inline float use_of_the_library() {
  traced_by::context const ctx(reprise::device::cpu);
  traced_by::use const here(ctx);
  auto const f = traced_by::trace([](auto const& x, auto const& y) { return exp(x) * y + sum(x, {0}); });
  traced_by::array<float> const x{0, 0}, y{1, 2};
  traced_by::scalar<float> const s(2);
  return (f(x, y) * s).to_vector().at(1);
}
