// Small programs and their inputs, for tests: one node from a row and its attributes, and arrays of chosen
// randomness.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "trace/reference.h"

namespace reprise::test {

using ir::builder;
using ir::host_tensor;
using ir::make_scalar;
using ir::make_tensor;
using ir::node_id;
using ir::op;
using ir::program;
using ir::tensor_type;

inline std::vector<dtype> all_dtypes() {
  std::vector<dtype> all;
#define DTYPE(id, cpp, name, bytes, cls, compute, device) all.push_back(dtype::id);
#include <reprise/dtypes.def>
#undef DTYPE
  return all;
}

// Attribute words: packed({ints, ints, one}) in the order of the schema.
class attribute_words {
 public:
  attribute_words& one(std::int64_t value) {
    words_.push_back(value);
    return *this;
  }
  template <class Range = std::initializer_list<std::int64_t>>
  attribute_words& list(Range const& values) {
    words_.push_back(std::distance(std::begin(values), std::end(values)));
    words_.insert(words_.end(), std::begin(values), std::end(values));
    return *this;
  }
  operator ir::words() const { return words_; }

 private:
  std::vector<std::int64_t> words_;
};

inline reprise::shape shape_of(std::span<std::int64_t const> extents) {
  reprise::shape s;
  for (std::int64_t e : extents) s.push_back(e);
  return s;
}

// Names each node a result, and closes the program.
inline void finish(program& p, std::span<node_id const> results) {
  for (node_id n : results)
    p.results.push_back({n, ir::result_role::returned, 0, std::to_string(p.results.size())});
  p.segments = {{static_cast<node_id>(p.nodes.size()), {}}};
}

// One operation on parameters of the given types.
inline program one_node(op code, std::span<tensor_type const> operands, ir::words attributes = {}) {
  program p;
  builder b(p);
  std::vector<node_id> in;
  for (tensor_type const& t : operands) in.push_back(b.parameter(t));
  node_id const n = b.add(code, in, attributes);
  finish(p, {&n, 1});
  return p;
}

using random_engine = std::mt19937_64;

// [low, high]; the same on every standard library, unlike std::uniform_int_distribution.
inline std::int64_t random_int(random_engine& r, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(r() % static_cast<std::uint64_t>(high - low + 1));
}
inline double random_unit(random_engine& r) { return static_cast<double>(r() >> 11) * 0x1p-53; }
inline bool chance(random_engine& r, double p) { return random_unit(r) < p; }
template <class Range>
auto const& choose(random_engine& r, Range const& from) {
  return from[static_cast<std::size_t>(random_int(r, 0, std::ssize(from) - 1))];
}

// Bits of the values at which things go wrong: zeros of both signs, extremes, denormals, infinities, nan,
// halves of integers.
inline std::vector<std::uint64_t> special_bits(dtype type) {
  switch (type) {
    case dtype::boolean: return {0, 1};
    case dtype::u8: return {0, 1, 2, 7, 8, 127, 128, 255};
    case dtype::i32: return {0, 1, 2, 31, 32, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffff9};
    case dtype::i64:
      return {0,
              1,
              2,
              63,
              64,
              0x7fffffffffffffff,
              0x8000000000000000,
              0x8000000000000001,
              ~0ull,
              ~0ull - 6,
              0x20000000000001};
    case dtype::f16:
      return {0,      0x8000, 0x3c00, 0xbc00, 0x3800, 0xb800, 0x4100, 0x7bff,
              0xfbff, 0x0400, 1,      0x8001, 0x7c00, 0xfc00, 0x7e00};
    case dtype::bf16:
      return {0,      0x8000, 0x3f80, 0xbf80, 0x3f00, 0xbf00, 0x4020, 0x7f7f,
              0xff7f, 0x0080, 1,      0x8001, 0x7f80, 0xff80, 0x7fc0};
    case dtype::f32:
      return {0,          0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0xbf000000,
              0x40200000, 0x7f7fffff, 0xff7fffff, 0x00800000, 1,          0x80000001,
              0x7f800000, 0xff800000, 0x7fc00000, 0x4b800001, 0x4f000000};
    case dtype::f64:
      return {0,
              0x8000000000000000,
              0x3ff0000000000000,
              0xbff0000000000000,
              0x3fe0000000000000,
              0xbfe0000000000000,
              0x4004000000000000,
              0x7fefffffffffffff,
              0xffefffffffffffff,
              0x0010000000000000,
              1,
              0x8000000000000001,
              0x7ff0000000000000,
              0xfff0000000000000,
              0x7ff8000000000000,
              0x41dfffffffe00000};
  }
  return {0};
}

// What the elements of a random array are like.
struct values {
  double specials = 0.15;  // the share of special_bits
  double spread = 3;       // decades either way of 1 in floating arrays; 0: near 1
  double any_bits = 0;     // the share of uniformly random bit patterns
};

inline host_tensor random_tensor(random_engine& r, tensor_type const& type, values const& like = {}) {
  host_tensor t = ir::make_tensor(type);
  std::vector<std::uint64_t> const specials = special_bits(type.type);
  std::uint64_t const mask = size_of(type.type) == 8 ? ~0ull : (1ull << 8 * size_of(type.type)) - 1;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (type.type == dtype::boolean) {
      t.set_bits(i, r() & 1);
    } else if (chance(r, like.specials)) {
      t.set_bits(i, choose(r, specials));
    } else if (chance(r, like.any_bits)) {
      t.set_bits(i, r() & mask);
    } else if (!is_floating(type.type)) {
      t.set_bits(i, static_cast<std::uint64_t>(random_int(r, type.type == dtype::u8 ? 0 : -100, 100)) & mask);
    } else {
      double const sign = chance(r, 0.5) ? 1 : -1;
      double const size =
          like.spread == 0 ? 0.5 + random_unit(r) : std::pow(10.0, (2 * random_unit(r) - 1) * like.spread);
      t.set_number(i, sign * size);
    }
  }
  return t;
}

inline std::vector<host_tensor> random_parameters(random_engine& r, program const& p,
                                                  values const& like = {}) {
  std::vector<host_tensor> all;
  for (ir::parameter const& x : p.parameters) all.push_back(random_tensor(r, x.type, like));
  return all;
}

}  // namespace reprise::test
