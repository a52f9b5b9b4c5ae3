// What the parts of the reference interpreter share; included by reference*.cpp only. A part is given
// operands and a result of the right type, already allocated, and fills the result.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "trace/reference.h"

namespace reprise::ir::parts {

using operands = std::span<host_tensor const* const>;

void elementwise(op code, operands in, host_tensor& out);
void select(operands in, host_tensor& out);
void cast(operands in, host_tensor& out);
void reduction(op code, words axes, host_tensor const& in, host_tensor& out);
void arg_reduction(op code, int axis, host_tensor const& in, host_tensor& out);
void movement(op code, words attributes, operands in, host_tensor& out);
void source(op code, words attributes, operands in, host_tensor& out);
void library(op code, words attributes, operands in, host_tensor& out);

// f.template operator()<T>() with T the element type of a dtype.
template <class F>
decltype(auto) with_element(dtype type, F&& f) {
  switch (type) {
#define DTYPE(id, cpp, name, bytes, cls, compute, device) \
  case dtype::id: return std::forward<F>(f).template operator()<cpp>();
#include <reprise/dtypes.def>
#undef DTYPE
  }
  throw error("reference: not a dtype");
}

// Does a row take elements of T: rows are compiled for those only.
template <accepts set, class T>
constexpr bool takes() {
  constexpr dtype_class cls = class_of(dtype_v<T>);
  switch (set) {
    case accepts::any: return true;
    case accepts::numeric: return cls != dtype_class::boolean;
    case accepts::floating: return cls == dtype_class::floating;
    case accepts::integral: return cls != dtype_class::floating;
    case accepts::integer: return cls == dtype_class::integer;
    case accepts::boolean: return cls == dtype_class::boolean;
    case accepts::none: return false;
  }
  return false;
}

// Offsets of an array's elements in row-major order of `extents`, each axis with its own stride, from `base`.
std::vector<std::int64_t> offsets(std::span<std::int64_t const> extents,
                                  std::span<std::int64_t const> strides, std::int64_t base = 0);
std::vector<std::int64_t> strides_of(reprise::shape const& shape);  // row-major, in elements

}  // namespace reprise::ir::parts
