// What onednn_*.cpp share: the table of oneDNN's functions, and a primitive with owning handles and argument
// sets that can be used from many threads. The only header that sees oneDNN's types.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "jit/cpu/onednn.h"

namespace reprise::cpu {

#define REPRISE_DNNL_FUNCTIONS(X)          \
  X(version)                               \
  X(get_effective_cpu_isa)                 \
  X(engine_create)                         \
  X(engine_destroy)                        \
  X(stream_create)                         \
  X(stream_destroy)                        \
  X(memory_desc_init_by_strides)           \
  X(memory_desc_init_by_tag)               \
  X(memory_desc_equal)                     \
  X(memory_desc_get_size)                  \
  X(memory_create)                         \
  X(memory_destroy)                        \
  X(memory_set_data_handle)                \
  X(matmul_desc_init)                      \
  X(dilated_convolution_forward_desc_init) \
  X(reorder_primitive_desc_create)         \
  X(primitive_attr_create)                 \
  X(primitive_attr_destroy)                \
  X(primitive_attr_set_scratchpad_mode)    \
  X(primitive_attr_set_fpmath_mode)        \
  X(primitive_desc_create)                 \
  X(primitive_desc_destroy)                \
  X(primitive_desc_query)                  \
  X(primitive_desc_query_md)               \
  X(primitive_create)                      \
  X(primitive_destroy)                     \
  X(primitive_execute)

struct onednn_api {
#define REPRISE_DNNL_MEMBER(name) decltype(&::dnnl_##name) name = nullptr;
  REPRISE_DNNL_FUNCTIONS(REPRISE_DNNL_MEMBER)
#undef REPRISE_DNNL_MEMBER
  // Of the OpenMP runtime that oneDNN is bound to.
  void (*omp_set_num_threads)(int) = nullptr;
  int (*omp_get_max_threads)() = nullptr;
  dnnl_engine_t engine = nullptr;
  dnnl_primitive_attr_t attributes = nullptr;  // scratch memory is given by the caller; no reduced precision

  onednn_api() = default;
  onednn_api(onednn_api const&) = delete;
  onednn_api& operator=(onednn_api const&) = delete;
  ~onednn_api();
};

// While one lives, oneDNN called from this thread uses no other, and floating point has its default mode:
// denormals are numbers and rounding is to nearest. Both are as the application had them afterwards.
class quiet_scope {
 public:
  explicit quiet_scope(onednn_api const& api) noexcept;
  ~quiet_scope();
  quiet_scope(quiet_scope const&) = delete;
  quiet_scope& operator=(quiet_scope const&) = delete;

 private:
  onednn_api const& api_;
  int threads_;
  std::uint64_t mode_;
};

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

dnnl_data_type_t data_type_of(dtype type);  // dnnl_data_type_undef where oneDNN's CPU engine has none
dnnl_memory_desc_t desc_by_strides(onednn_api const& api, dtype type,
                                   std::initializer_list<std::int64_t> dims,
                                   std::initializer_list<std::int64_t> strides);
dnnl_memory_desc_t desc_by_tag(onednn_api const& api, dtype type, std::initializer_list<std::int64_t> dims,
                               dnnl_format_tag_t tag);

// A descriptor of a primitive, owned: what oneDNN would run, before the code is made.
class primitive_desc {
 public:
  // Empty when oneDNN has no implementation at all.
  static std::optional<primitive_desc> make(std::shared_ptr<onednn_api const> api, const_dnnl_op_desc_t op);
  static std::optional<primitive_desc> make_reorder(std::shared_ptr<onednn_api const> api,
                                                    dnnl_memory_desc_t const& from,
                                                    dnnl_memory_desc_t const& to);
  primitive_desc(primitive_desc&& other) noexcept;
  primitive_desc& operator=(primitive_desc&&) = delete;
  ~primitive_desc();

  std::string implementation() const;
  bool is_reference() const;  // oneDNN's plain loops, a thousand times slower than any kernel
  dnnl_memory_desc_t memory(dnnl_query_t what, int index = 0) const;
  std::size_t scratch_bytes() const;

  std::shared_ptr<onednn_api const> const& api() const { return api_; }
  dnnl_primitive_desc_t get() const { return handle_; }

 private:
  primitive_desc(std::shared_ptr<onednn_api const> api, dnnl_primitive_desc_t handle)
      : api_(std::move(api)), handle_(handle) {}
  std::shared_ptr<onednn_api const> api_;
  dnnl_primitive_desc_t handle_;
};

// A primitive ready to run with up to five operands, from any number of threads: oneDNN's memory objects,
// which carry the pointers of one execution, are kept in sets, one for each execution that was ever under way
// at the same time.
class primitive {
 public:
  struct operand {
    int argument;  // DNNL_ARG_...
    dnnl_memory_desc_t desc;
  };
  // `operands` without the scratch memory. Throws compile_error when oneDNN cannot make it.
  primitive(primitive_desc const& desc, std::vector<operand> operands);
  ~primitive();
  primitive(primitive const&) = delete;
  primitive& operator=(primitive const&) = delete;

  std::size_t scratch_bytes() const noexcept { return scratch_bytes_; }
  // One pointer for each operand, in their order. Only under a quiet_scope. False when the library fails.
  bool execute(std::initializer_list<void const*> pointers, void* scratch) const noexcept;

 private:
  struct argument_set;
  std::unique_ptr<argument_set> take() const;
  void give(std::unique_ptr<argument_set> set) const noexcept;

  std::shared_ptr<onednn_api const> api_;
  std::vector<operand> operands_;
  std::size_t scratch_bytes_ = 0;
  dnnl_primitive_t handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<argument_set>> idle_;
  mutable std::size_t sets_ = 0;
};

// relu over `rows` rows of `columns` elements, `stride` apart: nan stays nan, which oneDNN's own loses. In
// place.
void relu_in_place(dtype type, void* data, std::int64_t rows, std::int64_t columns,
                   std::int64_t stride) noexcept;
// c[r][i] = relu?(bias[i]) or zero: what a product over no terms is.
void fill_with_bias(dtype type, void* c, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                    void const* bias, bool relu) noexcept;

// A call that needs no primitive: no output, or no products to add up.
std::unique_ptr<library_call> make_trivial_matmul(matmul_call const& call);
std::unique_ptr<library_call> make_trivial_conv2d(conv2d_call const& call, std::int64_t out_h,
                                                  std::int64_t out_w);

}  // namespace reprise::cpu
