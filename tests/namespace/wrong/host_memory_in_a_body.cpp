#include <reprise/reprise.h>

auto use(std::vector<float> const& x) {
  auto const f = cuda::trace([](std::vector<float> const& x) { return reprise::array<float>(x) * 2; });
  return f(x);
}
