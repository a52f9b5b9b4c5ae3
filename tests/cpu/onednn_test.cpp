// Matrix products and convolutions by oneDNN against plain loops in double, within the bound of
// docs/numbers.md.
#include "jit/cpu/onednn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "jit/cpu/parallel.h"
#include "reprise/error.h"

namespace reprise::cpu {
namespace {

using i64 = std::int64_t;
using testing::HasSubstr;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

class variable {  // of the environment, for a scope
 public:
  variable(char const* name, char const* value) : name_(name) {
    if (char const* old = std::getenv(name)) old_ = old, had_ = true;
    setenv(name, value, 1);
  }
  ~variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  char const* name_;
  std::string old_;
  bool had_ = false;
};

// 64-byte aligned, with a guard behind that must stay as it was.
class scratch_memory {
 public:
  explicit scratch_memory(std::size_t bytes) : bytes_(bytes) {
    data_ = static_cast<unsigned char*>(::operator new(bytes + 64, std::align_val_t(64)));
    std::memset(data_, 0xa5, bytes + 64);
  }
  ~scratch_memory() {
    for (std::size_t i = bytes_; i < bytes_ + 64; ++i)
      EXPECT_EQ(data_[i], 0xa5) << "wrote behind its workspace";
    ::operator delete(data_, std::align_val_t(64));
  }
  void* data() { return data_; }

 private:
  std::size_t bytes_;
  unsigned char* data_;
};

std::vector<float> random_values(i64 n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = uniform(engine);
  return v;
}

struct expected {
  double value, bound;
};
expected finish(double sum, double magnitude, i64 terms, bool relu) {
  double const bound = static_cast<double>(terms + 8) * 0x1p-24 * magnitude;
  return {relu && sum < 0 ? 0 : sum, bound};
}

class onednn_test : public testing::Test {
 protected:
  void SetUp() override {
    if (!library.available()) GTEST_SKIP() << library.reason();
  }

  std::unique_ptr<library_call> matmul(matmul_call const& c) {
    std::string reason;
    auto call = make_matmul(library, threads, c, reason);
    EXPECT_NE(call, nullptr) << reason;
    return call;
  }

  void check_matmul(matmul_call const& c, unsigned seed = 1) {
    i64 const rows_a = c.transpose_a ? c.k : c.m, rows_b = c.transpose_b ? c.n : c.k;
    auto const a = random_values(c.batch * c.stride_a + rows_a * c.lda + 64, seed);
    auto const b = random_values(c.batch * c.stride_b + rows_b * c.ldb + 64, seed + 1);
    auto const bias = random_values(c.n, seed + 2);
    std::vector<float> out(static_cast<std::size_t>(c.batch * c.stride_c + c.m * c.ldc + 64), nan),
        touched = out;
    std::string reason;
    auto const call = make_matmul(library, threads, c, reason);
    ASSERT_NE(call, nullptr) << reason;
    scratch_memory workspace(call->workspace_bytes());
    call->run(a.data(), b.data(), c.bias ? bias.data() : nullptr, out.data(), workspace.data());
    auto const at = [](std::vector<float> const& v, i64 i) {
      return static_cast<double>(v[static_cast<std::size_t>(i)]);
    };
    for (i64 s = 0; s < c.batch; ++s) {
      for (i64 i = 0; i < c.m; ++i) {
        for (i64 j = 0; j < c.n; ++j) {
          double sum = c.bias ? at(bias, j) : 0, magnitude = std::abs(sum);
          for (i64 l = 0; l < c.k; ++l) {
            double const x = at(a, s * c.stride_a + (c.transpose_a ? l * c.lda + i : i * c.lda + l));
            double const y = at(b, s * c.stride_b + (c.transpose_b ? j * c.ldb + l : l * c.ldb + j));
            sum += x * y;
            magnitude += std::abs(x * y);
          }
          expected const e = finish(sum, magnitude, c.k, c.act == jit::activation::relu);
          i64 const where = s * c.stride_c + i * c.ldc + j;
          ASSERT_NEAR(at(out, where), e.value, e.bound)
              << call->implementation() << " product " << s << " at " << i << ", " << j;
          touched[static_cast<std::size_t>(where)] = 0;
        }
      }
    }
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_TRUE(!std::isnan(touched[i]) || std::isnan(out[i])) << "wrote between the rows of C at " << i;
  }

  void check_conv2d(conv2d_call const& c, unsigned seed = 1) {
    auto const extent = [](i64 in, i64 k, i64 s, i64 before, i64 after, i64 d) {
      i64 const room = in + before + after - (d * (k - 1) + 1);
      return room < 0 ? 0 : room / s + 1;
    };
    i64 const oh = extent(c.h, c.kh, c.stride_h, c.pad_top, c.pad_bottom, c.dilation_h);
    i64 const ow = extent(c.w, c.kw, c.stride_w, c.pad_left, c.pad_right, c.dilation_w);
    i64 const cg = c.c / c.groups, og = c.o / c.groups;
    auto const x = random_values(c.n * c.c * c.h * c.w, seed),
               w = random_values(c.o * cg * c.kh * c.kw, seed + 1);
    auto const bias = random_values(c.o, seed + 2);
    std::vector<float> y(static_cast<std::size_t>(c.n * c.o * oh * ow + 16), nan);
    std::string reason;
    auto const call = make_conv2d(library, threads, c, reason);
    ASSERT_NE(call, nullptr) << reason;
    scratch_memory workspace(call->workspace_bytes());
    call->run(x.data(), w.data(), c.bias ? bias.data() : nullptr, y.data(), workspace.data());
    auto const at = [](std::vector<float> const& v, i64 i) {
      return static_cast<double>(v[static_cast<std::size_t>(i)]);
    };
    i64 where = 0;
    for (i64 s = 0; s < c.n; ++s)
      for (i64 o = 0; o < c.o; ++o)
        for (i64 i = 0; i < oh; ++i)
          for (i64 j = 0; j < ow; ++j, ++where) {
            double sum = c.bias ? at(bias, o) : 0, magnitude = std::abs(sum);
            for (i64 l = 0; l < cg; ++l)
              for (i64 u = 0; u < c.kh; ++u)
                for (i64 v = 0; v < c.kw; ++v) {
                  i64 const row = i * c.stride_h - c.pad_top + u * c.dilation_h;
                  i64 const column = j * c.stride_w - c.pad_left + v * c.dilation_w;
                  if (row < 0 || row >= c.h || column < 0 || column >= c.w) continue;
                  double const t = at(x, ((s * c.c + o / og * cg + l) * c.h + row) * c.w + column) *
                                   at(w, ((o * cg + l) * c.kh + u) * c.kw + v);
                  sum += t;
                  magnitude += std::abs(t);
                }
            expected const e = finish(sum, magnitude, cg * c.kh * c.kw, c.act == jit::activation::relu);
            ASSERT_NEAR(at(y, where), e.value, e.bound)
                << call->implementation() << " at " << s << ", " << o << ", " << i << ", " << j;
          }
    for (; where < std::ssize(y); ++where)
      ASSERT_TRUE(std::isnan(y[static_cast<std::size_t>(where)])) << "wrote behind y";
  }

  onednn library;
  pool threads{3};
};

matmul_call product(i64 m, i64 n, i64 k, bool ta = false, bool tb = false) {
  return dense({.m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb});
}

TEST_F(onednn_test, matmul_of_odd_shapes) {
  struct shape {
    i64 m, n, k;
  };
  for (shape s : {shape{1, 1, 1},
                  {1, 7, 3},
                  {7, 1, 3},
                  {5, 3, 1},
                  {1, 300, 200},
                  {300, 1, 200},
                  {17, 33, 65},
                  {64, 64, 64},
                  {100, 10, 784},
                  {129, 257, 63},
                  {200, 130, 150},
                  {256, 10, 128},
                  {31, 500, 77}}) {
    for (int form = 0; form < 4; ++form) {
      for (int ending = 0; ending < 4; ++ending) {
        matmul_call c = product(s.m, s.n, s.k, form & 1, form & 2);
        c.bias = ending & 1;
        c.act = ending & 2 ? jit::activation::relu : jit::activation::none;
        SCOPED_TRACE(testing::Message()
                     << s.m << "x" << s.n << "x" << s.k << " form " << form << " ending " << ending);
        check_matmul(c, static_cast<unsigned>(s.m + s.k));
      }
    }
  }
}

TEST_F(onednn_test, matmul_with_rows_apart) {
  for (int form = 0; form < 4; ++form) {
    for (auto [m, n, k] :
         {std::array<i64, 3>{37, 45, 29}, {1, 45, 29}, {37, 1, 29}, {37, 45, 1}, {150, 200, 100}}) {
      matmul_call c = product(m, n, k, form & 1, form & 2);
      c.lda += 3;
      c.ldb += 5;
      c.ldc += 7;
      c.bias = true;
      c.act = jit::activation::relu;
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " form " << form);
      check_matmul(c);
    }
  }
}

TEST_F(onednn_test, matmul_of_a_batch) {
  struct shape {
    i64 batch, m, n, k;
  };
  for (shape s : {shape{1, 20, 30, 40},
                  {2, 3, 5, 7},
                  {7, 33, 17, 9},
                  {50, 16, 16, 16},
                  {301, 8, 24, 12},
                  {3, 130, 140, 90},
                  {6, 1, 40, 50},
                  {6, 40, 1, 50},
                  {6, 40, 50, 1}}) {
    for (int form = 0; form < 4; ++form) {
      for (int shared = 0; shared < 4; ++shared) {
        matmul_call c = product(s.m, s.n, s.k, form & 1, form & 2);
        c.batch = s.batch;
        c.stride_a = shared & 1 ? 0 : s.m * s.k;
        c.stride_b = shared & 2 ? 0 : s.n * s.k + 4;
        c.stride_c = s.m * s.n + (form == 3 ? 11 : 0);
        c.bias = form != 1;
        c.act = form == 2 ? jit::activation::none : jit::activation::relu;
        SCOPED_TRACE(testing::Message() << s.batch << " times " << s.m << "x" << s.n << "x" << s.k << " form "
                                        << form << " shared " << shared);
        check_matmul(c);
      }
    }
  }
}

TEST_F(onednn_test, empty_products) {
  for (auto [batch, m, n, k] : {std::array<i64, 4>{0, 2, 3, 4},
                                {2, 0, 3, 4},
                                {2, 3, 0, 4},
                                {2, 3, 4, 0},
                                {1, 3, 4, 0},
                                {0, 0, 0, 0}}) {
    matmul_call c = product(m, n, k);
    c.batch = batch;
    c.stride_a = m * k;
    c.stride_b = k * n;
    c.stride_c = m * n;
    for (bool bias : {false, true}) {
      c.bias = bias;
      c.act = bias ? jit::activation::relu : jit::activation::none;
      check_matmul(c);
    }
  }
}

conv2d_call image(i64 n, i64 c, i64 h, i64 w, i64 o, i64 kh, i64 kw) {
  conv2d_call call;
  call.n = n, call.c = c, call.h = h, call.w = w, call.o = o, call.kh = kh, call.kw = kw;
  return call;
}

TEST_F(onednn_test, conv2d_of_many_shapes) {
  std::vector<conv2d_call> calls{
      image(1, 1, 1, 1, 1, 1, 1),  image(2, 3, 8, 9, 4, 3, 3),     image(1, 1, 12, 7, 5, 5, 2),
      image(3, 5, 9, 11, 7, 3, 3), image(2, 16, 10, 10, 16, 3, 3), image(2, 17, 10, 13, 33, 3, 3),
      image(9, 8, 6, 5, 3, 1, 1),  image(2, 32, 7, 7, 48, 1, 1),   image(1, 64, 14, 14, 64, 3, 3),
      image(37, 3, 8, 8, 6, 3, 3), image(2, 20, 1, 30, 8, 1, 7)};
  for (conv2d_call const& base : calls) {
    // Padding wider than the image: older instruction sets have no kernel for it, and the call says so.
    int const forms = base.h == 1 && base.w == 1 ? 4 : 6;
    for (int form = 0; form < forms; ++form) {
      conv2d_call c = base;
      if (form >= 1) c.bias = true;
      if (form >= 2)
        c.act = jit::activation::relu, c.pad_top = c.pad_bottom = c.kh / 2,
        c.pad_left = c.pad_right = c.kw / 2;
      if (form == 3) c.stride_h = 2, c.stride_w = 3;
      if (form == 4) c.pad_top = 0, c.pad_left = 2, c.pad_bottom = 3, c.pad_right = 1;
      if (form == 5) c.dilation_h = 2, c.dilation_w = 3, c.pad_top = 3, c.pad_right = 4;
      SCOPED_TRACE(testing::Message() << c.n << "x" << c.c << "x" << c.h << "x" << c.w << " -> " << c.o << " "
                                      << c.kh << "x" << c.kw << " form " << form);
      check_conv2d(c);
    }
  }
}

TEST_F(onednn_test, conv2d_in_groups) {
  struct shape {
    i64 c, o, groups;
  };
  for (shape s : {shape{4, 4, 2},
                  {6, 9, 3},
                  {8, 8, 8},
                  {8, 16, 8},
                  {32, 32, 2},
                  {16, 16, 16},
                  {33, 66, 33},
                  {64, 64, 4}}) {
    conv2d_call c = image(3, s.c, 9, 10, s.o, 3, 3);
    c.groups = s.groups;
    c.pad_top = c.pad_left = c.pad_right = 1;
    c.bias = true;
    c.act = jit::activation::relu;
    for (i64 stride : {1, 2}) {
      c.stride_h = c.stride_w = stride;
      SCOPED_TRACE(testing::Message()
                   << s.c << " -> " << s.o << " in " << s.groups << " groups, stride " << stride);
      check_conv2d(c);
    }
  }
}

// Few samples of much work, and large weights: the slices cut the output channels.
TEST_F(onednn_test, conv2d_cut_by_output_channels) {
  std::vector<conv2d_call> calls{image(1, 64, 20, 21, 128, 3, 3),  // slices share reordered images
                                 image(3, 4, 48, 49, 128, 3, 3),   // images stay as they are
                                 image(2, 64, 32, 32, 128, 1, 1),  // blocked
                                 image(9, 512, 4, 5, 512, 2, 2)};  // weights worth reordering in parallel
  for (conv2d_call& c : calls) {
    c.pad_top = c.pad_left = c.kh / 2;
    c.bias = true;
    c.act = jit::activation::relu;
    std::string reason;
    auto const call = make_conv2d(library, threads, c, reason);
    ASSERT_NE(call, nullptr) << reason;
    EXPECT_THAT(call->implementation(), testing::Not(HasSubstr(std::to_string(c.o) + " channels")));
    check_conv2d(c);
  }
}

TEST_F(onednn_test, empty_convolutions) {
  for (auto [n, c, h, w, o] : {std::array<i64, 5>{0, 3, 8, 8, 4},
                               {2, 0, 8, 8, 4},
                               {2, 3, 8, 8, 0},
                               {2, 3, 2, 8, 4},
                               {2, 3, 0, 8, 4},
                               {2, 3, 8, 0, 4}}) {
    conv2d_call call = image(n, c, h, w, o, 3, 3);
    check_conv2d(call);
    call.bias = true;
    call.act = jit::activation::relu;
    check_conv2d(call);
    call.pad_top = call.pad_bottom = call.pad_left = call.pad_right = 2;
    check_conv2d(call);
  }
}

TEST_F(onednn_test, relu_keeps_nan_and_has_no_negative_zero) {
  matmul_call c = product(3, 37, 2);
  c.act = jit::activation::relu;
  std::vector<float> a(6, 1), b(74, -1), out(111);
  a[2] = nan;                  // row 1 of C
  a[4] = -0.0f, a[5] = -0.0f;  // row 2: 0 * -1 and so on
  auto const call = matmul(c);
  scratch_memory workspace(call->workspace_bytes());
  call->run(a.data(), b.data(), nullptr, out.data(), workspace.data());
  for (std::size_t j = 0; j < 37; ++j) {
    EXPECT_EQ(out[j], 0);
    EXPECT_FALSE(std::signbit(out[j]));
    EXPECT_TRUE(std::isnan(out[37 + j]));
    EXPECT_FALSE(std::signbit(out[74 + j]));
  }
}

// The cut depends on the shape alone.
TEST_F(onednn_test, bits_do_not_depend_on_the_number_of_threads) {
  pool one(1), two(2), five(5);
  matmul_call const m = product(300, 310, 500);
  conv2d_call v = image(4, 32, 28, 28, 64, 3, 3);
  v.pad_top = v.pad_left = 1;
  auto const a = random_values(300 * 500, 1), b = random_values(500 * 310, 2);
  auto const x = random_values(4 * 32 * 28 * 28, 3), w = random_values(64 * 32 * 9, 4);
  std::vector<std::vector<float>> products, images;
  for (pool* p : {&one, &two, &five}) {
    std::string reason;
    auto const matmul = make_matmul(library, *p, m, reason);
    auto const conv2d = make_conv2d(library, *p, v, reason);
    ASSERT_TRUE(matmul && conv2d) << reason;
    scratch_memory first(matmul->workspace_bytes()), second(conv2d->workspace_bytes());
    matmul->run(a.data(), b.data(), nullptr, products.emplace_back(300 * 310).data(), first.data());
    conv2d->run(x.data(), w.data(), nullptr, images.emplace_back(4 * 64 * 27 * 27).data(), second.data());
  }
  // Nor on where the operands lie.
  for (std::size_t offset : {1u, 3u}) {
    std::vector<float> moved_a(offset), moved_b(offset), moved_c(offset + 300 * 310);
    moved_a.insert(moved_a.end(), a.begin(), a.end());
    moved_b.insert(moved_b.end(), b.begin(), b.end());
    std::string reason;
    auto const call = make_matmul(library, two, m, reason);
    ASSERT_NE(call, nullptr) << reason;
    scratch_memory workspace(call->workspace_bytes());
    call->run(moved_a.data() + offset, moved_b.data() + offset, nullptr, moved_c.data() + offset,
              workspace.data());
    EXPECT_EQ(std::memcmp(products[0].data(), moved_c.data() + offset, products[0].size() * 4), 0);
  }
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(std::memcmp(products[0].data(), products[i].data(), products[0].size() * 4), 0);
    EXPECT_EQ(std::memcmp(images[0].data(), images[i].data(), images[0].size() * 4), 0);
  }
}

TEST_F(onednn_test, eight_threads_run_one_call) {
  matmul_call const c = product(70, 90, 300);
  auto const call = matmul(c);
  conv2d_call const v = image(6, 5, 12, 12, 9, 3, 3);
  std::string reason;
  auto const conv = make_conv2d(library, threads, v, reason);
  ASSERT_NE(conv, nullptr) << reason;
  std::atomic<int> wrong{0};
  auto const w = random_values(9 * 5 * 9, 7);
  auto const b = random_values(300 * 90, 8);
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < 8; ++t) {
    callers.emplace_back([&, t] {
      auto const a = random_values(70 * 300, 10 + t), x = random_values(6 * 5 * 12 * 12, 20 + t);
      scratch_memory first(call->workspace_bytes()), second(conv->workspace_bytes());
      std::vector<float> c0(70 * 90), c1(c0.size()), y0(6 * 9 * 100), y1(y0.size());
      call->run(a.data(), b.data(), nullptr, c0.data(), first.data());
      conv->run(x.data(), w.data(), nullptr, y0.data(), second.data());
      double sum = 0;
      for (std::size_t l = 0; l < 300; ++l) sum += static_cast<double>(a[l]) * static_cast<double>(b[l * 90]);
      if (std::abs(sum - static_cast<double>(c0[0])) > 1e-4) ++wrong;
      for (int i = 0; i < 50; ++i) {
        call->run(a.data(), b.data(), nullptr, c1.data(), first.data());
        conv->run(x.data(), w.data(), nullptr, y1.data(), second.data());
        if (c0 != c1 || y0 != y1) ++wrong;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(onednn_test, denormals_are_numbers_whatever_the_caller_has_set) {
  matmul_call const c = product(2, 3, 1);
  auto const call = matmul(c);
  scratch_memory workspace(call->workspace_bytes());
  std::vector<float> a(2, 0x1p-100f), b(3, 0x1p-40f), out(6);
#if defined(__x86_64__)
  unsigned const before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);  // flush to zero, denormals are zero
  call->run(a.data(), b.data(), nullptr, out.data(), workspace.data());
  bool const kept = (__builtin_ia32_stmxcsr() & 0x8040) == 0x8040;
  __builtin_ia32_ldmxcsr(before);
  EXPECT_TRUE(kept);
#else
  call->run(a.data(), b.data(), nullptr, out.data(), workspace.data());
#endif
  for (float x : out) EXPECT_EQ(x, 0x1p-140f);
}

TEST_F(onednn_test, bf16_where_supported) {
  EXPECT_TRUE(library.supports(dtype::f32));
  EXPECT_FALSE(library.supports(dtype::f64));
  EXPECT_FALSE(library.supports(dtype::f16));
  if (!library.supports(dtype::bf16)) GTEST_SKIP() << "no bf16 on this processor";
  matmul_call c = product(70, 37, 129);
  c.type = dtype::bf16;
  c.bias = true;
  c.act = jit::activation::relu;
  auto const round = [](std::vector<float> const& v) {
    std::vector<bfloat16> r;
    for (float x : v) r.emplace_back(x);
    return r;
  };
  auto const a = round(random_values(70 * 129, 1)), b = round(random_values(129 * 37, 2)),
             bias = round(random_values(37, 3));
  std::vector<bfloat16> out(70 * 37);
  auto const call = matmul(c);
  scratch_memory workspace(call->workspace_bytes());
  call->run(a.data(), b.data(), bias.data(), out.data(), workspace.data());
  for (std::size_t i = 0; i < 70; ++i)
    for (std::size_t j = 0; j < 37; ++j) {
      double sum = static_cast<double>(float(bias[j])), magnitude = std::abs(sum);
      for (std::size_t l = 0; l < 129; ++l) {
        double const t =
            static_cast<double>(float(a[i * 129 + l])) * static_cast<double>(float(b[l * 37 + j]));
        sum += t;
        magnitude += std::abs(t);
      }
      sum = std::max(sum, 0.0);
      EXPECT_NEAR(static_cast<double>(float(out[i * 37 + j])), sum, sum * 0x1p-8 + 137 * 0x1p-24 * magnitude);
    }
}

TEST_F(onednn_test, refuses_what_it_cannot_do_with_a_reason) {
  std::string reason;
  matmul_call c = product(4, 4, 4);
  c.type = dtype::f64;
  EXPECT_EQ(make_matmul(library, threads, c, reason), nullptr);
  EXPECT_THAT(reason, HasSubstr("float64"));
  conv2d_call v = image(1, 3, 8, 8, 4, 3, 3);
  v.type = dtype::i32;
  EXPECT_EQ(make_conv2d(library, threads, v, reason), nullptr);
  EXPECT_THAT(reason, HasSubstr("int32"));
}

TEST_F(onednn_test, refuses_descriptions_that_mean_nothing) {
  std::string reason;
  matmul_call c = product(4, 4, 4);
  c.lda = 3;
  EXPECT_THROW(make_matmul(library, threads, c, reason), argument_error);
  c = product(4, 4, -1);
  EXPECT_THROW(make_matmul(library, threads, c, reason), argument_error);
  c = product(4, 4, 4);
  c.batch = 2;
  EXPECT_THROW(make_matmul(library, threads, c, reason), argument_error);
  conv2d_call v = image(1, 3, 8, 8, 4, 3, 3);
  v.groups = 2;
  EXPECT_THROW(make_conv2d(library, threads, v, reason), argument_error);
  v.groups = 1, v.stride_h = 0;
  EXPECT_THROW(make_conv2d(library, threads, v, reason), argument_error);
}

TEST_F(onednn_test, runs_in_a_forked_child) {
  matmul_call const c = product(128, 128, 128);
  auto const call = matmul(c);
  auto const a = random_values(128 * 128, 1), b = random_values(128 * 128, 2);
  std::vector<float> out(128 * 128), again(128 * 128);
  scratch_memory workspace(call->workspace_bytes());
  call->run(a.data(), b.data(), nullptr, out.data(), workspace.data());
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    call->run(a.data(), b.data(), nullptr, again.data(), workspace.data());
    _exit(again == out ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

TEST(onednn_missing, says_why) {
  pool threads(1);
  std::string reason;
  {
    variable const hide("REPRISE_HIDE", "cudnn,onednn");
    onednn const hidden;
    EXPECT_FALSE(hidden.available());
    EXPECT_THAT(hidden.reason(), HasSubstr("REPRISE_HIDE"));
    EXPECT_FALSE(hidden.supports(dtype::f32));
    EXPECT_EQ(make_matmul(hidden, threads, product(4, 4, 4), reason), nullptr);
    EXPECT_EQ(reason, hidden.reason());
    EXPECT_EQ(make_conv2d(hidden, threads, image(1, 1, 4, 4, 1, 3, 3), reason), nullptr);
    EXPECT_EQ(reason, hidden.reason());
  }
  {
    variable const elsewhere("REPRISE_DNNL_LIBRARY", "/nonexistent/libdnnl.so.2");
    EXPECT_THAT(onednn().reason(), HasSubstr("/nonexistent/libdnnl.so.2"));
  }
  {
    variable const other("REPRISE_DNNL_LIBRARY", "libc.so.6");
    EXPECT_THAT(onednn().reason(), HasSubstr("dnnl_version"));
  }
  {
    variable const similar("REPRISE_HIDE", "onednnx,cudnn");
    EXPECT_THAT(onednn().reason(), testing::Not(HasSubstr("REPRISE_HIDE")));
  }
}

}  // namespace
}  // namespace reprise::cpu
