// The little arithmetic beside oneDNN's: relu after a product, and products over no terms.
#include <algorithm>
#include <cstring>

#include "jit/cpu/onednn_api.h"

namespace reprise::cpu {
namespace {

using f32x4 = float __attribute__((vector_size(16)));
using u16x8 = std::uint16_t __attribute__((vector_size(16)));

// nan compares false and stays; -0 becomes +0.
void relu_row(float* row, std::int64_t n) noexcept {
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    f32x4 x;
    std::memcpy(&x, row + i, sizeof x);
    x = x <= 0.0f ? f32x4{} : x;
    std::memcpy(row + i, &x, sizeof x);
  }
  for (; i < n; ++i) row[i] = row[i] <= 0.0f ? 0.0f : row[i];
}

// On the bits of bf16: from -0 to -infinity.
void relu_row(std::uint16_t* row, std::int64_t n) noexcept {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    u16x8 x;
    std::memcpy(&x, row + i, sizeof x);
    x = (x >= 0x8000) & (x <= 0xff80) ? u16x8{} : x;
    std::memcpy(row + i, &x, sizeof x);
  }
  for (; i < n; ++i) row[i] = row[i] >= 0x8000 && row[i] <= 0xff80 ? 0 : row[i];
}

template <class T>
void relu_rows(void* data, std::int64_t rows, std::int64_t columns, std::int64_t stride) noexcept {
  T* const first = static_cast<T*>(data);
  if (stride == columns) return relu_row(first, rows * columns);
  for (std::int64_t r = 0; r < rows; ++r) relu_row(first + r * stride, columns);
}

class trivial_matmul final : public library_call {
 public:
  explicit trivial_matmul(matmul_call const& call) : call_(call) {}
  void run(void const*, void const*, void const* bias, void* c, void*) const override {
    if (call_.m == 0 || call_.n == 0) return;
    for (std::int64_t b = 0; b < call_.batch; ++b)
      fill_with_bias(call_.type, static_cast<char*>(c) + b * call_.stride_c * size_of(call_.type), call_.m,
                     call_.n, call_.ldc, call_.bias ? bias : nullptr, call_.act == jit::activation::relu);
  }
  std::size_t workspace_bytes() const noexcept override { return 0; }
  std::string const& implementation() const noexcept override { return name_; }

 private:
  matmul_call call_;
  std::string name_ = "no products";
};

class trivial_conv2d final : public library_call {
 public:
  trivial_conv2d(conv2d_call const& call, std::int64_t pixels) : call_(call), pixels_(pixels) {}
  void run(void const*, void const*, void const* bias, void* c, void*) const override {
    auto const bytes = static_cast<std::size_t>(size_of(call_.type));
    char* plane = static_cast<char*>(c);
    auto const plane_bytes = static_cast<std::size_t>(pixels_) * bytes;
    for (std::int64_t i = 0; i < call_.n; ++i) {
      for (std::int64_t o = 0; o < call_.o; ++o, plane += plane_bytes) {
        void const* const value =
            call_.bias ? static_cast<char const*>(bias) + static_cast<std::size_t>(o) * bytes : nullptr;
        // A plane of rows of one element, each with the plane's bias.
        fill_with_bias(call_.type, plane, pixels_, 1, 1, value, call_.act == jit::activation::relu);
      }
    }
  }
  std::size_t workspace_bytes() const noexcept override { return 0; }
  std::string const& implementation() const noexcept override { return name_; }

 private:
  conv2d_call call_;
  std::int64_t pixels_;
  std::string name_ = "no products";
};

}  // namespace

void relu_in_place(dtype type, void* data, std::int64_t rows, std::int64_t columns,
                   std::int64_t stride) noexcept {
  if (type == dtype::f32) relu_rows<float>(data, rows, columns, stride);
  else relu_rows<std::uint16_t>(data, rows, columns, stride);
}

void fill_with_bias(dtype type, void* c, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                    void const* bias, bool relu) noexcept {
  auto const bytes = static_cast<std::size_t>(size_of(type));
  for (std::int64_t r = 0; r < rows; ++r) {
    char* const row = static_cast<char*>(c) + static_cast<std::size_t>(r * stride) * bytes;
    if (bias != nullptr) std::memcpy(row, bias, static_cast<std::size_t>(columns) * bytes);
    else std::memset(row, 0, static_cast<std::size_t>(columns) * bytes);
  }
  if (relu) relu_in_place(type, c, rows, columns, stride);
}

std::unique_ptr<library_call> make_trivial_matmul(matmul_call const& call) {
  return std::make_unique<trivial_matmul>(call);
}

std::unique_ptr<library_call> make_trivial_conv2d(conv2d_call const& call, std::int64_t out_h,
                                                  std::int64_t out_w) {
  return std::make_unique<trivial_conv2d>(call, out_h * out_w);
}

}  // namespace reprise::cpu
