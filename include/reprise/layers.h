// Layers: plain aggregates whose arrays are data and whose numbers are static. Each field may be given by
// name.
#pragma once

#include <cmath>

#include <reprise/functions.h>
#include <reprise/random.h>

namespace reprise::inline v1 {

enum class activation : std::uint8_t { identity, relu, gelu, sigmoid, tanh };

template <element T>
array<T> activate(array<T> const& x, activation how, location at = location::current()) {
  switch (how) {
    case activation::identity: return x;
    case activation::relu: return relu(x, at);
    case activation::gelu: return gelu(x, at);
    case activation::sigmoid: return sigmoid(x, at);
    case activation::tanh: return tanh(x, at);
  }
  return x;
}

namespace detail {
// Uniform in [-1, 1) / sqrt(fan in).
inline array<float> initial_weights(random::key key, shape const& extents, std::int64_t fan_in) {
  double const bound = 1 / std::sqrt(static_cast<double>(fan_in < 1 ? 1 : fan_in));
  return random::uniform<float>(key, extents) * (2 * bound) - bound;
}
}  // namespace detail

// y = activation(conv2d(x, weight) + bias), x is (batch, in, height, width). Weights are drawn uniformly
// within 1 / sqrt(fan in).
struct conv2d_layer {
  std::int64_t in = 1, out = 1;
  shape kernel{3, 3};
  shape stride{1, 1};
  shape padding{0, 0};
  shape dilation{1, 1};
  std::int64_t groups = 1;
  reprise::activation activation = reprise::activation::identity;
  random::key key{0};
  array<float> weight = detail::initial_weights(key.split(0), {out, in / groups, kernel[0], kernel[1]},
                                                in / groups * kernel[0] * kernel[1]);
  array<float> bias = detail::initial_weights(key.split(1), {out}, in / groups * kernel[0] * kernel[1]);

  array<float> operator()(array<float> const& x, location at = location::current()) const {
    return activate(
        conv2d(x, weight, bias,
               {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups}, at),
        activation, at);
  }
};

// y = activation(x @ weight + bias), x is (..., in), weight (in, out).
struct linear_layer {
  std::int64_t in = 1, out = 1;
  reprise::activation activation = reprise::activation::identity;
  random::key key{0};
  array<float> weight = detail::initial_weights(key.split(0), {in, out}, in);
  array<float> bias = detail::initial_weights(key.split(1), {out}, in);

  array<float> operator()(array<float> const& x, location at = location::current()) const {
    return activate(matmul(x, weight, at) + bias, activation, at);
  }
};

}  // namespace reprise::inline v1
