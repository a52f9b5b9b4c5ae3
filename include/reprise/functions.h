// Array functions. Those of one row of ops.def come from it; the rest are spelled here. All broadcast by
// NumPy's rules, take C++ numbers as weak scalars, and end with the caller's location, which nobody needs to
// write.
#pragma once

#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include <reprise/array.h>

namespace reprise::inline v1 {

// The axes of a reduction: nothing (all), one, or {0, -1}.
class axes : public detail::axes_argument {
 public:
  axes() = default;
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  axes(I one) : axes({dim(one)}) {}
  axes(std::initializer_list<dim> list) {
    all = false;
    if (list.size() > static_cast<std::size_t>(max_rank)) throw argument_error("axes: more than 8 axes");
    for (dim d : list) axis[count++] = d.value;
  }
};

// sum(x, {0}, keepdims): reduced axes stay with extent 1.
struct keepdims_t {
  bool value;
  template <std::same_as<bool> B>  // and no integer: sum(x, {1}) names an axis
  constexpr keepdims_t(B on) : value(on) {}
};
inline constexpr keepdims_t keepdims{true};

namespace detail {

enum class result_column : std::uint8_t { same, boolean, summed };
template <element T, result_column C>
using result_element_t = std::conditional_t<
    C == result_column::same, T,
    std::conditional_t<C == result_column::boolean, bool, element_t<sum_type(dtype_v<T>)>>>;

template <element T>
argument array_argument(array<T> const& a) {
  return {argument_kind::array, dtype_v<T>, &a.reference()};
}

template <element T, result_column C, class... A>
array<result_element_t<T, C>> apply(opcode op, location at, A const&... a) {
  argument const all[] = {a...};
  return array<result_element_t<T, C>>(record_elementwise(op, dtype_v<T>, all, sizeof...(A), at));
}

}  // namespace detail

// Elementwise functions of one, two and three operands, from the table.
#define REPRISE_FUNCTION_1(id, result)                                                                      \
  template <element T>                                                                                      \
  array<detail::result_element_t<T, detail::result_column::result>> id(array<T> const& a,                   \
                                                                       location at = location::current()) { \
    return detail::apply<T, detail::result_column::result>(detail::opcode::id, at,                          \
                                                           detail::array_argument(a));                      \
  }
#define REPRISE_FUNCTION_2(id, result)                                                                      \
  template <element T>                                                                                      \
  array<detail::result_element_t<T, detail::result_column::result>> id(                                     \
      array<T> const& a, std::type_identity_t<operand<T>> b, location at = location::current()) {           \
    return detail::apply<T, detail::result_column::result>(detail::opcode::id, at,                          \
                                                           detail::array_argument(a), b.argument());        \
  }                                                                                                         \
  template <detail::number S, element T>                                                                    \
  array<detail::result_element_t<T, detail::result_column::result>> id(S a, array<T> const& b,              \
                                                                       location at = location::current()) { \
    return detail::apply<T, detail::result_column::result>(                                                 \
        detail::opcode::id, at, operand<T>(a, at).argument(), detail::array_argument(b));                   \
  }                                                                                                         \
  template <element T, element U>                                                                           \
    requires(!std::same_as<T, U>)                                                                           \
  array<detail::result_element_t<promote_t<T, U>, detail::result_column::result>> id(                       \
      array<T> const& a, array<U> const& b, location at = location::current()) {                            \
    return detail::apply<promote_t<T, U>, detail::result_column::result>(                                   \
        detail::opcode::id, at, detail::array_argument(a), detail::array_argument(b));                      \
  }
#define REPRISE_FUNCTION_3(id, result)                                                           \
  template <element T>                                                                           \
  array<detail::result_element_t<T, detail::result_column::result>> id(                          \
      array<T> const& a, std::type_identity_t<operand<T>> b, std::type_identity_t<operand<T>> c, \
      location at = location::current()) {                                                       \
    return detail::apply<T, detail::result_column::result>(                                      \
        detail::opcode::id, at, detail::array_argument(a), b.argument(), c.argument());          \
  }
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc) \
  REPRISE_FUNCTION_##arity(id, result)
#define SELECT(id, doc)
#define CAST(id, attributes, doc)
#define REDUCTION(id, accepts, result, identity, meaning, kernel, doc)                                      \
  template <element T>                                                                                      \
  array<detail::result_element_t<T, detail::result_column::result>> id(                                     \
      array<T> const& x, axes over = {}, keepdims_t keep = {false}, location at = location::current()) {    \
    return array<detail::result_element_t<T, detail::result_column::result>>(                               \
        detail::record_reduction(detail::opcode::id, x.reference(), over, keep.value, at));                 \
  }                                                                                                         \
  template <element T>                                                                                      \
  array<detail::result_element_t<T, detail::result_column::result>> id(array<T> const& x, keepdims_t keep,  \
                                                                       location at = location::current()) { \
    return id(x, axes{}, keep, at);                                                                         \
  }
#define ARG_REDUCTION(id, better, doc)                                                           \
  template <element T>                                                                           \
  array<std::int64_t> id(array<T> const& x, axes along = {}, keepdims_t keep = {false},          \
                         location at = location::current()) {                                    \
    return array<std::int64_t>(                                                                  \
        detail::record_arg_reduction(detail::opcode::id, x.reference(), along, keep.value, at)); \
  }
#define MOVEMENT(id, arity, attributes, doc)
#define SOURCE(id, arity, attributes, doc)
#define LIBRARY(id, arity, attributes, doc)
#define REGION(id, attributes, doc)
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
#undef REPRISE_FUNCTION_1
#undef REPRISE_FUNCTION_2
#undef REPRISE_FUNCTION_3

// NumPy's / : integers are divided as f64.
template <element T>
array<element_t<mean_type(dtype_v<T>)>> true_divide(array<T> const& a, std::type_identity_t<operand<T>> b,
                                                    location at = location::current()) {
  using M = element_t<mean_type(dtype_v<T>)>;
  detail::argument second = b.argument();
  if constexpr (!std::same_as<M, T>)
    if (second.kind == detail::argument_kind::number)
      second = {second.kind, dtype_v<M>, nullptr, detail::bits_of<M>(detail::element_of<T>(second.bits), at),
                second.scalar_id};
  return detail::apply<M, detail::result_column::same>(detail::opcode::div, at, detail::array_argument(a),
                                                       second);
}

// The mean over axes; of integers in f64.
template <element T>
array<element_t<mean_type(dtype_v<T>)>> mean(array<T> const& x, axes over = {}, keepdims_t keep = {false},
                                             location at = location::current()) {
  return array<element_t<mean_type(dtype_v<T>)>>(detail::record_mean(x.reference(), over, keep.value, at));
}
template <element T>
array<element_t<mean_type(dtype_v<T>)>> mean(array<T> const& x, keepdims_t keep,
                                             location at = location::current()) {
  return mean(x, axes{}, keep, at);
}

template <element To, element From>
array<To> cast(array<From> const& x, location at = location::current()) {
  return array<To>(detail::record_cast(x.reference(), dtype_v<To>, at));
}

// x where the condition is true, else y.
template <element T>
array<T> where(array<bool> const& condition, array<T> const& x, std::type_identity_t<operand<T>> y,
               location at = location::current()) {
  return array<T>(detail::record_where(detail::array_argument(condition), detail::array_argument(x),
                                       y.argument(), dtype_v<T>, at));
}
template <detail::number S, element T>
array<T> where(array<bool> const& condition, S x, array<T> const& y, location at = location::current()) {
  return array<T>(detail::record_where(detail::array_argument(condition), operand<T>(x, at).argument(),
                                       detail::array_argument(y), dtype_v<T>, at));
}
template <detail::number S>
  requires element<S>
array<S> where(array<bool> const& condition, S x, S y, location at = location::current()) {
  return array<S>(detail::record_where(detail::array_argument(condition), operand<S>(x, at).argument(),
                                       operand<S>(y, at).argument(), dtype_v<S>, at));
}

// Views as values. One extent of reshape may be -1.
template <element T>
array<T> reshape(array<T> const& x, std::initializer_list<dim> extents, location at = location::current()) {
  std::int64_t e[max_rank];
  if (extents.size() > static_cast<std::size_t>(max_rank)) throw argument_error("reshape: more than 8 axes");
  std::size_t n = 0;
  for (dim d : extents) e[n++] = d.value;
  return array<T>(detail::record_reshape(x.reference(), {e, n}, at));
}
template <element T>
array<T> reshape(array<T> const& x, shape const& extents, location at = location::current()) {
  return array<T>(detail::record_reshape(x.reference(), {extents.begin(), extents.end()}, at));
}
template <element T>
array<T> transpose(array<T> const& x, axes order = {},
                   location at = location::current()) {  // no order: reversed
  return array<T>(detail::record_transpose(x.reference(), order, at));
}
template <element T>
array<T> broadcast_to(array<T> const& x, shape const& extents, location at = location::current()) {
  return array<T>(detail::record_broadcast(x.reference(), extents, at));
}
template <element T>
array<T> expand_dims(array<T> const& x, dim axis, location at = location::current()) {
  return array<T>(detail::record_expand_dims(x.reference(), axis.value, at));
}
template <element T>
array<T> squeeze(array<T> const& x, axes which = {}, location at = location::current()) {
  return array<T>(detail::record_squeeze(x.reference(), which, at));
}
template <element T>
array<T> flip(array<T> const& x, axes which = {}, location at = location::current()) {
  return array<T>(detail::record_flip(x.reference(), which, at));
}
template <element T>
array<T> tile(array<T> const& x, std::initializer_list<dim> counts, location at = location::current()) {
  std::vector<std::int64_t> c;
  for (dim d : counts) c.push_back(d.value);
  return array<T>(detail::record_tile(x.reference(), c, at));
}

namespace detail {
template <element T>
array<T> join(std::initializer_list<array<T>> const& parts, dim axis, bool stack, location at) {
  std::vector<handle> all;
  for (auto const& p : parts) all.push_back(p.reference());
  return array<T>(record_concatenate(all.data(), static_cast<int>(all.size()), axis.value, stack, at));
}
}  // namespace detail

template <element T>
array<T> concatenate(std::initializer_list<array<T>> parts, dim axis = 0, location at = location::current()) {
  return detail::join(parts, axis, false, at);
}
template <element T>
array<T> concatenate(std::vector<array<T>> const& parts, dim axis = 0, location at = location::current()) {
  std::vector<detail::handle> all;
  for (auto const& p : parts) all.push_back(p.reference());
  return array<T>(
      detail::record_concatenate(all.data(), static_cast<int>(all.size()), axis.value, false, at));
}
template <element T>
array<T> stack(std::initializer_list<array<T>> parts, dim axis = 0, location at = location::current()) {
  return detail::join(parts, axis, true, at);
}
template <element T>
array<T> stack(std::vector<array<T>> const& parts, dim axis = 0, location at = location::current()) {
  std::vector<detail::handle> all;
  for (auto const& p : parts) all.push_back(p.reference());
  return array<T>(detail::record_concatenate(all.data(), static_cast<int>(all.size()), axis.value, true, at));
}

// widths: {low, high} of each axis.
template <element T>
array<T> pad(array<T> const& x, std::initializer_list<std::pair<dim, dim>> widths,
             std::type_identity_t<operand<T>> value = T{}, location at = location::current()) {
  std::vector<std::int64_t> low, high;
  for (auto const& [l, h] : widths) {
    low.push_back(l.value);
    high.push_back(h.value);
  }
  return array<T>(detail::record_pad(x.reference(), low, high, value.argument(), at));
}

// New arrays.
template <element T>
array<T> full(shape const& extents, std::type_identity_t<operand<T>> value,
              location at = location::current()) {
  return array<T>(detail::record_full(dtype_v<T>, extents, value.argument(), at));
}
template <element T>
array<T> zeros(shape const& extents, location at = location::current()) {
  return array<T>(detail::record_full(dtype_v<T>, extents,
                                      {detail::argument_kind::number, dtype_v<T>, nullptr, 0, 0}, at));
}
template <element T>
array<T> ones(shape const& extents, location at = location::current()) {
  return array<T>(detail::record_full(
      dtype_v<T>, extents,
      {detail::argument_kind::number, dtype_v<T>, nullptr, detail::number_bits(dtype_v<T>, 1.0), 0}, at));
}
// start, start + step, ... before stop.
template <element T>
array<T> arange(double start, double stop, double step = 1, location at = location::current())
  requires(is_floating(dtype_v<T>))
{
  return array<T>(detail::record_arange(dtype_v<T>, start, stop, step, at));
}
template <element T>
array<T> arange(std::int64_t start, std::int64_t stop, std::int64_t step = 1,
                location at = location::current())
  requires(class_of(dtype_v<T>) == dtype_class::integer)
{
  return array<T>(detail::record_arange_integer(dtype_v<T>, start, stop, step, at));
}
template <element T>
array<T> arange(std::int64_t stop)
  requires(class_of(dtype_v<T>) == dtype_class::integer)
{
  return array<T>(detail::record_arange_integer(dtype_v<T>, 0, stop, 1, {}));
}
template <element T>
array<T> arange(double stop)
  requires(is_floating(dtype_v<T>))
{
  return array<T>(detail::record_arange(dtype_v<T>, 0, stop, 1, {}));
}
template <element T>
array<T> eye(dim rows, dim columns = -1, dim diagonal = 0, location at = location::current()) {
  return array<T>(detail::record_eye(dtype_v<T>, rows.value, columns.value < 0 ? rows.value : columns.value,
                                     diagonal.value, at));
}

// Linear algebra and neural networks.
template <element T>
array<T> matmul(array<T> const& a, array<T> const& b, location at = location::current()) {
  return array<T>(detail::record_matmul(a.reference(), b.reference(), dtype_v<T>, at));
}
template <element T, element U>
  requires(!std::same_as<T, U>)
array<promote_t<T, U>> matmul(array<T> const& a, array<U> const& b, location at = location::current()) {
  return array<promote_t<T, U>>(
      detail::record_matmul(a.reference(), b.reference(), dtype_v<promote_t<T, U>>, at));
}

// Cross-correlation on NCHW with weights OIHW, as in PyTorch and ONNX. padding: {vertical, horizontal} or
// {top, left, bottom, right}.
struct conv2d_options {
  shape stride{1, 1};
  shape padding{0, 0};
  shape dilation{1, 1};
  std::int64_t groups = 1;
};
namespace detail {
REPRISE_API conv2d_argument checked_options(conv2d_options const& o, location at);
}
template <element T>
array<T> conv2d(array<T> const& x, array<T> const& weight, conv2d_options const& o = {},
                location at = location::current()) {
  return array<T>(
      detail::record_conv2d(x.reference(), weight.reference(), nullptr, detail::checked_options(o, at), at));
}
template <element T, std::derived_from<array<T>> B>  // deduced, so that braces are options
array<T> conv2d(array<T> const& x, array<T> const& weight, B const& bias, conv2d_options const& o = {},
                location at = location::current()) {
  return array<T>(detail::record_conv2d(x.reference(), weight.reference(), &bias.reference(),
                                        detail::checked_options(o, at), at));
}

struct pool2d_options {
  shape window{2, 2};
  shape stride{};  // empty: the window
  shape padding{0, 0};
};
namespace detail {
REPRISE_API pool2d_argument checked_options(pool2d_options const& o, bool average, location at);
}
template <element T>
array<T> max_pool2d(array<T> const& x, pool2d_options const& o = {}, location at = location::current()) {
  return array<T>(detail::record_pool2d(x.reference(), detail::checked_options(o, false, at), at));
}
// Padding counts as zeros in the average, as in PyTorch.
template <element T>
array<T> avg_pool2d(array<T> const& x, pool2d_options const& o = {}, location at = location::current()) {
  return array<T>(detail::record_pool2d(x.reference(), detail::checked_options(o, true, at), at));
}

template <element T>
  requires(is_floating(dtype_v<T>))
array<T> softmax(array<T> const& x, dim axis = -1, location at = location::current()) {
  return array<T>(detail::record_softmax(x.reference(), axis.value, false, at));
}
template <element T>
  requires(is_floating(dtype_v<T>))
array<T> log_softmax(array<T> const& x, dim axis = -1, location at = location::current()) {
  return array<T>(detail::record_softmax(x.reference(), axis.value, true, at));
}
// Over the last axes, as many as the weight has.
template <element T>
  requires(is_floating(dtype_v<T>))
array<T> layer_norm(array<T> const& x, array<T> const& weight, array<T> const& bias, double eps = 1e-5,
                    location at = location::current()) {
  return array<T>(detail::record_layer_norm(x.reference(), &weight.reference(), &bias.reference(),
                                            weight.rank(), eps, at));
}
template <element T>
  requires(is_floating(dtype_v<T>))
array<T> layer_norm(array<T> const& x, dim normalized_axes = 1, double eps = 1e-5,
                    location at = location::current()) {
  return array<T>(detail::record_layer_norm(x.reference(), nullptr, nullptr,
                                            static_cast<int>(normalized_axes.value), eps, at));
}

// Comparison as one C++ value: reads its operands.
template <element T>
bool array_equal(array<T> const& a, array<T> const& b) {
  return a.shape() == b.shape() && static_cast<bool>(all(a == b));
}
// |a - b| <= atol + rtol * |b| everywhere.
template <element T>
  requires(is_floating(dtype_v<T>))
bool allclose(array<T> const& a, array<T> const& b, double rtol = 1e-5, double atol = 1e-8) {
  return a.shape() == b.shape() &&
         static_cast<bool>(all(abs(cast<double>(a) - cast<double>(b)) <= atol + rtol * abs(cast<double>(b))));
}

// Allows bulk reads (begin, data, conversion to std::vector) of x inside a trace; the function's body then
// runs on every call.
template <element T>
array<T> const& host_read(array<T> const& x, location at = location::current()) {
  detail::host_read(x.reference(), at);
  return x;
}

namespace detail {
inline axes axes_of(std::initializer_list<int> over) {
  if (over.size() > static_cast<std::size_t>(max_rank)) throw argument_error("axes: more than 8 axes");
  axes list;
  list.all = false;
  for (int a : over) list.axis[list.count++] = a;
  return list;
}
}  // namespace detail

// With a list of axes: exact, so that std::max(x, comparison) is not as good.
template <element T>
array<T> max(array<T> const& x, std::initializer_list<int> over, keepdims_t keep = {false},
             location at = location::current()) {
  axes const list = detail::axes_of(over);
  return max(x, list, keep, at);
}
template <element T>
array<T> min(array<T> const& x, std::initializer_list<int> over, keepdims_t keep = {false},
             location at = location::current()) {
  axes const list = detail::axes_of(over);
  return min(x, list, keep, at);
}

// Would be std's by argument-dependent lookup, and mean something else there.
template <element T>
void max(array<T> const&, array<T> const&) = delete;
template <element T>
void min(array<T> const&, array<T> const&) = delete;
template <element T>
void clamp(array<T> const&, array<T> const&, array<T> const&) = delete;

}  // namespace reprise::inline v1
