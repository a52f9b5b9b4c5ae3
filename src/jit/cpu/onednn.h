// Matrix products and convolutions by oneDNN 2.6 or a later 2.x, found at run time: nothing here links with
// it.
//
// oneDNN is always called single-threaded, on slices that we cut and our pool runs; its own OpenMP threads
// are never started. Measured on two idle cores this costs nothing (f32, us, ours / OpenMP for the whole
// call: 256x784x1024 977 / 981, 256x1024x1024 1223 / 1218, 1024^3 4965 / 5065, 256^3 77 / 71, 64 -> 64 3x3 at
// 56x56 of 32 images 18708 / 20824); beside busy compilers an OpenMP call was seen to take nine times as
// long, where ours fell to what one core does. There is one set of threads in the process, and a forked child
// works. How a call is cut depends on its description only, so the result has the same bits with any number
// of threads, for any alignment and in any run on the same kind of processor.
//
// A convolution's operands come and go as plain NCHW and OIHW. Reordering to the layout of oneDNN's fast
// kernels and back, slice by slice while it is in cache, beats its plain-layout kernels (1.1 to 2.6 times),
// pointwise ones of odd channels excepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "jit/plan.h"
#include "reprise/types.h"

namespace reprise::cpu {

class pool;
struct onednn_api;

// The loaded library, or the reason why there is none. Cheap to copy; calls made from it keep it alive.
class onednn {
 public:
  // Loads $REPRISE_DNNL_LIBRARY, else libdnnl.so.2, unless REPRISE_HIDE names onednn. Never throws for its
  // absence. Costs some 10 ms, so make one where the first matrix product is met.
  onednn();

  bool available() const noexcept { return api_ != nullptr; }
  // Why it is not available, with what was looked for; empty otherwise.
  std::string const& reason() const noexcept { return reason_; }
  // Version, commit and the instruction set it will use: for the key of what depends on it. Empty when not
  // available.
  std::string const& identity() const noexcept { return identity_; }
  // Whether this machine's oneDNN multiplies this dtype: f32 wherever it is available, bf16 on most; f16 and
  // f64 never.
  bool supports(dtype type) const;

  std::shared_ptr<onednn_api const> const& api() const noexcept { return api_; }

 private:
  std::shared_ptr<onednn_api const> api_;
  std::string reason_, identity_;
};

// Row-major, `batch` independent products: C[b] = act(A[b] @ B[b] + bias), bias [n].
struct matmul_call {
  dtype type = dtype::f32;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  std::int64_t stride_a = 0, stride_b = 0,
               stride_c = 0;  // from one product to the next, in elements; 0: A or B shared by all
  std::int64_t lda = 0, ldb = 0, ldc = 0;         // from one stored row to the next, in elements
  bool transpose_a = false, transpose_b = false;  // A is stored [k, m], B [n, k]
  bool bias = false;
  jit::activation act = jit::activation::none;
};
matmul_call dense(jit::matmul_step const& step);

using conv2d_call = jit::conv2d_step;

// One described call, its primitives made. Any number of threads may run it at the same time, each with its
// own workspace.
class library_call {
 public:
  virtual ~library_call() = default;
  // `workspace` is 64-byte aligned and of workspace_bytes(); nothing in it is kept. `bias` is read only if
  // the call has one. c overlaps no operand. Throws device_error if the library fails.
  virtual void run(void const* a, void const* b, void const* bias, void* c, void* workspace) const = 0;
  virtual std::size_t workspace_bytes() const noexcept = 0;
  // What runs, for reports: oneDNN's name of the kernel and how the call was cut.
  virtual std::string const& implementation() const noexcept = 0;
};

// Null with a reason when oneDNN is not available or has no optimized kernel for the call: the caller has its
// own. Empty calls need no library, but an available one. Throws argument_error for a description that means
// nothing (negative sizes, leading dimensions shorter than a row). The pool outlives the call. Making takes
// 0.1 to 1 ms a primitive.
std::unique_ptr<library_call> make_matmul(onednn const& library, pool& threads, matmul_call const& call,
                                          std::string& reason);
std::unique_ptr<library_call> make_conv2d(onednn const& library, pool& threads, conv2d_call const& call,
                                          std::string& reason);

}  // namespace reprise::cpu
