#include <reprise/reprise.h>

struct layer {
  reprise::array<float> weight;
  float const* bias;
};
auto use(layer const& l, reprise::array<float> const& x) {
  auto const f = cuda::trace([](layer const& l, auto const& x) { return x * l.weight; });
  return f(l, x);
}
