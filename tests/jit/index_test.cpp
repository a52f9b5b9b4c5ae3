// Every identity of index expressions against brute force: the simplified expression and plain arithmetic
// agree everywhere.
#include "jit/index.h"

#include <functional>
#include <memory>
#include <random>

#include <gtest/gtest.h>

namespace reprise::jit {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t c) { return a / c - (a % c < 0); }

// Calls `visit` with every point of the arena's loops.
void each_point(index_arena const& a, std::function<void(std::vector<std::int64_t> const&)> const& visit) {
  std::vector<std::int64_t> at(a.variables(), 0);
  for (;;) {
    visit(at);
    std::size_t i = at.size();
    while (i > 0 && ++at[i - 1] == a.extent(static_cast<std::uint32_t>(i - 1))) at[--i] = 0;
    if (i == 0) return;
  }
}

using oracle = std::function<std::int64_t(std::vector<std::int64_t> const&)>;

void expect_same(index_arena const& a, index_id id, oracle const& f) {
  range const b = a.bounds(id);
  each_point(a, [&](auto const& at) {
    std::int64_t const v = f(at);
    ASSERT_EQ(a.evaluate(id, at), v);
    ASSERT_LE(b.low, v);
    ASSERT_GE(b.high, v);
  });
}

TEST(Index, RandomExpressionsAgreeWithArithmetic) {
  for (int seed = 0; seed < 400; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    auto const pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    index_arena a;
    int const loops = 1 + pick(3);
    for (int i = 0; i < loops; ++i) a.add_variable(1 + pick(13));
    std::vector<std::pair<index_id, oracle>> made;
    for (int i = 0; i < loops; ++i)
      made.emplace_back(a.variable(static_cast<std::uint32_t>(i)),
                        [i](auto const& at) { return at[static_cast<std::size_t>(i)]; });
    made.emplace_back(a.constant(3), [](auto const&) { return 3; });
    for (int step = 0; step < 14; ++step) {
      auto const [x, fx] = made[static_cast<std::size_t>(pick(static_cast<int>(made.size())))];
      auto const [y, fy] = made[static_cast<std::size_t>(pick(static_cast<int>(made.size())))];
      std::int64_t const c = 1 + pick(12), k = pick(11) - 5;
      switch (pick(5)) {
        case 0: made.emplace_back(a.add(x, y), [fx, fy](auto const& at) { return fx(at) + fy(at); }); break;
        case 1: made.emplace_back(a.mul(x, k), [fx, k](auto const& at) { return fx(at) * k; }); break;
        case 2:
          made.emplace_back(a.divide(x, c), [fx, c](auto const& at) { return floor_div(fx(at), c); });
          break;
        case 3:
          made.emplace_back(a.modulo(x, c),
                            [fx, c](auto const& at) { return fx(at) - c * floor_div(fx(at), c); });
          break;
        case 4: made.emplace_back(a.add(x, k), [fx, k](auto const& at) { return fx(at) + k; }); break;
      }
      // oracles nest: keep their cost bounded
      if (made.size() > 10) made.erase(made.begin() + 3);
    }
    for (auto const& [id, f] : made) {
      expect_same(a, id, f);
      if (HasFatalFailure()) FAIL() << "seed " << seed;
      for (std::uint32_t v = 0; v < a.variables(); ++v) {
        if (auto const s = a.stride(id, v))
          each_point(a, [&](auto at) {
            std::int64_t const here = a.evaluate(id, at);
            if (++at[v] < a.extent(v)) { ASSERT_EQ(a.evaluate(id, at) - here, *s); }
          });
        if (!a.depends(id, v)) { EXPECT_EQ(a.stride(id, v), 0); }
      }
    }
  }
}

// A view is a map from an index of the result to the element of the array below it.
struct view {
  std::vector<std::int64_t> shape;
  std::function<index_id(index_arena&, std::vector<index_id> const&)> at;
  std::function<std::int64_t(std::vector<std::int64_t> const&)> plain;
};
view array(std::vector<std::int64_t> shape) {
  return {shape,
          [shape](index_arena& a, std::vector<index_id> const& i) {
            index_id r = a.constant(0);
            for (std::size_t d = 0; d < shape.size(); ++d) r = a.add(a.mul(r, shape[d]), i[d]);
            return r;
          },
          [shape](std::vector<std::int64_t> const& i) {
            std::int64_t r = 0;
            for (std::size_t d = 0; d < shape.size(); ++d) r = r * shape[d] + i[d];
            return r;
          }};
}
view reshape(view v, std::vector<std::int64_t> shape) {
  auto const below_it = std::make_shared<view const>(std::move(v));
  return {shape,
          [below_it, shape](index_arena& a, std::vector<index_id> const& i) {
            index_id flat = a.constant(0);
            for (std::size_t d = 0; d < shape.size(); ++d) flat = a.add(a.mul(flat, shape[d]), i[d]);
            std::vector<index_id> below(below_it->shape.size());
            for (std::size_t d = below.size(); d-- > 0; flat = a.divide(flat, below_it->shape[d]))
              below[d] = a.modulo(flat, below_it->shape[d]);
            return below_it->at(a, below);
          },
          [below_it, shape](std::vector<std::int64_t> const& i) {
            std::int64_t flat = 0;
            for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + i[d];
            std::vector<std::int64_t> below(below_it->shape.size());
            for (std::size_t d = below.size(); d-- > 0; flat /= below_it->shape[d])
              below[d] = flat % below_it->shape[d];
            return below_it->plain(below);
          }};
}
view transpose(view v, std::vector<std::size_t> axes) {
  std::vector<std::int64_t> shape;
  for (auto x : axes) shape.push_back(v.shape[x]);
  auto const permuted = [axes](auto const& i) {
    auto below = i;
    for (std::size_t d = 0; d < axes.size(); ++d) below[axes[d]] = i[d];
    return below;
  };
  auto const below_it = std::make_shared<view const>(std::move(v));
  return {shape,
          [below_it, permuted](index_arena& a, std::vector<index_id> const& i) {
            return below_it->at(a, permuted(i));
          },
          [below_it, permuted](std::vector<std::int64_t> const& i) { return below_it->plain(permuted(i)); }};
}
index_id build(index_arena& a, view const& v) {
  std::vector<index_id> loops;
  for (auto e : v.shape) loops.push_back(a.variable(a.add_variable(e)));
  index_id const id = v.at(a, loops);
  expect_same(a, id, v.plain);
  return id;
}
bool plain_sum(index_arena const& a, index_id id) {
  for (term t : a.at(id).terms)
    if (a.atoms()[t.atom].kind != atom_kind::variable) return false;
  return true;
}

TEST(Index, ReshapesThatCancelAreGone) {
  for (auto const& shapes :
       std::vector<std::vector<std::vector<std::int64_t>>>{{{8}, {2, 4}, {8}},
                                                           {{12}, {2, 3, 2}, {4, 3}, {12}},
                                                           {{60}, {3, 4, 5}, {12, 5}, {2, 30}, {60}},
                                                           {{7, 8}, {56}, {7, 4, 2}, {7, 8}},
                                                           {{7, 8}, {28, 2}, {7, 4, 2}, {7, 8}}}) {
    view v = array(shapes[0]);
    for (std::size_t i = 1; i < shapes.size(); ++i) v = reshape(v, shapes[i]);
    index_arena a;
    index_id const id = build(a, v);
    EXPECT_TRUE(plain_sum(a, id));
    std::vector<index_id> same;
    for (std::uint32_t d = 0; d < a.variables(); ++d) same.push_back(a.variable(d));
    EXPECT_EQ(id, array(v.shape).at(a, same));
  }
}

TEST(Index, ReshapeOfTransposeOfReshape) {
  // Split heads: (b, t, h * d) -> (b, t, h, d) -> (b, h, t, d) -> (b * h, t, d): one division and one
  // remainder at most.
  index_arena a;
  index_id const heads =
      build(a, reshape(transpose(reshape(array({2, 5, 12}), {2, 5, 3, 4}), {0, 2, 1, 3}), {6, 5, 4}));
  for (term t : a.at(heads).terms) {
    auto const& x = a.atoms()[t.atom];
    if (x.kind != atom_kind::variable) { EXPECT_EQ(a.at(x.operand).terms.size(), 1u); }
  }
  index_arena b;  // and back: nothing is left of it
  view v = transpose(reshape(array({2, 5, 12}), {2, 5, 3, 4}), {0, 2, 1, 3});
  v = reshape(transpose(reshape(reshape(v, {6, 5, 4}), {2, 3, 5, 4}), {0, 2, 1, 3}), {2, 5, 12});
  index_id const round_trip = build(b, v);
  EXPECT_TRUE(plain_sum(b, round_trip));
  index_arena c;
  build(c, reshape(transpose(reshape(array({4, 6}), {6, 4}), {1, 0}), {3, 8}));
  index_arena d;
  view deep = array({24});
  for (int i = 0; i < 40; ++i)
    deep = reshape(
        transpose(reshape(deep, i % 2 ? std::vector<std::int64_t>{4, 6} : std::vector<std::int64_t>{3, 8}),
                  {1, 0}),
        {24});
  build(d, deep);
}

TEST(Index, NamedIdentities) {
  index_arena a;
  index_id const i = a.variable(a.add_variable(100)), j = a.variable(a.add_variable(4));
  index_id const x = a.add(a.mul(i, 4), j);
  EXPECT_EQ(a.divide(x, 4), i);
  EXPECT_EQ(a.modulo(x, 4), j);
  EXPECT_EQ(a.divide(a.divide(i, 3), 5), a.divide(i, 15));
  EXPECT_EQ(a.divide(a.modulo(i, 12), 3), a.modulo(a.divide(i, 3), 4));
  EXPECT_EQ(a.modulo(a.modulo(i, 12), 4), a.modulo(i, 4));
  EXPECT_EQ(a.add(a.mul(a.divide(i, 7), 7), a.modulo(i, 7)), i);
  EXPECT_EQ(a.add(a.mul(a.modulo(a.divide(i, 2), 4), 2), a.modulo(i, 2)), a.modulo(i, 8));
  EXPECT_EQ(a.divide(a.add(a.mul(i, -1), 99), 10), a.add(a.mul(a.divide(i, 10), -1), 9));
  EXPECT_EQ(a.variable(a.add_variable(1)), a.constant(0));
  EXPECT_EQ(a.stride(x, 0), 4);
  EXPECT_EQ(a.stride(a.divide(i, 3), 0), std::nullopt);
  EXPECT_EQ(a.stride(a.divide(i, 3), 1), 0);
  index_id const by[] = {a.add(a.mul(j, 8), 2), a.constant(1), a.constant(0)};
  EXPECT_EQ(a.substitute(a.divide(i, 8), by), j);
  EXPECT_EQ(a.substitute(a.modulo(i, 8), by), a.constant(2));
}

TEST(Index, DeepNestingIsCheap) {
  index_arena a;
  index_id x = a.variable(a.add_variable(1 << 20));
  for (int n = 0; n < 600; ++n) x = a.add(a.mul(a.modulo(x, 1021), 3), a.divide(x, 5));
  std::int64_t const at[] = {123456};
  std::int64_t v = at[0];
  for (int n = 0; n < 600; ++n) v = v % 1021 * 3 + v / 5;
  EXPECT_EQ(a.evaluate(x, at), v);
}

}  // namespace
}  // namespace reprise::jit
