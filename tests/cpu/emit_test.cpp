// Every instruction over every dtype and vector length, loads and stores of every pattern, every order of
// reduction at the extents where its code changes: the same bits as the interpreter.
#include "cpu/kernels.h"

namespace reprise::test {
namespace {

constexpr std::int64_t pairs = 23 * 23 + 8;  // all pairs of specials, a whole number of nothing

std::string name(kop code, dtype t) {
  return "op" + std::to_string(static_cast<int>(code)) + "_" + name_of(t);
}

built elementwise(kop code, dtype from, dtype to, int operands, std::uint32_t slot = 0) {
  built b(name(code, from), {}, pairs);
  std::vector<std::uint32_t> in;
  for (int n = 0; n < operands; ++n)
    in.push_back(b.buffer(from, values(from, pairs, static_cast<unsigned>(n))));
  auto const out = b.output(to, pairs);
  b.begin(pairs);
  value_id v[3] = {no_value, no_value, no_value};
  for (int n = 0; n < operands; ++n) v[n] = b.load(in[static_cast<std::size_t>(n)], b.inner());
  if (code == kop::shl || code == kop::lshr || code == kop::ashr)
    v[1] = b.op(kop::band, from, v[1], b.constant(from, static_cast<std::uint64_t>(size_of(from) * 8 - 1)));
  b.store(out, b.inner(), b.op(code, to, v[0], v[1], v[2], slot));
  return b;
}

TEST(emit, every_instruction_on_every_dtype) {
  std::vector<built> all;
  for (dtype t : {dtype::u8, dtype::i32, dtype::i64, dtype::f32, dtype::f64}) {
    for (kop code : {kop::add, kop::sub, kop::mul, kop::div, kop::rem, kop::minimum, kop::maximum})
      all.push_back(elementwise(code, t, t, 2));
    for (kop code : {kop::neg, kop::abs}) all.push_back(elementwise(code, t, t, 1));
    if (is_floating(t)) {
      for (kop code : {kop::sqrt, kop::floor, kop::ceil, kop::trunc, kop::rint})
        all.push_back(elementwise(code, t, t, 1));
      all.push_back(elementwise(kop::fma, t, t, 3));
    } else {
      for (kop code : {kop::band, kop::bor, kop::bxor, kop::shl, kop::lshr})
        all.push_back(elementwise(code, t, t, 2));
      if (t != dtype::u8) all.push_back(elementwise(kop::ashr, t, t, 2));
      all.push_back(elementwise(kop::bnot, t, t, 1));
    }
  }
  for (kop code : {kop::band, kop::bor, kop::bxor})
    all.push_back(elementwise(code, dtype::boolean, dtype::boolean, 2));
  all.push_back(elementwise(kop::bnot, dtype::boolean, dtype::boolean, 1));
  for (dtype t : {dtype::boolean, dtype::u8, dtype::i32, dtype::i64, dtype::f32, dtype::f64})
    for (kop code : {kop::lt, kop::le, kop::eq, kop::ne})
      all.push_back(elementwise(code, t, dtype::boolean, 2));
  all.push_back(elementwise(kop::bitcast, dtype::f32, dtype::i32, 1));
  all.push_back(elementwise(kop::bitcast, dtype::i32, dtype::f32, 1));
  all.push_back(elementwise(kop::bitcast, dtype::f64, dtype::i64, 1));
  all.push_back(elementwise(kop::bitcast, dtype::i64, dtype::f64, 1));
  expect_interpreted(all);
}

TEST(emit, every_conversion) {
  std::vector<built> all;
  for (int a = 0; a < dtype_count; ++a)
    for (int b = 0; b < dtype_count; ++b) {
      auto const from = static_cast<dtype>(a), to = static_cast<dtype>(b);
      bool const half = is_half(from) || is_half(to);
      if (half && from != to && from != dtype::f32 && to != dtype::f32) continue;
      auto e = elementwise(kop::convert, from, to, 1);
      e.k.name += std::string("_to_") + name_of(to);
      all.push_back(std::move(e));
    }
  expect_interpreted(all);
}

TEST(emit, every_half_and_back) {
  std::vector<built> all;
  for (dtype t : {dtype::f16, dtype::bf16}) {
    std::vector<std::uint16_t> every(65536);
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::uint16_t>(i);
    built up(std::string("up_") + name_of(t), {}, 65536);
    auto const in = up.buffer(t, bytes_of(every)), out = up.output(dtype::f32, 65536);
    up.begin(65536);
    up.store(out, up.inner(), up.op(kop::convert, dtype::f32, up.load(in, up.inner())));
    all.push_back(std::move(up));
    // Each half, the middle to the next one, and one bit to either side of both.
    std::vector<std::uint32_t> floats;
    for (std::uint32_t i = 0; i < 65536; ++i) {
      float const f = t == dtype::f16
                          ? static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(i)))
                          : static_cast<float>(bfloat16::from_bits(static_cast<std::uint16_t>(i)));
      std::uint32_t const bits = std::bit_cast<std::uint32_t>(f), middle = t == dtype::f16 ? 0x1000 : 0x8000;
      for (std::uint32_t near : {bits, bits + middle, bits + middle - 1, bits + middle + 1, bits + 1})
        floats.push_back(near);
    }
    auto const n = static_cast<std::int64_t>(floats.size());
    built down(std::string("down_") + name_of(t), {}, n);
    auto const from = down.buffer(dtype::f32, bytes_of(floats)), to = down.output(t, n);
    down.begin(n);
    down.store(to, down.inner(), down.op(kop::convert, t, down.load(from, down.inner())));
    all.push_back(std::move(down));
  }
  expect_interpreted(all);
}

TEST(emit, select_of_every_dtype) {
  std::vector<built> all;
  for (int n = 0; n < dtype_count; ++n) {
    auto const t = static_cast<dtype>(n);
    built b(std::string("select_") + name_of(t), {}, pairs);
    auto const c = b.buffer(dtype::boolean, values(dtype::boolean, pairs, 9));
    auto const x = b.buffer(t, values(t, pairs, 0)), y = b.buffer(t, values(t, pairs, 1)),
               out = b.output(t, pairs);
    b.begin(pairs);
    b.store(out, b.inner(),
            b.op(kop::select, t, b.load(c, b.inner()), b.load(x, b.inner()), b.load(y, b.inner())));
    all.push_back(std::move(b));
  }
  expect_interpreted(all);
}

TEST(emit, host_functions) {
  std::vector<built> all;
  for (std::uint32_t f = 0; f <= static_cast<std::uint32_t>(jit::libm::pow); ++f) {
    auto e = elementwise(kop::call, dtype::f64, dtype::f64,
                         f == static_cast<std::uint32_t>(jit::libm::pow) ? 2 : 1, f);
    e.k.name += "_" + std::to_string(f);
    all.push_back(std::move(e));
  }
  expect_interpreted(all);
}

TEST(emit, division_by_constants) {
  std::vector<built> all;
  for (dtype t : {dtype::u8, dtype::i32, dtype::i64})
    for (std::int64_t c : {0, 1, -1, 2, 3, 7, 255, -128})
      for (kop code : {kop::div, kop::rem}) {
        built b(name(code, t) + "_const", {}, pairs);
        auto const x = b.buffer(t, values(t, pairs, 0)), out = b.output(t, pairs);
        b.begin(pairs);
        std::uint64_t const mask =
            size_of(t) == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << size_of(t) * 8) - 1;
        b.store(out, b.inner(),
                b.op(code, t, b.load(x, b.inner()), b.constant(t, static_cast<std::uint64_t>(c) & mask)));
        all.push_back(std::move(b));
      }
  expect_interpreted(all);
}

TEST(emit, a_boolean_byte_that_is_neither_0_nor_1_counts_as_1) {
  built b("bytes", {}, 256);
  std::vector<unsigned char> every(256);
  for (std::size_t i = 0; i < 256; ++i) every[i] = static_cast<unsigned char>(i);
  auto const in = b.buffer(dtype::boolean, every), out = b.output(dtype::boolean, 256);
  b.begin(256);
  b.store(out, b.inner(), b.load(in, b.inner()));
  for (int lanes : widths()) {
    loaded_kernels const loaded({b.k}, cpu::detect(lanes));
    std::vector<unsigned char> result(256, 9);
    void* table[] = {every.data(), result.data()};
    loaded.functions[0](0, loaded.compiled.launches[0].units, table, nullptr, nullptr);
    for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(result[i], i != 0) << i;
  }
}

TEST(emit, extents_around_vectors_chunks_and_nothing) {
  std::vector<built> all;
  for (std::int64_t n : {0,   1,   2,   3,   5,   15,   16,   17,   31,   33,   63,   64,   65,
                         127, 128, 129, 191, 255, 1000, 2047, 2048, 2049, 4096, 4100, 10007})
    for (std::int64_t rows : {0, 1, 3}) {
      if (n > 300 && rows == 3) continue;
      built b("n" + std::to_string(n) + "_" + std::to_string(rows),
              rows == 0 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{rows}, n);
      std::int64_t const total = n * std::max<std::int64_t>(rows, 1);
      auto const x = b.buffer(dtype::f32, values(dtype::f32, total, 0)),
                 y = b.buffer(dtype::f32, values(dtype::f32, total, 1)), out = b.output(dtype::f32, total);
      b.begin(n);
      b.store(out, b.flat(),
              b.op(kop::add, dtype::f32, b.op(kop::mul, dtype::f32, b.load(x, b.flat()), b.load(y, b.flat())),
                   b.load(x, b.flat())));
      all.push_back(std::move(b));
    }
  expect_interpreted(all);
}

TEST(emit, mixed_dtypes_and_scalars) {
  std::vector<built> all;
  for (std::int64_t n : {1, 7, 100, 3000}) {
    built b("mixed" + std::to_string(n), {2}, n);
    auto const u = b.buffer(dtype::u8, values(dtype::u8, 2 * n, 0)),
               h = b.buffer(dtype::f16, values(dtype::f16, 2 * n, 1)),
               i = b.buffer(dtype::i32, values(dtype::i32, 2 * n, 0)), out = b.output(dtype::f64, 2 * n),
               out8 = b.output(dtype::u8, 2 * n), flags = b.output(dtype::boolean, 2 * n),
               halves = b.output(dtype::bf16, 2 * n);
    b.k.scalars = {dtype::f32, dtype::boolean, dtype::i64, dtype::f16};
    b.scalars = {std::bit_cast<std::uint32_t>(2.5f), 1, static_cast<std::uint64_t>(-3), float16(1.5f).bits};
    b.begin(n);
    auto scalar = [&](std::uint32_t s) {
      instruction x;
      x.code = kop::scalar, x.slot = s, x.type = b.k.scalars[s];
      return b.put(x);
    };
    auto const f = b.op(kop::convert, dtype::f32, b.load(u, b.flat())),
               g = b.op(kop::convert, dtype::f32, b.load(h, b.flat()));
    auto const product = b.op(kop::mul, dtype::f32, b.op(kop::mul, dtype::f32, f, g), scalar(0));
    auto const whole =
        b.op(kop::add, dtype::i64, b.op(kop::convert, dtype::i64, b.load(i, b.flat())), scalar(2));
    auto const sum = b.op(kop::add, dtype::f64, b.op(kop::convert, dtype::f64, product),
                          b.op(kop::convert, dtype::f64, whole));
    b.store(out, b.flat(), sum);
    b.store(out8, b.flat(), b.op(kop::convert, dtype::u8, sum));
    b.store(flags, b.flat(), b.op(kop::band, dtype::boolean, scalar(1), b.op(kop::lt, dtype::boolean, f, g)));
    b.store(halves, b.flat(), b.op(kop::convert, dtype::bf16, b.op(kop::convert, dtype::f32, scalar(3))));
    all.push_back(std::move(b));
  }
  expect_interpreted(all);
}

// out[row, i] = in[start + row * per_row + i * stride]
TEST(emit, loads_and_stores_of_every_stride_and_dtype) {
  std::vector<built> all;
  for (int d = 0; d < dtype_count; ++d)
    for (std::int64_t stride : {0, 1, -1, 2, 3, 4, 5, -2, 17})
      for (std::int64_t n : {5, 37, 70})
        for (bool storing : {false, true}) {
          if (storing && stride == 0) continue;
          auto const t = static_cast<dtype>(d);
          std::int64_t const reach = std::abs(stride) * (n - 1) + 1, rows = 2;
          built b(std::string(storing ? "store_" : "load_") + name_of(t) + "_" + (stride < 0 ? "m" : "") +
                      std::to_string(std::abs(stride)) + "_" + std::to_string(n),
                  {rows}, n);
          auto strided = b.k.index.add(b.k.index.mul(b.var(0), reach), b.k.index.mul(b.inner(), stride));
          if (stride < 0) strided = b.k.index.add(strided, reach - 1);
          auto const in = b.buffer(t, values(t, storing ? rows * n : rows * reach, 1));
          auto const out = b.output(t, storing ? rows * reach : rows * n);
          b.begin(n);
          b.store(out, storing ? strided : b.flat(), b.load(in, storing ? b.flat() : strided));
          all.push_back(std::move(b));
        }
  expect_interpreted(all);
}

TEST(emit, guards) {
  std::vector<built> all;
  for (int d = 0; d < dtype_count; ++d)
    for (std::int64_t stride : {0, 1, -1, 2, 3})
      for (bool along_grid : {false, true}) {
        auto const t = static_cast<dtype>(d);
        std::int64_t const n = 45, rows = 3;
        built b(std::string("guard_") + name_of(t) + "_" + std::to_string(stride + 1) +
                    (along_grid ? "_grid" : ""),
                along_grid ? std::vector<std::int64_t>{rows, n} : std::vector<std::int64_t>{rows},
                along_grid ? 1 : n);
        if (along_grid) b.k.lanes = jit::lanes_along::grid;
        auto const lane = along_grid ? b.var(1) : b.inner();
        auto const place = along_grid ? b.flat_grid() : b.flat();
        // Elements of which the guard forbids those outside the buffer: pad by 7 on the left, 5 on the right.
        std::int64_t const inside = stride == 0 ? 1 : std::abs(stride) * (n - 13) + 1;
        auto at = b.k.index.add(b.k.index.mul(lane, stride), stride < 0 ? -stride * (n - 6) : -7 * stride);
        if (stride < 0) at = b.k.index.add(at, 0);
        auto const in = b.buffer(t, values(t, inside, 1)), out = b.output(t, rows * n),
                   kept = b.output(t, rows * n);
        b.begin(along_grid ? 1 : n);
        auto const i = b.index(at);
        auto const legal = b.op(
            kop::band, dtype::boolean, b.op(kop::le, dtype::boolean, b.constant(dtype::i64, 0), i),
            b.op(kop::lt, dtype::boolean, i, b.constant(dtype::i64, static_cast<std::uint64_t>(inside))));
        auto const x = b.load(in, at, legal);
        b.store(out, place, x);
        b.store(kept, place, x, legal);
        // A guard that is the same for all lanes.
        auto const row = b.op(kop::eq, dtype::boolean, b.index(b.var(0)), b.constant(dtype::i64, 1));
        b.store(kept, place, b.load(in, b.k.index.add(b.k.index.mul(b.var(0), inside * 2), -2 * inside), row),
                row);
        all.push_back(std::move(b));
      }
  expect_interpreted(all);
}

TEST(emit, quotients_and_remainders_in_places) {
  std::vector<built> all;
  int number = 0;
  for (std::int64_t n : {24, 96, 200})
    for (std::int64_t d : {2, 3, 8, 16, 32, 50})
      for (std::int64_t s : {1, 3})
        for (bool along_grid : {false, true}) {
          built b("places" + std::to_string(number++),
                  along_grid ? std::vector<std::int64_t>{3, n} : std::vector<std::int64_t>{3},
                  along_grid ? 2 : n);
          if (along_grid) b.k.lanes = jit::lanes_along::grid;
          auto& x = b.k.index;
          auto const lane = along_grid ? b.var(1) : b.inner();
          auto const shifted = x.add(x.mul(lane, s), b.var(0));
          auto const q = x.divide(shifted, d), r = x.modulo(x.add(shifted, -5), d);
          auto const first = x.add(x.mul(r, 7), q);
          auto const second = x.add(x.mul(x.modulo(lane, d), 1), x.mul(x.divide(lane, d), d + 1));
          auto const in = b.buffer(dtype::f32, values(dtype::f32, 7 * d + n * s + 8, 3)),
                     in2 = b.buffer(dtype::u8, values(dtype::u8, n + n / d + 4 + d, 3));
          auto const out = b.output(dtype::f32, 3 * n * 2), out2 = b.output(dtype::u8, 3 * n * 2),
                     numbers = b.output(dtype::i64, 3 * n * 2);
          b.begin(along_grid ? 2 : n);
          b.store(out, b.flat(), b.load(in, first));
          b.store(out2, b.flat(), b.load(in2, second));
          b.store(numbers, b.flat(), b.index(x.add(first, -3)));
          all.push_back(std::move(b));
        }
  expect_interpreted(all);
}

// out[r, i] = in[i, r] + r: rows are done in blocks, whose ends are ragged.
TEST(emit, transposes) {
  std::vector<built> all;
  for (dtype t : {dtype::f32, dtype::f64, dtype::u8})
    for (std::int64_t rows : {2, 16, 33})
      for (std::int64_t columns : {3, 16, 33, 300}) {
        built b(std::string("transpose_") + name_of(t) + "_" + std::to_string(rows) + "_" +
                    std::to_string(columns),
                {2, rows}, columns);
        auto& x = b.k.index;
        auto const across = x.add(x.mul(x.add(x.mul(b.var(0), columns), b.inner()), rows), b.var(1));
        auto const in = b.buffer(t, values(t, 2 * rows * columns, 1)), out = b.output(t, 2 * rows * columns),
                   back = b.output(t, 2 * rows * columns);
        b.begin(columns);
        auto const v = b.load(in, across);
        b.store(out, b.flat(), b.op(kop::add, t, v, b.op(kop::convert, t, b.index(b.var(1)))));
        b.store(back, across, v);
        all.push_back(std::move(b));
      }
  expect_interpreted(all);
}

// Bytes alone have longer vectors.
TEST(emit, transposes_of_bytes) {
  std::vector<built> all;
  for (dtype t : {dtype::boolean, dtype::u8, dtype::bf16})
    for (std::int64_t columns : {31, 32, 33, 64, 65, 200}) {
      built b(std::string("bytes_") + name_of(t) + "_" + std::to_string(columns), {31}, columns);
      auto const across = b.k.index.add(b.k.index.mul(b.inner(), 31), b.var(0));
      auto const in = b.buffer(t, values(t, 31 * columns, 1)), out = b.output(t, 31 * columns);
      b.begin(columns);
      b.store(out, b.flat(), b.load(in, across));
      all.push_back(std::move(b));
    }
  expect_interpreted(all);
}

// Large results go past the caches, when they are aligned and nothing of them is read.
TEST(emit, large_results) {
  std::vector<built> all;
  for (std::int64_t n : {std::int64_t{3} << 20, (std::int64_t{3} << 20) + 1}) {
    built b("large_" + std::to_string(n), {}, n);
    auto const x = b.buffer(dtype::f32, values(dtype::f32, n, 1)),
               kept = b.buffer(dtype::f32, values(dtype::f32, n, 0)), out = b.output(dtype::f32, n),
               flags = b.output(dtype::boolean, n);
    b.k.buffers[kept].written = true;
    b.begin(n);
    auto const v = b.load(x, b.inner()), w = b.op(kop::sub, dtype::f32, v, b.load(kept, b.inner()));
    b.store(out, b.inner(), w);
    b.store(kept, b.inner(), b.op(kop::neg, dtype::f32, w));
    b.store(flags, b.inner(), b.op(kop::lt, dtype::boolean, v, w));
    all.push_back(std::move(b));
  }
  expect_interpreted(all, cpu::detect());
}

}  // namespace
}  // namespace reprise::test
