// What the headers know of the library: a reference-counted value behind each array, and the calls that
// record operations. Users never name anything of this file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reprise/error.h>
#include <reprise/location.h>
#include <reprise/shape.h>
#include <reprise/types.h>

namespace reprise::inline v1 {

namespace detail {

enum class opcode : std::uint16_t {
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc) id,
#define SELECT(id, doc) id,
#define CAST(id, attributes, doc) id,
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc) id,
#define ARG_REDUCTION(id, better, doc) id,
#define MOVEMENT(id, arity, attributes, doc) id,
#define SOURCE(id, arity, attributes, doc) id,
#define LIBRARY(id, arity, attributes, doc) id,
#define REGION(id, attributes, doc) id,
#include <reprise/ops.def>
#undef ELEMENTWISE
#undef SELECT
#undef CAST
#undef REDUCTION
#undef ARG_REDUCTION
#undef MOVEMENT
#undef SOURCE
#undef LIBRARY
#undef REGION
};

// The part of a value that headers read: its count, and its type, which never changes.
struct value_base {
  std::atomic<std::uint32_t> references{1};
  dtype type = dtype::f32;
  reprise::shape extents;
};

REPRISE_API void destroy(value_base* v) noexcept;  // the last reference is gone

class handle {
 public:
  handle() = default;
  explicit handle(value_base* owned) : value_(owned) {}
  handle(handle const& o) noexcept : value_(o.value_) {
    if (value_) value_->references.fetch_add(1, std::memory_order_relaxed);
  }
  handle(handle&& o) noexcept : value_(std::exchange(o.value_, nullptr)) {}
  handle& operator=(handle const& o) noexcept {
    handle(o).swap(*this);
    return *this;
  }
  handle& operator=(handle&& o) noexcept {
    handle(std::move(o)).swap(*this);
    return *this;
  }
  ~handle() {
    if (value_ && value_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(value_);
  }
  void swap(handle& o) noexcept { std::swap(value_, o.value_); }
  value_base* get() const { return value_; }
  explicit operator bool() const { return value_ != nullptr; }
  friend bool operator==(handle const& a, handle const& b) { return a.value_ == b.value_; }

 private:
  value_base* value_ = nullptr;
};

// One operand of a recorded operation: an array, a number that is recorded as it is, or a run-time number
// known by its id.
enum class argument_kind : std::uint8_t { array, number, scalar };
struct argument {
  argument_kind kind = argument_kind::number;
  dtype type = dtype::f32;  // of bits
  handle const* array = nullptr;
  std::uint64_t bits = 0;
  std::uint64_t scalar_id = 0;
};

// Axes as a caller gives them: none (all of them), or a list with negatives counted from the end.
struct axes_argument {
  bool all = true;
  int count = 0;
  std::int64_t axis[max_rank] = {};
};

// One index of x(...): an integer, a range, every element, a new axis, or an ellipsis.
enum class index_kind : std::uint8_t { absent, integer, range, newaxis, ellipsis };
struct index_argument {
  index_kind kind = index_kind::absent;
  bool has_start = false, has_stop = false;
  std::int64_t start = 0, stop = 0, step = 1;
};

// Recording. Each checks its operands and throws argument_error with the operation, shapes and `at`.
REPRISE_API handle record_elementwise(opcode op, dtype operands, argument const* arguments, int count,
                                      location at);
REPRISE_API handle record_where(argument const& condition, argument const& yes, argument const& no,
                                dtype type, location at);
REPRISE_API handle record_cast(handle const& x, dtype to, location at);
REPRISE_API handle record_reduction(opcode op, handle const& x, axes_argument const& axes, bool keepdims,
                                    location at);
REPRISE_API handle record_mean(handle const& x, axes_argument const& axes, bool keepdims, location at);
REPRISE_API handle record_arg_reduction(opcode op, handle const& x, axes_argument const& axis, bool keepdims,
                                        location at);
REPRISE_API handle record_reshape(handle const& x, std::span<std::int64_t const> extents,
                                  location at);  // one may be -1
REPRISE_API handle record_transpose(handle const& x, axes_argument const& axes, location at);
REPRISE_API handle record_broadcast(handle const& x, shape const& to, location at);
REPRISE_API handle record_expand_dims(handle const& x, std::int64_t axis, location at);
REPRISE_API handle record_squeeze(handle const& x, axes_argument const& axes, location at);
REPRISE_API handle record_slice(handle const& x, index_argument const* indices, location at);  // 8 indices
REPRISE_API handle record_slice_update(handle const& x, index_argument const* indices, argument const& y,
                                       location at);
REPRISE_API handle record_concatenate(handle const* x, int count, std::int64_t axis, bool stack, location at);
REPRISE_API handle record_pad(handle const& x, std::span<std::int64_t const> low,
                              std::span<std::int64_t const> high, argument const& value, location at);
REPRISE_API handle record_flip(handle const& x, axes_argument const& axes, location at);
REPRISE_API handle record_tile(handle const& x, std::span<std::int64_t const> counts, location at);
REPRISE_API handle record_full(dtype type, shape const& extents, argument const& value, location at);
REPRISE_API handle record_arange(dtype type, double start, double stop, double step, location at);
REPRISE_API handle record_arange_integer(dtype type, std::int64_t start, std::int64_t stop, std::int64_t step,
                                         location at);
REPRISE_API handle record_eye(dtype type, std::int64_t rows, std::int64_t columns, std::int64_t diagonal,
                              location at);
REPRISE_API handle record_matmul(handle const& a, handle const& b, dtype type, location at);
struct conv2d_argument {
  std::int64_t stride[2] = {1, 1}, padding[4] = {0, 0, 0, 0} /* top, left, bottom, right */,
               dilation[2] = {1, 1}, groups = 1;
};
REPRISE_API handle record_conv2d(handle const& x, handle const& weight, handle const* bias,
                                 conv2d_argument const& how, location at);
struct pool2d_argument {
  std::int64_t window[2] = {2, 2}, stride[2] = {2, 2}, padding[4] = {0, 0, 0, 0};
  bool average = false;
};
REPRISE_API handle record_pool2d(handle const& x, pool2d_argument const& how, location at);
REPRISE_API handle record_softmax(handle const& x, std::int64_t axis, bool logarithm, location at);
REPRISE_API handle record_layer_norm(handle const& x, handle const* weight, handle const* bias,
                                     int normalized_axes, double eps, location at);
REPRISE_API handle record_random(dtype type, std::uint64_t key, shape const& extents, bool normal,
                                 location at);

// Host memory in and out.
REPRISE_API handle from_host(dtype type, void const* data, shape const& extents,
                             location at);  // copied before it returns
REPRISE_API void const* host_data(handle const& x, bool bulk,
                                  location at);  // finishes the work; valid as long as the value lives
REPRISE_API std::uint64_t host_item(handle const& x, std::int64_t index, location at);  // bits of one element
// The body of a trace may depend on an array by its shape alone: one that it was not given makes it a
// function with state.
REPRISE_API void note_use(handle const& x) noexcept;
REPRISE_API bool is_recording() noexcept;  // a traced body runs on this thread
REPRISE_API void host_read(handle const& x,
                           location at);  // allows bulk reads of x inside a trace: a guard over all of it
REPRISE_API std::string to_text(handle const& x, location at);
REPRISE_API std::uint64_t next_scalar_id() noexcept;
REPRISE_API void scalar_was_read(std::uint64_t id);

// A C++ number as the bits of a dtype, rounded once. Throws argument_error when an integer does not fit.
REPRISE_API std::uint64_t number_bits(dtype type, double value);
REPRISE_API std::uint64_t number_bits(dtype type, std::int64_t value, location at);
REPRISE_API std::uint64_t number_bits_unsigned(dtype type, std::uint64_t value, location at);

}  // namespace detail
}  // namespace reprise::inline v1
