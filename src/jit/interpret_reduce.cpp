// The fixed orders of docs/numbers.md, word for word.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <reprise/error.h>

#include "jit/interpret.h"

namespace reprise::jit {
namespace {

kop step_of(reduction_kind kind) {
  switch (kind) {
    case reduction_kind::sum: return kop::add;
    case reduction_kind::prod: return kop::mul;
    case reduction_kind::max: return kop::maximum;
    case reduction_kind::min: return kop::minimum;
    case reduction_kind::any: return kop::bor;
    case reduction_kind::all: return kop::band;
    case reduction_kind::argmax:
    case reduction_kind::argmin: break;
  }
  throw compile_error("argmax and argmin do not combine two values");
}

struct elements {
  dtype type;
  unsigned char* at;
  std::size_t size = static_cast<std::size_t>(size_of(type));

  unsigned char* operator[](std::size_t i) const { return at + i * size; }
  // x[i] = x[i] step x[j], for the n elements from i and from j
  void combine(kop step, std::size_t i, std::size_t j, std::size_t n) const {
    apply({.code = step, .type = type}, type, n, (*this)[i], (*this)[j], nullptr, (*this)[i]);
  }
  void move(std::size_t to, std::size_t from) const { std::memmove((*this)[to], (*this)[from], size); }
};

// Leaves its result at `first`.
void tree(kop step, elements const& x, std::size_t first, std::size_t m) {
  while (m > 1) {
    std::size_t const h = (m + 1) / 2;
    x.combine(step, first, first + h, m - h);
    m = h;
  }
}

// A block's lane l starts with e[l] instead of the identity, which changes nothing, and lanes without an
// element are left out of the tree, where they would be adding the identity too: but not by closing up the
// tree, whose shape is that of 128 lanes.
void block_of_lanes(kop step, elements const& x, std::size_t first, std::size_t n) {
  std::size_t const lanes = 128;
  for (std::size_t i = lanes; i < n; i += lanes) x.combine(step, first, first + i, std::min(lanes, n - i));
  std::size_t const filled = std::min(lanes, n);
  for (std::size_t m = lanes; m > 1; m /= 2)
    if (m / 2 < filled) x.combine(step, first, first + m / 2, std::min(m, filled) - m / 2);
}

void by_lanes(kop step, elements const& x, std::size_t n) {
  std::size_t blocks = 0;
  for (std::size_t i = 0; i < n; i += 4096) {
    block_of_lanes(step, x, i, std::min<std::size_t>(4096, n - i));
    x.move(blocks++, i);
  }
  tree(step, x, 0, blocks);
}

void by_runs(kop step, elements const& x, std::size_t n) {
  std::size_t runs = 0;
  for (std::size_t i = 0; i < n; i += 128) {
    for (std::size_t j = i + 1; j < std::min(i + 128, n); ++j) x.combine(step, i, j, 1);
    x.move(runs++, i);
  }
  tree(step, x, 0, runs);
}

std::uint64_t of_nothing(reduction const& r) {
  switch (r.kind) {
    case reduction_kind::sum:
    case reduction_kind::any: return 0;
    case reduction_kind::all: return 1;
    case reduction_kind::prod:
      return r.type == dtype::f32   ? std::bit_cast<std::uint32_t>(1.0f)
             : r.type == dtype::f64 ? std::bit_cast<std::uint64_t>(1.0)
                                    : 1;
    case reduction_kind::max:
    case reduction_kind::min:
    case reduction_kind::argmax:
    case reduction_kind::argmin: break;
  }
  throw compile_error("the largest or smallest of no values");
}

template <class T>
std::uint64_t first_extreme(reduction_kind kind, std::size_t n, T const* x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < n && x[best] == x[best]; ++i)
    if (x[i] != x[i] || (kind == reduction_kind::argmax ? x[best] < x[i] : x[i] < x[best])) best = i;
  return best;
}

std::uint64_t extreme(reduction_kind kind, dtype from, std::size_t n, void const* x) {
  switch (from) {
    case dtype::boolean:
    case dtype::u8: return first_extreme(kind, n, static_cast<std::uint8_t const*>(x));
    case dtype::i32: return first_extreme(kind, n, static_cast<std::int32_t const*>(x));
    case dtype::i64: return first_extreme(kind, n, static_cast<std::int64_t const*>(x));
    case dtype::f32: return first_extreme(kind, n, static_cast<float const*>(x));
    case dtype::f64: return first_extreme(kind, n, static_cast<double const*>(x));
    case dtype::f16:
    case dtype::bf16: break;
  }
  throw compile_error("argmax and argmin compare halves as float32");
}

std::uint64_t contract(dtype t, std::size_t n, elements const& x, void const* factors) {
  auto const* f = static_cast<unsigned char const*>(factors);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t next = 0;
    unsigned char const* factor = f + i * x.size;
    if (is_floating(t)) {
      apply({.code = kop::fma, .type = t}, t, 1, x[i], factor, &sum, &next);
    } else {
      std::uint64_t product = 0;
      apply({.code = kop::mul, .type = t}, t, 1, x[i], factor, nullptr, &product);
      apply({.code = kop::add, .type = t}, t, 1, &sum, &product, nullptr, &next);
    }
    sum = next;
  }
  return sum;
}

}  // namespace

std::uint64_t reduce(reduction const& r, dtype from, std::size_t n, void* values, void const* factors) {
  if (n == 0) return of_nothing(r);
  if (r.kind == reduction_kind::argmax || r.kind == reduction_kind::argmin)
    return extreme(r.kind, from, n, values);
  elements const x{from, static_cast<unsigned char*>(values)};
  switch (r.order) {
    case order::contract: return contract(from, n, x, factors);
    case order::lanes: by_lanes(step_of(r.kind), x, n); break;
    case order::runs: by_runs(step_of(r.kind), x, n); break;
    case order::tree: tree(step_of(r.kind), x, 0, n); break;
  }
  std::uint64_t result = 0;
  std::memcpy(&result, x[0], x.size);
  return result;
}

}  // namespace reprise::jit
