// The programs that processes share through the disk cache. Integer-valued data where sums are long, so that
// every right way of computing them gives the same bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <reprise/reprise.h>

namespace process {

using reprise::array;
using reprise::shape;

inline std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::vector<float> out(count);
  for (auto& x : out) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(static_cast<int>(seed >> 28) - 8);
  }
  return out;
}

inline array<float> filled(shape const& extents, unsigned seed) {
  return array<float>(numbers(static_cast<std::size_t>(extents.size()), seed), extents);
}

class checksum {
 public:
  template <class T>
  void add(array<T> const& x) {
    for (T const one : x.to_vector()) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &one, sizeof one);
      mix(bits);
    }
  }
  void mix(std::uint64_t bits) { value_ = (value_ ^ bits) * 0x100000001b3u; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

struct layer {
  array<float> weight, bias;
  array<float> operator()(array<float> const& x) const {
    return relu(conv2d(x, weight, bias, {.padding = {1, 1}}));
  }
};

// One program: a fused chain and a sum with it.
inline std::uint64_t run_one() {
  auto const f = cuda::trace([](auto const& a, auto const& b) {
    auto const y = a * b + 1;
    return std::tuple(y, sum(y));
  });
  checksum all;
  auto const [y, total] = f(filled({6, 50}, 1), filled({50}, 2));
  all.add(y);
  all.add(total);
  return all.value();
}

// Everything, in the current context.
inline std::uint64_t run_all() {
  checksum all;
  auto const multiply_add =
      cuda::trace([](auto const& a, auto const& b, auto const& c) { return a * b + c; });
  for (std::int64_t n : {1, 1000, 4099})
    all.add(multiply_add(filled({n}, 1), filled({n}, 2), filled({n}, 3)));
  all.add(multiply_add(filled({33, 7}, 1), filled({7}, 2), filled({33, 1}, 3)));
  auto const statistics = cuda::trace([](auto const& x) {
    return std::tuple(sum(x, {1}), max(x, {0}), argmax(x, 1), x - min(x, {1}, reprise::keepdims));
  });
  auto const [sums, most, where, rest] = statistics(filled({40, 30}, 4));
  all.add(sums);
  all.add(most);
  all.add(where);
  all.add(rest);
  auto const convolve = cuda::trace([](layer const& l, array<float> const& x) { return l(x); });
  layer const l{filled({8, 3, 3, 3}, 5), filled({8}, 6)};
  all.add(convolve(l, filled({2, 3, 20, 17}, 7)));
  auto const product =
      cuda::trace([](auto const& a, auto const& b) { return relu(matmul(a, b) + 1)(reprise::every, 3); });
  all.add(product(filled({24, 31}, 8), filled({31, 18}, 9)));
  auto const integers = cuda::trace([](auto const& a) { return (a % 7) * 3 - a / 2; });
  all.add(integers(std::vector<std::int32_t>{-9, 4, 0, 100, 7}));
  // A compiler may evaluate the arguments of a call in any order: which array is reached first is not the
  // program's.
  array<float> const w = filled({16}, 10), v = filled({16}, 11);
  auto const reaching = cuda::trace(
      [w, v](auto const& x) { return std::tuple(maximum(x * w, x - v), x + v, minimum(x + 2, v * 3)); });
  auto const [above, shifted, below] = reaching(filled({5, 16}, 12));
  all.add(above);
  all.add(shifted);
  all.add(below);
  all.mix(run_one());
  return all.value();
}

}  // namespace process
