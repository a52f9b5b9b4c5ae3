// Kernels made by hand.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "jit/code.h"
#include "jit/kernel.h"

namespace reprise::jit {

inline kernel empty_kernel(std::vector<std::int64_t> grid, std::int64_t inner) {
  kernel k;
  k.name = "k";
  k.grid = std::move(grid);
  for (auto e : k.grid) k.index.add_variable(e);
  k.index.add_variable(inner);
  return k;
}

inline code::val load(code::body& b, dtype t, std::uint32_t slot, index_id at, value_id guard = no_value) {
  return b.append({.code = kop::load, .type = t, .slot = slot, .index = at, .guard = guard});
}
inline void store(code::val v, std::uint32_t slot, index_id at, value_id guard = no_value) {
  v.in->append({.code = kop::store, .type = v.type(), .a = v.id, .slot = slot, .index = at, .guard = guard});
}

// rows x columns: each row's softmax, kept in a local array between the phases.
inline kernel row_softmax(std::int64_t rows, std::int64_t columns) {
  kernel k = empty_kernel({rows}, columns);
  k.name = "softmax";
  k.buffers = {{dtype::f32, rows * columns, false}, {dtype::f32, rows * columns, true}};
  k.locals = {{dtype::f32, columns}};
  k.rows = {dtype::f32, dtype::f32};
  index_id const i = k.index.variable(1), at = k.index.add(k.index.mul(k.index.variable(0), columns), i);
  code::body b;
  code::val v = load(b, dtype::f32, 0, at);
  k.phases.push_back(
      {columns, {}, {{.kind = reduction_kind::max, .type = dtype::f32, .value = v.id, .row = 0}}});
  k.phases.back().body = b.take();
  code::val const e = code::exp(
      code::sub(load(b, dtype::f32, 0, at), b.append({.code = kop::row, .type = dtype::f32, .slot = 0})));
  b.append({.code = kop::store_local, .type = dtype::f32, .a = e.id, .slot = 0, .index = i});
  k.phases.push_back(
      {columns, {}, {{.kind = reduction_kind::sum, .type = dtype::f32, .value = e.id, .row = 1}}});
  k.phases.back().body = b.take();
  code::val const kept = b.append({.code = kop::load_local, .type = dtype::f32, .slot = 0, .index = i});
  store(code::div(kept, b.append({.code = kop::row, .type = dtype::f32, .slot = 1})), 1, at);
  k.phases.push_back({columns, b.take(), {}});
  return k;
}

}  // namespace reprise::jit
