// How far an f32 result is from the true value, and the elementary functions with their true values in f64.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "jit/code.h"
#include "lanes.h"

namespace reprise::jit {

struct function {
  char const* name;
  double ulps;  // allowed by its row
  code::val (*make)(code::val);
  double (*exact)(double);
};

inline double exact_gelu(double x) { return x / 2 * std::erfc(-x * M_SQRT1_2); }
inline double exact_sigmoid(double x) {
  double const e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
inline double exact_gelu_tanh(double x) {
  return x * exact_sigmoid(2 * std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x));
}

inline std::vector<function> const& functions() {
  static std::vector<function> const all{
      {"rsqrt", 2, code::rsqrt, [](double x) { return 1 / std::sqrt(x); }},
      {"exp", 2, code::exp, [](double x) { return std::exp(x); }},
      {"expm1", 2, code::expm1, [](double x) { return std::expm1(x); }},
      {"log", 2, code::log, [](double x) { return std::log(x); }},
      {"log1p", 2, code::log1p, [](double x) { return std::log1p(x); }},
      {"sin", 2, code::sin, [](double x) { return std::sin(x); }},
      {"cos", 2, code::cos, [](double x) { return std::cos(x); }},
      {"tanh", 2, code::tanh, [](double x) { return std::tanh(x); }},
      {"sigmoid", 2, code::sigmoid, exact_sigmoid},
      {"erf", 2, code::erf, [](double x) { return std::erf(x); }},
      {"gelu", 4, code::gelu, exact_gelu},
      {"gelu_tanh", 64, code::gelu_tanh, exact_gelu_tanh},
  };
  return all;
}

// In units of the last place of an f32 near `exact`; infinite where one is nan and the other is not, or an
// infinity is wrong, or a zero has the wrong sign.
inline double ulps(float got, double exact) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  float const rounded = static_cast<float>(exact);
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : wrong;
  if (got == rounded) return got == 0 && std::signbit(got) != std::signbit(exact) ? wrong : 0.5;
  if (std::isinf(exact)) return wrong;
  double const g = std::isinf(got) ? std::copysign(0x1p128, got) : static_cast<double>(got);
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(g - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

}  // namespace reprise::jit
