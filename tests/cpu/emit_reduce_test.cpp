// Reductions: every kind, order and dtype, along the inner loop and along the grid, at the extents where the
// code changes.
#include "cpu/kernels.h"

namespace reprise::test {
namespace {

using jit::order;

char const* const kinds[] = {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};
char const* const orders[] = {"lanes", "runs", "tree", "contract"};

std::vector<std::int64_t> const extents{1,   2,   3,   7,   8,   9,    15,   16,   17,   31,   33,
                                        100, 127, 128, 129, 200, 4095, 4096, 4097, 8192, 10000};

// A value of each row, and then each element minus it, so that rows are read by a later phase.
built row_reduction(reduction_kind kind, order how, dtype t, std::int64_t n, bool along_grid, int extra,
                    std::int64_t rows) {
  std::string const name = std::string(kinds[static_cast<int>(kind)]) + "_" + orders[static_cast<int>(how)] +
                           "_" + name_of(t) + "_" + std::to_string(n) + (along_grid ? "_grid" : "") + "_" +
                           std::to_string(extra);
  built b(name, {rows},
          std::max<std::int64_t>(n, 2));  // the later phase's loop is longer than this one's may be
  if (along_grid) b.k.lanes = jit::lanes_along::grid;
  bool const tame = (kind == reduction_kind::sum || kind == reduction_kind::prod) && is_floating(t);
  auto const in = b.buffer(t, values(t, rows * n, 3, tame || n > 600)),
             out = b.output(b.k.phases.empty() ? t : t, rows);
  b.begin(n);
  // Along the grid, neighbours in memory are rows of their own.
  auto const place = along_grid ? b.k.index.add(b.k.index.mul(b.inner(), rows), b.var(0))
                                : b.k.index.add(b.k.index.mul(b.var(0), n), b.inner());
  auto x = b.load(in, place);
  auto const raw = x;
  for (int e = 0; e < extra; ++e) x = b.op(e % 2 == 0 ? kop::add : kop::sub, t, x, raw);
  auto const r = b.reduce(kind, how, x, how == order::contract ? raw : no_value);
  dtype const result = b.k.rows[r];
  b.k.buffers[out] = {result, rows, true};
  b.data[out].assign(static_cast<std::size_t>(rows * size_of(result)), 0);
  b.begin(1);
  b.store(out, b.var(0), b.row(r));
  b.approximate = how == order::contract && !along_grid;
  return b;
}

TEST(emit_reduce, floating_sums_in_their_order) {
  std::vector<built> all;
  for (bool grid : {false, true})
    for (order how : {order::lanes, order::runs, order::tree})
      for (auto n : extents)
        for (int extra : {0, 20}) {
          if (extra != 0 && n > 5000) continue;
          all.push_back(
              row_reduction(reduction_kind::sum, how, dtype::f32, n, grid, extra, n > 1000 ? 5 : 37));
          if (n < 5000 && extra == 0)
            all.push_back(row_reduction(reduction_kind::sum, how, dtype::f64, n, grid, extra, 5));
          if (n < 200 && extra == 0)
            all.push_back(row_reduction(reduction_kind::prod, how, dtype::f32, n, grid, extra, 3));
        }
  expect_interpreted(all);
}

TEST(emit_reduce, kinds_whose_order_does_not_matter) {
  std::vector<built> all;
  for (bool grid : {false, true})
    for (order how : {order::lanes, order::runs})
      for (std::int64_t n : {1, 2, 9, 16, 17, 100, 128, 129, 600, 4097})
        for (int extra : {0, 20}) {
          if (extra != 0 && n != 100 && n != 600) continue;
          for (dtype t : {dtype::u8, dtype::i32, dtype::i64, dtype::f32, dtype::f64})
            for (auto kind :
                 {reduction_kind::max, reduction_kind::min, reduction_kind::argmax, reduction_kind::argmin})
              all.push_back(row_reduction(kind, how, t, n, grid, extra, 19));
          for (auto kind : {reduction_kind::sum, reduction_kind::prod})
            all.push_back(row_reduction(kind, how, dtype::i64, n, grid, extra, 19));
          if (extra == 0)
            for (auto kind :
                 {reduction_kind::any, reduction_kind::all, reduction_kind::argmax, reduction_kind::argmin})
              all.push_back(row_reduction(kind, how, dtype::boolean, n, grid, 0, 19));
        }
  expect_interpreted(all);
}

// One nan, ties, all equal: where the first one is.
TEST(emit_reduce, the_first_extreme_and_the_first_nan) {
  std::vector<built> all;
  float const nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  int number = 0;
  for (bool grid : {false, true})
    for (std::int64_t n : {3, 16, 20, 140, 300})
      for (auto kind :
           {reduction_kind::argmax, reduction_kind::argmin, reduction_kind::max, reduction_kind::min}) {
        std::int64_t const rows = 8;
        auto b = row_reduction(kind, order::lanes, dtype::f32, n, grid, 0, rows);
        b.k.name += "_" + std::to_string(number++);
        std::vector<float> v(static_cast<std::size_t>(rows * n));
        auto at = [&](std::int64_t row, std::int64_t i) -> float& {
          return v[static_cast<std::size_t>(grid ? i * rows + row : row * n + i)];
        };
        for (std::int64_t i = 0; i < n; ++i) {
          at(0, i) = inf;
          at(1, i) = -inf;
          at(2, i) = nan;
          at(3, i) = i == n / 2 || i == n - 1 ? nan : static_cast<float>(i);
          at(4, i) = i % 2 == 0 ? 0.f : -0.f;
          at(5, i) = static_cast<float>(i / 2 % 5);
          at(6, i) = i == n - 1 ? -inf : inf;
          at(7, i) = i == 0 ? nan : -inf;
        }
        b.data[0] = bytes_of(v);
        all.push_back(std::move(b));
      }
  expect_interpreted(all);
}

TEST(emit_reduce, sums_and_products_of_nothing) {
  std::vector<built> all;
  for (bool grid : {false, true})
    for (dtype t : {dtype::f32, dtype::i64})
      for (auto kind : {reduction_kind::sum, reduction_kind::prod})
        all.push_back(row_reduction(kind, order::lanes, t, 0, grid, 0, 5));
  for (bool grid : {false, true})
    for (auto kind : {reduction_kind::any, reduction_kind::all})
      all.push_back(row_reduction(kind, order::lanes, dtype::boolean, 0, grid, 0, 5));
  expect_interpreted(all);
}

TEST(emit_reduce, two_reductions_share_a_loop_and_a_later_phase_reads_both) {
  std::vector<built> all;
  for (bool grid : {false, true})
    for (order how : {order::lanes, order::runs})
      for (std::int64_t n : {5, 64, 300, 5000}) {
        std::int64_t const rows = 11;
        built b(std::string("norm_") + std::to_string(n) + (grid ? "_grid" : ""), {rows}, n);
        if (grid) b.k.lanes = jit::lanes_along::grid;
        auto const place = grid ? b.k.index.add(b.k.index.mul(b.inner(), rows), b.var(0)) : b.flat();
        auto const in = b.buffer(dtype::f32, values(dtype::f32, rows * n, 3, true)),
                   out = b.output(dtype::f32, rows * n);
        b.k.locals.push_back({dtype::f32, n});
        b.begin(n);
        auto const x = b.load(in, place);
        instruction keep;
        keep.code = kop::store_local, keep.type = dtype::f32, keep.a = b.op(kop::mul, dtype::f32, x, x),
        keep.index = b.inner();
        b.put(keep);
        auto const sum = b.reduce(reduction_kind::sum, how, x), most = b.reduce(reduction_kind::max, how, x);
        auto const first = b.reduce(reduction_kind::argmax, how, x);
        b.begin(n);
        instruction again;
        again.code = kop::load_local, again.type = dtype::f32, again.index = b.inner();
        auto const y =
            b.op(kop::sub, dtype::f32, b.put(again), b.op(kop::add, dtype::f32, b.row(sum), b.row(most)));
        b.store(out, place, b.op(kop::add, dtype::f32, y, b.op(kop::convert, dtype::f32, b.row(first))));
        all.push_back(std::move(b));
      }
  expect_interpreted(all);
}

TEST(emit_reduce, contractions_in_tiles) {
  std::vector<built> all;
  for (dtype t : {dtype::f32, dtype::f64, dtype::i32, dtype::i64})
    for (std::int64_t m : {1, 4, 7})
      for (std::int64_t n : {1, 5, 16, 40, 100})
        for (std::int64_t tile : {1, 3, 4}) {
          std::int64_t const depth = 13;
          built b(std::string("matmul_") + name_of(t) + "_" + std::to_string(m) + "_" + std::to_string(n) +
                      "_" + std::to_string(tile),
                  {m, n}, depth);
          b.k.lanes = jit::lanes_along::grid;
          b.k.tile = std::min(tile, m);
          b.k.tile_loop = 0;
          auto& x = b.k.index;
          auto const a = b.buffer(t, values(t, m * depth, 3, true)),
                     c = b.buffer(t, values(t, depth * n, 5, true)), out = b.output(t, m * n);
          b.begin(depth);
          auto const p = b.load(a, x.add(x.mul(b.var(0), depth), b.inner())),
                     q = b.load(c, x.add(x.mul(b.inner(), n), b.var(1)));
          auto const r = b.reduce(reduction_kind::sum, order::contract, p, q);
          b.begin(1);
          b.store(out, b.flat_grid(), b.row(r));
          all.push_back(std::move(b));
        }
  for (dtype t : {dtype::f32, dtype::i32})
    for (std::int64_t n : {1, 16, 100, 500})
      all.push_back(row_reduction(reduction_kind::sum, order::contract, t, n, false, 0, 7));
  expect_interpreted(all);
}

// A convolution as a kernel: padding by guards, three places in one loop, tiles of output channels.
TEST(emit_reduce, a_convolution) {
  std::vector<built> all;
  for (std::int64_t width : {5, 16, 33})
    for (std::int64_t tile : {1, 4}) {
      std::int64_t const channels = 3, height = 6, outputs = 6, kh = 3, kw = 3, depth = channels * kh * kw;
      built b("conv_" + std::to_string(width) + "_" + std::to_string(tile), {outputs, height, width}, depth);
      b.k.lanes = jit::lanes_along::grid;
      b.k.tile = tile;
      b.k.tile_loop = 0;
      auto& x = b.k.index;
      auto const in = b.buffer(dtype::f32, values(dtype::f32, channels * height * width, 3, true)),
                 weights = b.buffer(dtype::f32, values(dtype::f32, outputs * depth, 4, true)),
                 out = b.output(dtype::f32, outputs * height * width);
      auto const c = x.divide(b.inner(), kh * kw), dy = x.divide(x.modulo(b.inner(), kh * kw), kw),
                 dx = x.modulo(b.inner(), kw);
      auto const row = x.add(x.add(b.var(1), dy), -1), column = x.add(x.add(b.var(2), dx), -1);
      b.begin(depth);
      auto inside = [&](index_id e, std::int64_t n) {
        auto const i = b.index(e);
        return b.op(kop::band, dtype::boolean, b.op(kop::le, dtype::boolean, b.constant(dtype::i64, 0), i),
                    b.op(kop::lt, dtype::boolean, i, b.constant(dtype::i64, static_cast<std::uint64_t>(n))));
      };
      auto const legal = b.op(kop::band, dtype::boolean, inside(row, height), inside(column, width));
      auto const pixel = b.load(in, x.add(x.mul(x.add(x.mul(c, height), row), width), column), legal);
      auto const weight = b.load(weights, x.add(x.mul(b.var(0), depth), b.inner()));
      auto const r = b.reduce(reduction_kind::sum, order::contract, pixel, weight);
      b.begin(1);
      b.store(out, b.flat_grid(), b.row(r));
      all.push_back(std::move(b));
    }
  expect_interpreted(all);
}

}  // namespace
}  // namespace reprise::test
