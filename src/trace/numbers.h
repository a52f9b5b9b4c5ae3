// The arithmetic of docs/numbers.md over host numbers: what the `reference` column of ops.def calls `num::`.
// Plain and total: no input traps, overflows undefined or depends on the compiler. T is bool, u8, i32, i64,
// float, double or long double; halves are float while they compute (`compute_t`). The reference interpreter
// and constant folding both use it.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include <reprise/types.h>

namespace reprise::num {

template <class T>
concept real = std::is_floating_point_v<T>;
template <class T>
concept whole = std::is_integral_v<T>;

namespace detail {
// The unsigned type whose arithmetic wraps as T's does, never narrower than int (u8 would be promoted to a
// signed int).
template <whole T>
using wrapping = std::conditional_t<(sizeof(T) < 8), std::uint32_t, std::uint64_t>;
template <whole T>
constexpr wrapping<T> wide(T a) {
  return static_cast<wrapping<T>>(a);
}
}  // namespace detail

// What a dtype computes in: float for halves, itself otherwise.
template <class T>
using compute_t = std::conditional_t<std::same_as<T, float16> || std::same_as<T, bfloat16>, float, T>;

template <class T>
constexpr T zero(T) {
  return T(0);
}

template <class T>
constexpr bool truth(T a) {
  return a != T(0);  // nan is true
}

template <class T>
constexpr T add(T a, T b) {
  if constexpr (whole<T>) return static_cast<T>(detail::wide(a) + detail::wide(b));
  else return a + b;
}

template <class T>
constexpr T sub(T a, T b) {
  if constexpr (whole<T>) return static_cast<T>(detail::wide(a) - detail::wide(b));
  else return a - b;
}

template <class T>
constexpr T mul(T a, T b) {
  if constexpr (whole<T>) return static_cast<T>(detail::wide(a) * detail::wide(b));
  else return a * b;
}

template <class T>
constexpr T neg(T a) {
  if constexpr (whole<T>) return static_cast<T>(0u - detail::wide(a));
  else return -a;
}

template <class T>
constexpr bool negative(T a) {
  if constexpr (std::is_signed_v<T>) return a < T(0);
  else return false;
}

// Is it -1 of a signed type: the one divisor whose quotient can overflow.
template <whole T>
constexpr bool minus_one(T b) {
  return std::is_signed_v<T> && b == static_cast<T>(-1);
}

template <class T>
constexpr T div(T a, T b) {
  if constexpr (whole<T>) {
    if (b == 0) return 0;
    return minus_one(b) ? neg(a) : static_cast<T>(a / b);
  } else {
    return a / b;
  }
}

template <class T>
T fmod(T a, T b) {
  if constexpr (whole<T>) return b == 0 || minus_one(b) ? T(0) : static_cast<T>(a % b);
  else return std::fmod(a, b);
}

template <class T>
T mod(T a, T b) {
  T const r = fmod(a, b);
  if constexpr (whole<T>) {
    return r != 0 && negative(r) != negative(b) ? add(r, b) : r;
  } else {
    if (r == 0) return std::copysign(T(0), b);
    return std::signbit(r) != std::signbit(b) ? r + b : r;
  }
}

template <class T>
T floor_divide(T a, T b) {
  if constexpr (whole<T>) {
    T const r = fmod(a, b);
    return r != 0 && negative(r) != negative(b) ? sub(div(a, b), T(1)) : div(a, b);
  } else {
    if (b == 0) return a / b;
    T const r = fmod(a, b);
    T q = (a - r) / b;
    if (r != 0 && negative(r) != negative(b)) q -= 1;
    if (q == 0) return std::copysign(T(0), a / b);
    T const below = std::floor(q);
    return q - below > T(0.5) ? below + 1 : below;
  }
}

template <class T>
T abs(T a) {
  if constexpr (whole<T>) return negative(a) ? neg(a) : a;
  else return std::fabs(a);
}

template <class T>
constexpr T sign(T a) {
  if (a != a) return a;
  return a > T(0) ? T(1) : a < T(0) ? static_cast<T>(-1) : T(0);
}

template <class T>
T minimum(T a, T b) {
  if constexpr (real<T>) {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;  // -0 is below +0
  }
  return b < a ? b : a;
}

template <class T>
T maximum(T a, T b) {
  if constexpr (real<T>) {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

template <real T>
T floor(T a) {
  return std::floor(a);
}
template <real T>
T ceil(T a) {
  return std::ceil(a);
}
template <real T>
T trunc(T a) {
  return std::trunc(a);
}
template <real T>
T sqrt(T a) {
  return std::sqrt(a);
}

template <real T>
T rint(T a) {
  return std::rint(a);  // halves to even: the mode that every thread starts in
}

template <real T>
bool isfinite(T a) {
  return std::isfinite(a);
}
template <real T>
bool isinf(T a) {
  return std::isinf(a);
}

template <whole T>
constexpr T bitwise_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <whole T>
constexpr T bitwise_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <whole T>
constexpr T bitwise_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <whole T>
constexpr T invert(T a) {
  if constexpr (std::same_as<T, bool>) return !a;
  else return static_cast<T>(~a);
}

template <whole T>
constexpr T left_shift(T a, T b) {
  constexpr int width = static_cast<int>(8 * sizeof(T));
  return negative(b) || b >= width ? T(0) : static_cast<T>(detail::wide(a) << b);
}

template <whole T>
constexpr T right_shift(T a, T b) {
  constexpr int width = static_cast<int>(8 * sizeof(T));
  if (negative(b) || b >= width) return negative(a) ? static_cast<T>(-1) : T(0);
  return static_cast<T>(a >> b);
}

template <class T>
T pow(T a, T b) {
  if constexpr (whole<T>) {
    if (negative(b)) {
      if (a == T(1)) return 1;
      if (minus_one(a)) return b % 2 == 0 ? T(1) : a;
      return 0;
    }
    T result = 1;
    for (; b != 0; b = static_cast<T>(b / 2), a = mul(a, a))
      if (b % 2 != 0) result = mul(result, a);
    return result;
  } else {
    return std::pow(a, b);
  }
}

// Written so that nothing cancels and nothing overflows on the way; equal to the formula of the row in exact
// arithmetic.
template <real T>
T sigmoid(T a) {
  T const e = std::exp(-std::fabs(a));
  return std::signbit(a) ? e / (1 + e) : 1 / (1 + e);
}

// nan at -inf, where the row's formula is infinity times zero.
template <real T>
T gelu(T a) {
  return a / 2 * std::erfc(-a / std::numbers::sqrt2_v<T>);
}

// 1 + tanh(u) = 2 sigmoid(2 u). The row's constants are sqrt(2 / pi) and 0.044715.
template <real T>
T gelu_tanh(T a) {
  T const u = std::sqrt(2 * std::numbers::inv_pi_v<T>) * (a + T(0.044715L) * a * a * a);
  return a * sigmoid(2 * u);
}

// A cast between any two dtypes.
template <class To, class From>
To convert(From a) {
  if constexpr (std::same_as<To, From>) {
    return a;
  } else if constexpr (!std::same_as<compute_t<From>, From>) {
    return convert<To>(static_cast<float>(a));
  } else if constexpr (!std::same_as<compute_t<To>, To>) {
    return To(convert<float>(a));
  } else if constexpr (std::same_as<To, bool>) {
    return truth(a);
  } else if constexpr (real<From> && whole<To>) {
    if (a != a) return 0;
    if (a >= std::ldexp(From(1), std::numeric_limits<To>::digits)) return std::numeric_limits<To>::max();
    if (a <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(a);
  } else {
    return static_cast<To>(a);
  }
}

// Philox 4x32-10: the four words of one block.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const p0 = std::uint64_t{0xd2511f53u} * counter[0],
                        p1 = std::uint64_t{0xcd9e8d57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return counter;
}

// Word e of the draw under a key: word e mod 4 of the block with counter e / 4.
constexpr std::uint32_t philox_word(std::uint64_t key, std::uint64_t e) {
  std::uint64_t const block = e / 4;
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0},
                {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)})[e % 4];
}

}  // namespace reprise::num
