// Hand-built kernels, compiled and compared bit for bit with the kernel interpreter. Buffers of the compiled
// run end at a page that may not be touched, and what is not a result must not change.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "jit/cpu/emit_plan.h"
#include "jit/cpu/executable.h"
#include "jit/cpu/orc.h"
#include "jit/interpret.h"
#include "reprise/error.h"

namespace reprise::test {

using jit::index_id;
using jit::instruction;
using jit::kernel;
using jit::kop;
using jit::no_value;
using jit::phase;
using jit::reduction;
using jit::reduction_kind;
using jit::value_id;

// A kernel being written, and what its buffers hold before it runs.
struct built {
  kernel k;
  std::vector<std::vector<unsigned char>> data;
  std::vector<std::uint64_t> scalars;
  bool approximate = false;  // sums may differ in their last bits

  explicit built(std::string name, std::vector<std::int64_t> grid = {}, std::int64_t inner = 1) {
    k.name = std::move(name);
    k.grid = std::move(grid);
    for (auto e : k.grid) k.index.add_variable(e);
    k.index.add_variable(inner);
  }
  index_id var(std::uint32_t v) { return k.index.variable(v); }
  index_id inner() { return k.index.variable(k.inner()); }
  // The row-major place of the whole nest.
  index_id flat() {
    index_id e = k.index.constant(0);
    for (std::uint32_t v = 0; v <= k.inner(); ++v)
      e = k.index.add(k.index.mul(e, k.index.extent(v)), k.index.variable(v));
    return e;
  }
  index_id flat_grid() {
    index_id e = k.index.constant(0);
    for (std::uint32_t v = 0; v < k.inner(); ++v)
      e = k.index.add(k.index.mul(e, k.index.extent(v)), k.index.variable(v));
    return e;
  }

  std::uint32_t buffer(dtype t, std::vector<unsigned char> bytes) {
    k.buffers.push_back({t, static_cast<std::int64_t>(bytes.size()) / size_of(t), false});
    data.push_back(std::move(bytes));
    return static_cast<std::uint32_t>(data.size() - 1);
  }
  std::uint32_t output(dtype t, std::int64_t n) {
    auto const b = buffer(t, std::vector<unsigned char>(static_cast<std::size_t>(n * size_of(t)),
                                                        t == dtype::boolean ? 1 : 0x5a));
    k.buffers[b].written = true;
    return b;
  }

  phase& begin(std::int64_t extent) {
    phase p;
    p.extent = extent;
    k.phases.push_back(p);
    return k.phases.back();
  }
  value_id put(instruction i) {
    k.phases.back().body.push_back(i);
    return static_cast<value_id>(k.phases.back().body.size() - 1);
  }
  value_id op(kop code, dtype t, value_id a, value_id b = no_value, value_id c = no_value,
              std::uint32_t slot = 0) {
    instruction i;
    i.code = code, i.type = t, i.a = a, i.b = b, i.c = c, i.slot = slot;
    return put(i);
  }
  value_id constant(dtype t, std::uint64_t bits) {
    instruction i;
    i.type = t, i.bits = bits;
    return put(i);
  }
  value_id load(std::uint32_t buffer, index_id at, value_id guard = no_value) {
    instruction i;
    i.code = kop::load, i.type = k.buffers[buffer].type, i.slot = buffer, i.index = at, i.guard = guard;
    return put(i);
  }
  void store(std::uint32_t buffer, index_id at, value_id what, value_id guard = no_value) {
    instruction i;
    i.code = kop::store, i.type = k.buffers[buffer].type, i.slot = buffer, i.index = at, i.a = what,
    i.guard = guard;
    put(i);
  }
  value_id index(index_id e) {
    instruction i;
    i.code = kop::index, i.type = dtype::i64, i.index = e;
    return put(i);
  }
  value_id row(std::uint32_t r) {
    instruction i;
    i.code = kop::row, i.type = k.rows[r], i.slot = r;
    return put(i);
  }
  std::uint32_t reduce(reduction_kind kind, jit::order order, value_id value, value_id factor = no_value) {
    reduction r;
    bool const arg = kind == reduction_kind::argmax || kind == reduction_kind::argmin;
    r.kind = kind, r.order = order, r.value = value, r.factor = factor;
    r.type = arg ? dtype::i64 : k.phases.back().body[value].type;
    r.row = static_cast<std::uint32_t>(k.rows.size());
    k.rows.push_back(r.type);
    k.phases.back().reductions.push_back(r);
    return r.row;
  }
};

// Memory whose end is the end of what may be touched.
class fenced {
 public:
  explicit fenced(std::vector<unsigned char> const& bytes) : size_(bytes.size()) {
    whole_ = (size_ + 2 * page - 1) / page * page + page;
    base_ = static_cast<unsigned char*>(
        mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + whole_ - page, page, PROT_NONE);
    std::memset(base_, 0xa5, whole_ - page);
    if (size_ != 0) std::memcpy(data(), bytes.data(), size_);
  }
  ~fenced() { munmap(base_, whole_); }
  fenced(fenced const&) = delete;
  fenced& operator=(fenced const&) = delete;
  unsigned char* data() const { return base_ + whole_ - page - size_; }
  bool untouched_before() const {
    for (unsigned char const* p = base_; p != data(); ++p)
      if (*p != 0xa5) return false;
    return true;
  }

 private:
  static constexpr std::size_t page = 4096;
  std::size_t size_, whole_;
  unsigned char* base_;
};

template <class T>
T element_at(unsigned char const* p, std::size_t i) {
  T v;
  std::memcpy(&v, p + i * sizeof(T), sizeof(T));
  return v;
}

inline double as_double(dtype t, unsigned char const* p, std::size_t i) {
  switch (t) {
    case dtype::boolean:
    case dtype::u8: return p[i];
    case dtype::i32: return element_at<std::int32_t>(p, i);
    case dtype::i64: return static_cast<double>(element_at<std::int64_t>(p, i));
    case dtype::f16: return static_cast<float>(element_at<float16>(p, i));
    case dtype::bf16: return static_cast<float>(element_at<bfloat16>(p, i));
    case dtype::f32: return element_at<float>(p, i);
    case dtype::f64: return element_at<double>(p, i);
  }
  return 0;
}

// Equal bits, or both nan.
inline bool same(dtype t, unsigned char const* a, unsigned char const* b, std::size_t i, bool approximate) {
  auto const size = static_cast<std::size_t>(size_of(t));
  if (std::memcmp(a + i * size, b + i * size, size) == 0) return true;
  if (!is_floating(t)) return false;
  double const x = as_double(t, a, i), y = as_double(t, b, i);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return approximate && std::abs(x - y) <= 1e-4 * std::max(1.0, std::abs(x));
}

// Some kernels, compiled on two threads and loaded.
struct loaded_kernels {
  cpu::compiled_kernels compiled;
  std::unique_ptr<cpu::loaded_code> code;
  std::vector<cpu::kernel_function> functions;

  loaded_kernels(std::vector<kernel> kernels, cpu::target const& host) {
    jit::plan p;
    p.kernels = std::move(kernels);
    std::vector<std::uint32_t> every(p.kernels.size());
    std::iota(every.begin(), every.end(), 0u);
    cpu::pool threads(2);
    jit::counters c;
    compiled = cpu::compile_kernels(p, every, host, threads, c);
    code = cpu::linker().load(compiled.objects);
    for (auto k : every)
      functions.push_back(reinterpret_cast<cpu::kernel_function>(code->address(cpu::symbol_of(p, k))));
  }
};

inline void expect_interpreted(std::vector<built> const& all, cpu::target const& host) {
  std::vector<kernel> kernels;
  for (built const& b : all) kernels.push_back(b.k);
  loaded_kernels const loaded(std::move(kernels), host);
  auto const& launches = loaded.compiled.launches;
  for (std::size_t n = 0; n < all.size(); ++n) {
    built const& b = all[n];
    auto const f = loaded.functions[n];
    auto expected = b.data;
    std::vector<void*> pointers;
    for (auto& d : expected) pointers.push_back(d.data());
    jit::interpret(b.k, pointers, b.scalars);
    std::vector<std::unique_ptr<fenced>> got;
    pointers.clear();
    for (auto const& d : b.data) {
      got.push_back(std::make_unique<fenced>(d));
      pointers.push_back(got.back()->data());
    }
    fenced const scratch(
        std::vector<unsigned char>(static_cast<std::size_t>(launches[n].scratch_bytes + 63) / 64 * 64, 0xff));
    // In two parts, the later one first: units do not know of each other.
    std::int64_t const units = launches[n].units, middle = units / 3;
    f(middle, units, pointers.data(), b.scalars.data(), scratch.data());
    f(0, middle, pointers.data(), b.scalars.data(), scratch.data());
    for (std::size_t i = 0; i < b.data.size(); ++i) {
      dtype const t = b.k.buffers[i].type;
      EXPECT_TRUE(got[i]->untouched_before())
          << b.k.name << " lanes " << host.lanes << ": wrote before buffer " << i;
      for (std::size_t e = 0; e < static_cast<std::size_t>(b.k.buffers[i].elements); ++e) {
        if (same(t, got[i]->data(), expected[i].data(), e, b.approximate)) continue;
        ADD_FAILURE() << b.k.name << " lanes " << host.lanes << ": buffer " << i << " element " << e << " of "
                      << b.k.buffers[i].elements << " is " << as_double(t, got[i]->data(), e) << ", not "
                      << as_double(t, expected[i].data(), e);
        break;
      }
    }
  }
}

inline std::vector<int> const& widths() {
  static std::vector<int> const w = [] {
    std::vector<int> all{cpu::detect().lanes};
    for (int l : {8, 4})
      if (l < all[0]) all.push_back(l);
    return all;
  }();
  return w;
}

// For this processor's vectors; every third kernel, each time others, for narrower ones.
inline void expect_interpreted(std::vector<built> const& all) {
  for (int lanes : widths()) {
    if (lanes == widths()[0]) {
      expect_interpreted(all, cpu::detect(lanes));
      continue;
    }
    std::vector<built> some;
    for (std::size_t n = lanes == 8 ? 0 : 1; n < all.size(); n += 3) some.push_back(all[n]);
    expect_interpreted(some, cpu::detect(lanes));
  }
}

// Values full of trouble, then random ones of every size.
template <class T>
std::vector<T> specials() {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    return {T(0),
            -T(0),
            T(1),
            T(-1),
            T(0.5),
            T(-0.5),
            T(1.5),
            T(2.5),
            T(-3.5),
            L::infinity(),
            -L::infinity(),
            L::quiet_NaN(),
            L::denorm_min(),
            -L::denorm_min(),
            L::min(),
            L::max(),
            L::lowest(),
            T(255.5),
            T(2147483648.0),
            T(-2147483648.0),
            T(9.3e18),
            T(-9.3e18),
            T(1e-5)};
  } else {
    return {T(0),
            T(1),
            T(2),
            T(3),
            T(7),
            static_cast<T>(-1),
            static_cast<T>(-2),
            static_cast<T>(-7),
            L::min(),
            L::max(),
            static_cast<T>(L::min() + 1),
            static_cast<T>(L::max() - 1),
            T(100)};
  }
}

template <class T>
std::vector<unsigned char> bytes_of(std::vector<T> const& v) {
  std::vector<unsigned char> b(v.size() * sizeof(T));
  if (!b.empty()) std::memcpy(b.data(), v.data(), b.size());
  return b;
}

// n values of a dtype; `which` changes the order of the specials, so that two buffers meet in all pairs.
inline std::vector<unsigned char> values(dtype t, std::int64_t n, unsigned which, bool calm = false) {
  std::mt19937_64 random(which * 977 + static_cast<unsigned>(t));
  auto fill = [&]<class T>(T, auto convert) {
    auto const s = specials<T>();
    using R = decltype(convert(T()));
    std::vector<R> v;
    for (std::int64_t i = 0; i < n; ++i) {
      auto const u = static_cast<std::size_t>(i);
      T x;
      if (!calm && u < s.size() * s.size()) x = which % 2 == 0 ? s[u / s.size()] : s[u % s.size()];
      else if constexpr (std::is_floating_point_v<T>)
        x = static_cast<T>(
            std::ldexp(static_cast<double>(static_cast<std::int64_t>(random() % 2000001) - 1000000), -18));
      else x = static_cast<T>(random() >> (random() % 64));
      v.push_back(convert(x));
    }
    return bytes_of(v);
  };
  auto same_type = [](auto x) { return x; };
  switch (t) {
    case dtype::boolean: {
      std::vector<std::uint8_t> v;
      for (std::int64_t i = 0; i < n; ++i) v.push_back(static_cast<std::uint8_t>(random() & 1));
      return bytes_of(v);
    }
    case dtype::u8: return fill(std::uint8_t{}, same_type);
    case dtype::i32: return fill(std::int32_t{}, same_type);
    case dtype::i64: return fill(std::int64_t{}, same_type);
    case dtype::f16: return fill(float{}, [](float x) { return float16(x); });
    case dtype::bf16: return fill(float{}, [](float x) { return bfloat16(x); });
    case dtype::f32: return fill(float{}, same_type);
    case dtype::f64: return fill(double{}, same_type);
  }
  return {};
}

}  // namespace reprise::test
