// Element types: the two half formats, the dtype enumeration made from dtypes.def, promotion, and the weak
// typing of C++ scalars. Nothing here allocates or calls the library.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace reprise::inline v1 {

namespace detail {

// IEEE binary16 from binary32, round to nearest even; every NaN becomes the quiet NaN 0x7e00 with its sign.
constexpr std::uint16_t f16_bits(float value) {
  std::uint32_t const bits = std::bit_cast<std::uint32_t>(value), sign = bits >> 16 & 0x8000u,
                      abs = bits & 0x7fffffffu;
  if (abs > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (abs >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (abs < 0x38800000u) {                                                    // subnormal half, or zero
    if (abs < 0x33000000u) return static_cast<std::uint16_t>(sign);
    std::uint32_t const shift = 126 - (abs >> 23), mantissa = (abs & 0x7fffffu) | 0x800000u;
    std::uint32_t const whole = mantissa >> shift, rest = mantissa & ((1u << shift) - 1),
                        half = 1u << (shift - 1);
    return static_cast<std::uint16_t>(sign | (whole + (rest > half || (rest == half && (whole & 1u)))));
  }
  std::uint32_t const rebased = abs - 0x38000000u, whole = rebased >> 13, rest = rebased & 0x1fffu;
  return static_cast<std::uint16_t>(sign | (whole + (rest > 0x1000u || (rest == 0x1000u && (whole & 1u)))));
}

constexpr float f16_value(std::uint16_t half) {
  std::uint32_t const sign = (half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu, mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  float const tiny = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(tiny));
}

constexpr std::uint16_t bf16_bits(float value) {
  std::uint32_t const bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | 0x7fc0u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

constexpr float bf16_value(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

}  // namespace detail

// IEEE binary16. Named so because CUDA's headers own the global name `half`.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  constexpr explicit float16(float value) : bits(detail::f16_bits(value)) {}
  constexpr explicit operator float() const { return detail::f16_value(bits); }
  static constexpr float16 from_bits(std::uint16_t b) {
    float16 h;
    h.bits = b;
    return h;
  }
};

// The upper half of a binary32.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits(detail::bf16_bits(value)) {}
  constexpr explicit operator float() const { return detail::bf16_value(bits); }
  static constexpr bfloat16 from_bits(std::uint16_t b) {
    bfloat16 h;
    h.bits = b;
    return h;
  }
};

enum class dtype : std::uint8_t {
#define DTYPE(id, type, name, bytes, cls, compute, device) id,
#include <reprise/dtypes.def>
#undef DTYPE
};

enum class dtype_class : std::uint8_t { boolean, integer, floating };

inline constexpr int dtype_count = 0
#define DTYPE(id, type, name, bytes, cls, compute, device) +1
#include <reprise/dtypes.def>
#undef DTYPE
    ;

constexpr char const* name_of(dtype t) {
  switch (t) {
#define DTYPE(id, type, name, bytes, cls, compute, device) \
  case dtype::id: return name;
#include <reprise/dtypes.def>
#undef DTYPE
  }
  return "?";
}

constexpr int size_of(dtype t) {
  switch (t) {
#define DTYPE(id, type, name, bytes, cls, compute, device) \
  case dtype::id: return bytes;
#include <reprise/dtypes.def>
#undef DTYPE
  }
  return 0;
}

constexpr dtype_class class_of(dtype t) {
  switch (t) {
#define DTYPE(id, type, name, bytes, cls, compute, device) \
  case dtype::id: return dtype_class::cls;
#include <reprise/dtypes.def>
#undef DTYPE
  }
  return dtype_class::boolean;
}

constexpr dtype compute_type(dtype t) {
  switch (t) {
#define DTYPE(id, type, name, bytes, cls, compute, device) \
  case dtype::id: return dtype::compute;
#include <reprise/dtypes.def>
#undef DTYPE
  }
  return t;
}

constexpr bool is_floating(dtype t) { return class_of(t) == dtype_class::floating; }
constexpr bool is_half(dtype t) { return t == dtype::f16 || t == dtype::bf16; }

namespace detail {

template <class T>
struct dtype_of_type;  // no member `value`: T is not an element type
#define DTYPE(id, type, name, bytes, cls, compute, device) \
  template <>                                              \
  struct dtype_of_type<type> {                             \
    static constexpr dtype value = dtype::id;              \
  };
#include <reprise/dtypes.def>
#undef DTYPE

template <dtype D>
struct type_of_dtype;
#define DTYPE(id, cpp, name, bytes, cls, compute, device) \
  template <>                                             \
  struct type_of_dtype<dtype::id> {                       \
    using type = cpp;                                     \
  };
#include <reprise/dtypes.def>
#undef DTYPE

}  // namespace detail

// An element type of cuda::array.
template <class T>
concept element = requires { detail::dtype_of_type<T>::value; };

template <element T>
inline constexpr dtype dtype_v = detail::dtype_of_type<T>::value;

template <dtype D>
using element_t = typename detail::type_of_dtype<D>::type;

// Promotion of two array dtypes: NumPy's, except that an integer array beside a floating one takes the
// floating dtype (as in PyTorch and JAX). f16 with bf16 gives f32. u8 with i32 gives i32.
constexpr dtype promote(dtype a, dtype b) {
  if (a == b) return a;
  if (class_of(a) != class_of(b)) return class_of(a) < class_of(b) ? b : a;
  if (is_half(a) && is_half(b)) return dtype::f32;
  return static_cast<int>(a) < static_cast<int>(b) ? b : a;
}

template <element T, element U>
using promote_t = element_t<promote(dtype_v<T>, dtype_v<U>)>;

// The dtype that sum and prod of a T have (NumPy's: integers and booleans add up in 64 bits).
constexpr dtype sum_type(dtype t) { return is_floating(t) ? t : dtype::i64; }
// The dtype of mean and of true_divide.
constexpr dtype mean_type(dtype t) { return is_floating(t) ? t : dtype::f64; }

}  // namespace reprise::inline v1
