// The interpreter on kernels made by hand, against plain loops that follow docs/numbers.md.
#include "jit/interpret.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include <reprise/error.h>

#include "kernels.h"

namespace reprise::jit {
namespace {

std::vector<float> random_floats(std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::vector<float> v(n);
  for (auto& x : v)
    x = std::ldexp(static_cast<float>(random() % 2000000) - 1e6f, static_cast<int>(random() % 20) - 20);
  return v;
}

template <class T>
T tree(std::vector<T> p) {
  for (std::size_t m = p.size(); m > 1;) {
    std::size_t const h = (m + 1) / 2;
    for (std::size_t i = 0; i < m - h; ++i) p[i] = p[i] + p[i + h];
    m = h;
  }
  return p[0];
}
// With the identity in every lane, as the page has it.
float by_lanes(std::vector<float> const& e) {
  std::vector<float> blocks;
  for (std::size_t at = 0; at < e.size(); at += 4096) {
    std::vector<float> lanes(128, -0.0f);
    for (std::size_t i = at; i < std::min(at + 4096, e.size()); ++i) lanes[(i - at) % 128] += e[i];
    blocks.push_back(tree(lanes));
  }
  return tree(blocks);
}
float by_runs(std::vector<float> const& e) {
  std::vector<float> runs;
  for (std::size_t i = 0; i < e.size(); ++i)
    if (i % 128 == 0) runs.push_back(e[i]);
    else runs.back() += e[i];
  return tree(runs);
}

TEST(Interpret, ElementwiseWithGuards) {
  // y[j] = 2 * x[j - 2], 7 outside, for a grid of blocks that is longer than y
  kernel k = empty_kernel({3}, 8);
  k.buffers = {{dtype::f32, 18, false}, {dtype::f32, 22, true}};
  k.scalars = {dtype::f32};
  auto& x = k.index;
  index_id const j = x.add(x.mul(x.variable(0), 8), x.variable(1)), from = x.add(j, -2);
  code::body b;
  auto const value = [&](index_id i) {
    return b.append({.code = kop::index, .type = dtype::i64, .index = i});
  };
  code::val const at = value(from), zero = code::zero(at);
  code::val const inside = code::band(code::le(zero, at), code::lt(at, code::integer(at, 18)));
  code::val const there = code::lt(value(j), code::integer(at, 22));
  code::val const v =
      code::mul(load(b, dtype::f32, 0, from, inside.id), b.append({.code = kop::scalar, .type = dtype::f32}));
  store(code::select(inside, v, code::number(v, 7)), 1, j, there.id);
  k.phases.push_back({8, b.take(), {}});
  verify(k);
  std::vector<float> in(18), out(23, -1);
  for (std::size_t i = 0; i < 18; ++i) in[i] = static_cast<float>(i) + 1;
  void* const buffers[] = {in.data(), out.data()};
  std::uint64_t const scalars[] = {std::bit_cast<std::uint32_t>(2.0f)};
  interpret(k, buffers, scalars);
  for (std::size_t i = 0; i < 22; ++i)
    EXPECT_EQ(out[i], i < 2 || i >= 20 ? 7 : 2 * static_cast<float>(i - 1));
  EXPECT_EQ(out[22], -1);
}

TEST(Interpret, ReductionsInTheirOrders) {
  for (std::size_t n :
       {1u, 2u, 3u, 127u, 128u, 129u, 200u, 1000u, 4095u, 4096u, 4097u, 5000u, 12345u, 20480u})
    for (order o : {order::lanes, order::runs, order::tree}) {
      kernel k = empty_kernel({}, static_cast<std::int64_t>(n));
      k.buffers = {{dtype::f32, static_cast<std::int64_t>(n), false}, {dtype::f32, 1, true}};
      k.rows = {dtype::f32};
      code::body b;
      code::val const v = load(b, dtype::f32, 0, k.index.variable(0));
      k.phases.push_back({static_cast<std::int64_t>(n), {}, {{.order = o, .value = v.id}}});
      k.phases.back().body = b.take();
      store(b.append({.code = kop::row, .type = dtype::f32, .slot = 0}), 1, k.index.constant(0));
      k.phases.push_back({1, b.take(), {}});
      verify(k);
      auto in = random_floats(n);
      float out = 0;
      void* const buffers[] = {in.data(), &out};
      interpret(k, buffers, {});
      EXPECT_EQ(out, o == order::lanes ? by_lanes(in) : o == order::runs ? by_runs(in) : tree(in)) << n;
    }
}

TEST(Interpret, RowSoftmaxWithALocalArray) {
  std::int64_t const rows = 3, columns = 1500;
  kernel const k = row_softmax(rows, columns);
  verify(k);
  auto in = random_floats(static_cast<std::size_t>(rows * columns));
  for (auto& v : in) v = std::fmod(v, 20.0f);
  std::vector<float> out(in.size());
  void* const buffers[] = {in.data(), out.data()};
  interpret(k, buffers, {});
  for (std::int64_t r = 0; r < rows; ++r) {
    auto const* x = in.data() + r * columns;
    double const largest = *std::max_element(x, x + columns);
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += std::exp(x[c] - largest);
    for (std::int64_t c = 0; c < columns; ++c)
      EXPECT_NEAR(out[static_cast<std::size_t>(r * columns + c)], std::exp(x[c] - largest) / sum, 1e-6);
  }
}

TEST(Interpret, ColumnSumsAlongTheGrid) {
  std::int64_t const rows = 300, columns = 5;
  kernel k = empty_kernel({columns}, rows);
  k.lanes = lanes_along::grid;
  k.buffers = {{dtype::f32, rows * columns, false}, {dtype::f32, columns, true}};
  k.rows = {dtype::f32};
  code::body b;
  code::val const v =
      load(b, dtype::f32, 0, k.index.add(k.index.mul(k.index.variable(1), columns), k.index.variable(0)));
  k.phases.push_back({rows, {}, {{.order = order::runs, .value = v.id}}});
  k.phases.back().body = b.take();
  store(b.append({.code = kop::row, .type = dtype::f32, .slot = 0}), 1, k.index.variable(0));
  k.phases.push_back({1, b.take(), {}});
  verify(k);
  auto in = random_floats(static_cast<std::size_t>(rows * columns));
  std::vector<float> out(static_cast<std::size_t>(columns));
  void* const buffers[] = {in.data(), out.data()};
  interpret(k, buffers, {});
  for (std::size_t c = 0; c < 5; ++c) {
    std::vector<float> column;
    for (std::size_t r = 0; r < 300; ++r) column.push_back(in[r * 5 + c]);
    EXPECT_EQ(out[c], by_runs(column));
  }
}

// One reduction of a whole buffer of T.
template <class T>
std::uint64_t reduced(reduction_kind kind, std::vector<T> v, dtype into = dtype_v<T>) {
  std::vector<T> factors = v;
  return reduce({.kind = kind, .type = into}, dtype_v<T>, v.size(), v.data(), nullptr);
}
float as_f32(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }

TEST(Interpret, ExtremesAndTheirPlaces) {
  float const nan = std::numeric_limits<float>::quiet_NaN();
  using enum reduction_kind;
  EXPECT_EQ(reduced<float>(argmax, {1, 3, 2, 3}, dtype::i64), 1u);
  EXPECT_EQ(reduced<float>(argmin, {1, 0, 2, 0}, dtype::i64), 1u);
  EXPECT_EQ(reduced<float>(argmax, {1, 3, nan, 9, nan}, dtype::i64), 2u);
  EXPECT_EQ(reduced<float>(argmin, {1, nan, -3, nan}, dtype::i64), 1u);
  EXPECT_EQ(reduced<float>(argmax, {nan, 1}, dtype::i64), 0u);
  EXPECT_EQ(reduced<float>(argmax, {-0.0f, 0.0f}, dtype::i64), 0u);
  EXPECT_EQ(reduced<float>(argmin, {0.0f, -0.0f}, dtype::i64), 0u);
  EXPECT_EQ(reduced<std::int64_t>(argmax, {INT64_MIN, INT64_MAX - 1, INT64_MAX}, dtype::i64), 2u);
  EXPECT_TRUE(std::isnan(as_f32(reduced<float>(max, {1, nan, 3}))));
  EXPECT_TRUE(std::isnan(as_f32(reduced<float>(min, {1, nan, 3}))));
  EXPECT_FALSE(std::signbit(as_f32(reduced<float>(max, {-0.0f, 0.0f, -0.0f}))));
  EXPECT_TRUE(std::signbit(as_f32(reduced<float>(min, {0.0f, -0.0f, 0.0f}))));
  EXPECT_THROW(reduced<float>(max, {}), compile_error);
}

TEST(Interpret, SumsOfNothingAndOfZeros) {
  using enum reduction_kind;
  EXPECT_EQ(reduced<float>(sum, {}), 0u);
  EXPECT_EQ(as_f32(reduced<float>(prod, {})), 1);
  EXPECT_TRUE(std::signbit(as_f32(reduced<float>(sum, {-0.0f, -0.0f, -0.0f}))));
  EXPECT_EQ(reduced<std::int64_t>(sum, {INT64_MAX, 1}), static_cast<std::uint64_t>(INT64_MIN));
  std::uint8_t yes[] = {1, 0, 1}, no[] = {0, 0, 0};
  EXPECT_EQ(reduce({.kind = any, .type = dtype::boolean}, dtype::boolean, 3, yes, nullptr), 1u);
  EXPECT_EQ(reduce({.kind = all, .type = dtype::boolean}, dtype::boolean, 3, yes, nullptr), 0u);
  EXPECT_EQ(reduce({.kind = any, .type = dtype::boolean}, dtype::boolean, 3, no, nullptr), 0u);
  EXPECT_EQ(reduce({.kind = all, .type = dtype::boolean}, dtype::boolean, 0, no, nullptr), 1u);
}

TEST(Interpret, ContractionsAreFusedAndInSequence) {
  std::int64_t const m = 3, n = 4, l = 50;
  kernel k = empty_kernel({m, n}, l);
  k.buffers = {{dtype::f32, m * l, false}, {dtype::f32, l * n, false}, {dtype::f32, m * n, true}};
  k.rows = {dtype::f32};
  auto& x = k.index;
  code::body b;
  code::val const left = load(b, dtype::f32, 0, x.add(x.mul(x.variable(0), l), x.variable(2)));
  code::val const right = load(b, dtype::f32, 1, x.add(x.mul(x.variable(2), n), x.variable(1)));
  k.phases.push_back({l, {}, {{.order = order::contract, .value = left.id, .factor = right.id}}});
  k.phases.back().body = b.take();
  store(b.append({.code = kop::row, .type = dtype::f32, .slot = 0}), 2,
        x.add(x.mul(x.variable(0), n), x.variable(1)));
  k.phases.push_back({1, b.take(), {}});
  verify(k);
  auto p = random_floats(150), q = random_floats(200);
  std::vector<float> out(12);
  void* const buffers[] = {p.data(), q.data(), out.data()};
  interpret(k, buffers, {});
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 4; ++j) {
      float sum = 0;
      for (std::size_t t = 0; t < 50; ++t) sum = std::fma(p[i * 50 + t], q[t * 4 + j], sum);
      EXPECT_EQ(out[i * 4 + j], sum);
    }
}

TEST(Interpret, AForeignBooleanCountsAsOne) {
  kernel k = empty_kernel({}, 3);
  k.buffers = {{dtype::boolean, 3, false}, {dtype::i64, 3, true}};
  code::body b;
  store(code::convert(load(b, dtype::boolean, 0, k.index.variable(0)), dtype::i64), 1, k.index.variable(0));
  k.phases.push_back({3, b.take(), {}});
  std::uint8_t in[] = {0, 1, 200};
  std::int64_t out[3];
  void* const buffers[] = {in, out};
  interpret(k, buffers, {});
  EXPECT_EQ(out[2], 1);
  EXPECT_EQ(out[0], 0);
}

TEST(Interpret, AnAccessOutsideIsRefused) {
  kernel k = empty_kernel({}, 4);
  k.buffers = {{dtype::f32, 3, false}, {dtype::f32, 4, true}};
  code::body b;
  store(load(b, dtype::f32, 0, k.index.variable(0)), 1, k.index.variable(0));
  k.phases.push_back({4, b.take(), {}});
  float in[3] = {}, out[4];
  void* const buffers[] = {in, out};
  EXPECT_THROW(interpret(k, buffers, {}), compile_error);
  EXPECT_THROW(interpret(k, {}, {}), compile_error);
}

}  // namespace
}  // namespace reprise::jit
