// Holding a result against the reference: the same bits by docs/numbers.md (equal as values, zeros equal in
// sign, every nan equal to every other), units in the last place, or an absolute bound for each element. The
// answer is a sentence, empty when all is well, so that EXPECT_EQ(difference(got, want), "") says what
// differed first, in decimal and in hex.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "trace/reference.h"

namespace reprise::test {

using ir::host_tensor;
using ir::tensor_type;

struct tolerance {
  std::int64_t ulps = 0;
  host_tensor const* bound =
      nullptr;  // f64, of the result's shape: the most each element may be off; not finite: anything goes
};

inline bool is_nan(host_tensor const& t, std::int64_t i) {
  return is_floating(t.type.type) && std::isnan(t.number(i));
}

// Floating values as integers in their order: neighbours differ by one, both zeros are 0.
inline std::int64_t place(host_tensor const& t, std::int64_t i) {
  std::uint64_t const bits = t.bits(i), sign = std::uint64_t{1} << (8 * size_of(t.type.type) - 1);
  std::int64_t const magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return bits & sign ? -magnitude : magnitude;
}

// Units in the last place between two elements; the largest integer where one is nan and the other is not, 0
// where both are.
inline std::uint64_t ulps_between(host_tensor const& a, host_tensor const& b, std::int64_t i) {
  if (is_nan(a, i) || is_nan(b, i))
    return is_nan(a, i) && is_nan(b, i) ? 0 : std::numeric_limits<std::uint64_t>::max();
  std::int64_t const x = place(a, i), y = place(b, i);
  return x < y ? static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x)
               : static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y);
}

inline bool same_bits(host_tensor const& a, host_tensor const& b, std::int64_t i) {
  return a.bits(i) == b.bits(i) || (is_nan(a, i) && is_nan(b, i));
}

inline bool close_enough(host_tensor const& got, host_tensor const& want, std::int64_t i, tolerance allowed) {
  if (same_bits(got, want, i)) return true;
  if (!is_floating(want.type.type)) return false;
  if (allowed.bound != nullptr) {
    double const bound = allowed.bound->number(i);
    return !std::isfinite(bound) || std::fabs(got.number(i) - want.number(i)) <= bound;
  }
  if (place(got, i) == 0 && place(want, i) == 0) return false;  // zeros of another sign
  return ulps_between(got, want, i) <= static_cast<std::uint64_t>(allowed.ulps);
}

inline std::string show(host_tensor const& t, std::int64_t i) {
  dtype const type = t.type.type;
  if (!is_floating(type)) return fmt::format("{} (0x{:x})", t.integer(i), t.bits(i));
  return fmt::format("{:.{}g} (0x{:0{}x})", t.number(i), type == dtype::f64 ? 17 : 9, t.bits(i),
                     2 * size_of(type));
}

inline std::string place_in(reprise::shape const& shape, std::int64_t i) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text = fmt::format("{}{}{}", i % shape[axis], text.empty() ? "" : ", ", text);
    i /= shape[axis];
  }
  return "(" + text + ")";
}

inline std::string difference(host_tensor const& got, host_tensor const& want, tolerance allowed = {}) {
  if (got.type != want.type) return fmt::format("got {}, want {}", str(got.type), str(want.type));
  std::size_t const bytes = static_cast<std::size_t>(want.size() * size_of(want.type.type));
  if (got.bytes.size() != bytes || want.bytes.size() != bytes)
    return fmt::format("{}: got {} bytes, want {}, {} are right", str(want.type), got.bytes.size(),
                       want.bytes.size(), bytes);
  std::int64_t first = -1, wrong = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    if (close_enough(got, want, i, allowed)) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  std::string how;
  if (allowed.bound != nullptr)
    how = fmt::format(", off by {:.3g} ({:.3g} allowed)", std::fabs(got.number(first) - want.number(first)),
                      allowed.bound->number(first));
  else if (is_floating(want.type.type))
    how = fmt::format(", {} ulps ({} allowed)", ulps_between(got, want, first), allowed.ulps);
  return fmt::format("{}: {} of {} elements differ, first at {}: got {}, want {}{}", str(want.type), wrong,
                     want.size(), place_in(want.type.shape, first), show(got, first), show(want, first), how);
}

// How far a backend may be from the reference in one node on exact operands. A half is an f32 result rounded
// once more, which moves it by one place at most.
inline std::int64_t allowed_ulps(ir::op code, dtype type) {
  int const row = ir::info(code).ulps;
  if (row == 0 || !is_floating(type)) return 0;
  if (is_half(type)) return 1;
  return type == dtype::f64 && row < 4 ? 4 : row;
}

}  // namespace reprise::test
