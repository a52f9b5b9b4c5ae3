// cuda::array<T>: a value of T elements, row-major, rank 0 to 8. Operations on arrays are recorded; reading
// one finishes the work and makes it an ordinary contiguous C++ range. Handles are values: `x += y` and
// `x(slice) = y` rebind this handle and no other.
#pragma once

#include <concepts>
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <reprise/handle.h>

namespace reprise::inline v1 {

template <element T>
class array;
template <element T>
class slot;

namespace detail {

template <class S>
constexpr dtype_class class_of_number() {
  return std::same_as<S, bool> ? dtype_class::boolean
         : std::integral<S>    ? dtype_class::integer
                               : dtype_class::floating;
}
template <class S>
concept number = std::is_arithmetic_v<S>;
// A C++ scalar is weak: it takes the array's dtype and may not raise its class (bool < int < float).
template <class S, class T>
concept weak_for = number<S> && class_of_number<S>() <= class_of(dtype_v<T>);
template <class S, class T>
concept too_strong_for = number<S> && class_of_number<S>() > class_of(dtype_v<T>);

template <element T, number S>
std::uint64_t bits_of(S value, location at) {
  if constexpr (std::same_as<T, float> && std::floating_point<S>)
    return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  else if constexpr (std::floating_point<S>) return number_bits(dtype_v<T>, static_cast<double>(value));
  else if constexpr (std::unsigned_integral<S>)
    return number_bits_unsigned(dtype_v<T>, static_cast<std::uint64_t>(value), at);
  else return number_bits(dtype_v<T>, static_cast<std::int64_t>(value), at);
}

template <element T>
T element_of(std::uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

// The common state of array<T> of every T: what trace and records see.
class array_base {
 public:
  handle const& reference() const { return handle_; }
  handle& reference() { return handle_; }

 protected:
  array_base() = default;
  explicit array_base(handle h) : handle_(std::move(h)) {}
  handle handle_;
};

[[noreturn]] REPRISE_API void throw_empty(location at);
inline value_base const& checked(handle const& h, location at = {}) {
  if (!h) throw_empty(at);
  return *h.get();
}

template <class R>
concept has_shape_of_its_own = requires(R const& r) { r.shape(); } || requires(R const& r) { r.rows(); } ||
                               requires(R const& r) { r.dims(); };

// A contiguous range of elements that is not one of ours: std::vector, std::span, std::array.
template <class R>
concept host_range =
    requires(R const& r) {
      { r.data() };
      { r.size() } -> std::convertible_to<std::size_t>;
    } && element<std::remove_cv_t<std::remove_pointer_t<decltype(std::declval<R const&>().data())>>> &&
    !std::derived_from<R, array_base> && !std::same_as<R, std::string>;
template <class R>
using range_element_t = std::remove_cv_t<std::remove_pointer_t<decltype(std::declval<R const&>().data())>>;

}  // namespace detail

// A run-time number: weak like a C++ scalar, but its value is not part of a trace. Changing it never compiles
// anything.
template <element T>
  requires std::is_arithmetic_v<T>
class scalar {
 public:
  scalar() : scalar(T{}) {}
  scalar(T value) : value_(value), id_(detail::next_scalar_id()) {}
  template <std::convertible_to<T> S>
    requires std::is_arithmetic_v<S>
  scalar& operator=(S value) & {
    *this = scalar(static_cast<T>(value));
    return *this;
  }
  // Inside a trace this is a value that the host looked at: the function's body then runs on every call.
  T value() const {
    detail::scalar_was_read(id_);
    return value_;
  }
  std::uint64_t id() const { return id_; }
  T peek() const { return value_; }  // for the library: does not count as looking

 private:
  T value_;
  std::uint64_t id_;
};

// An operand of an operator on array<T>: the array, or a number that takes its dtype. Its constructor's
// default argument is evaluated where the user wrote the expression, so every operation knows its line.
template <element T>
class operand {
 public:
  operand(array<T> const& a, location at = location::current());
  template <detail::weak_for<T> S>
  operand(S value, location at = location::current()) : at_(at) {
    argument_.type = dtype_v<T>;
    argument_.bits = detail::bits_of<T>(value, at);
  }
  template <class S>
    requires detail::weak_for<S, T>
  operand(scalar<S> const& value, location at = location::current()) : at_(at) {
    argument_.kind = detail::argument_kind::scalar;
    argument_.type = dtype_v<S>;  // its own: recording casts it, so that one number is one parameter
    argument_.bits = detail::bits_of<S>(value.peek(), at);
    argument_.scalar_id = value.id();
  }
  struct cast_the_array_to_the_type_of_the_number_first {};
  template <detail::too_strong_for<T> S>
  operand(S, cast_the_array_to_the_type_of_the_number_first = {}) = delete;

  detail::argument const& argument() const { return argument_; }
  location at() const { return at_; }

 private:
  detail::argument argument_;
  location at_;
};

// The marker of a whole axis in x(...); so is {}.
struct every_t {};
inline constexpr every_t every{};
struct newaxis_t {};
inline constexpr newaxis_t newaxis{};
struct ellipsis_t {};
inline constexpr ellipsis_t ellipsis{};

namespace detail {
// A bound of a range: a number, or {} for the end that it is at.
struct bound {
  bool given = false;
  std::int64_t value = 0;
  constexpr bound() = default;
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  constexpr bound(I i) : given(true), value(static_cast<std::int64_t>(i)) {}
};
}  // namespace detail

// Elements start, start + step, ... before stop, as in NumPy.
struct slice {
  detail::bound start, stop, step;
  constexpr slice(detail::bound start = {}, detail::bound stop = {}, detail::bound step = {})
      : start(start), stop(stop), step(step) {}
};

// One index of x(...): x(0), x({1, -1}), x({{}, {}, -1}), x(newaxis), x(ellipsis, 0).
class index : public detail::index_argument {
 public:
  constexpr index() { kind = detail::index_kind::range; }
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  constexpr index(I i) {
    kind = detail::index_kind::integer;
    start = static_cast<std::int64_t>(i);
  }
  constexpr index(detail::bound from, detail::bound to) : index(slice(from, to)) {}
  constexpr index(detail::bound from, detail::bound to, detail::bound by) : index(slice(from, to, by)) {}
  constexpr index(slice s) {
    kind = detail::index_kind::range;
    has_start = s.start.given;
    start = s.start.value;
    has_stop = s.stop.given;
    stop = s.stop.value;
    step = s.step.given ? s.step.value : 1;
  }
  constexpr index(every_t) : index() {}
  constexpr index(newaxis_t) { kind = detail::index_kind::newaxis; }
  constexpr index(ellipsis_t) { kind = detail::index_kind::ellipsis; }
  static constexpr index absent() {
    index i;
    i.kind = detail::index_kind::absent;
    return i;
  }
};

namespace detail {
// Nested braces: {1, 2}, {{1, 2}, {3, 4}}. One recursive type, so that the rank is what is written.
template <element T>
class literal {
 public:
  template <weak_for<T> S>
  literal(S value) : value_(element_of<T>(bits_of<T>(value, {}))) {}
  literal(T value)
    requires(!number<T>)
      : value_(value) {}
  literal(std::initializer_list<literal> list) : list_(list), is_list_(true) {}
  // Appends the elements and returns the shape below this level; throws argument_error for uneven braces.
  void flatten(std::vector<std::uint8_t>& bytes, shape& extents, int depth) const {
    if (!is_list_) {
      if (depth != extents.rank()) throw argument_error("array: the braces of a literal are uneven");
      auto const* raw = reinterpret_cast<std::uint8_t const*>(&value_);
      bytes.insert(bytes.end(), raw, raw + sizeof(T));
      return;
    }
    if (depth == extents.rank()) {
      if (!bytes.empty()) throw argument_error("array: the braces of a literal are uneven");
      extents.push_back(static_cast<std::int64_t>(list_.size()));
    } else if (extents[depth] != static_cast<std::int64_t>(list_.size())) {
      throw argument_error("array: the braces of a literal are uneven");
    }
    for (auto const& l : list_) l.flatten(bytes, extents, depth + 1);
  }

 private:
  T value_{};
  std::vector<literal> list_;
  bool is_list_ = false;
};
}  // namespace detail

template <element T>
class array : public detail::array_base {
 public:
  using value_type = T;
  using const_iterator = T const*;
  using iterator = const_iterator;

  // Names no value: every use but assignment throws.
  array() = default;
  array(array const&) = default;
  array(array&&) noexcept = default;
  ~array() = default;
  // A copy of host memory, of rank 1. The caller may change or free it afterwards.
  template <detail::host_range R>
    requires std::same_as<detail::range_element_t<R>, T>
  array(R const& elements, location at = location::current())
      : array_base(
            detail::from_host(dtype_v<T>, elements.data(), reprise::shape({dim(elements.size())}), at)) {
    static_assert(!detail::has_shape_of_its_own<R>,
                  "a container with a shape of its own needs reprise::adapt");
  }
  template <detail::host_range R>
    requires std::same_as<detail::range_element_t<R>, T>
  array(R const& elements, reprise::shape const& extents, location at = location::current())
      : array_base(detail::from_host(dtype_v<T>, checked_data(elements, extents, at), extents, at)) {}
  // array<float> x{1, 2.5, n} is of rank 1, {{1, 2}, {3, 4}} of rank 2.
  array(std::initializer_list<detail::literal<T>> list) {
    std::vector<std::uint8_t> bytes;
    reprise::shape extents{static_cast<std::int64_t>(list.size())};
    for (auto const& l : list) l.flatten(bytes, extents, 1);
    handle_ = detail::from_host(dtype_v<T>, bytes.data(), extents, {});
  }
  explicit array(detail::handle h) : array_base(std::move(h)) {}

  array& operator=(array const&) & = default;
  array& operator=(array&&) & noexcept = default;
  void operator=(array const&) && = delete;  // a temporary: the assignment would be lost
  void operator=(array const&) const& = delete;

  reprise::shape const& shape() const {
    detail::note_use(handle_);
    return detail::checked(handle_).extents;
  }
  int rank() const { return shape().rank(); }
  std::size_t size() const { return static_cast<std::size_t>(shape().size()); }
  bool empty() const { return size() == 0; }
  static constexpr reprise::dtype dtype() { return dtype_v<T>; }

  // Reading. Finishes the work that this array needs, once; the pointers live as long as this value has a
  // handle.
  T const* data(location at = location::current()) const {
    return static_cast<T const*>(detail::host_data(handle_, true, at));
  }
  T const* begin() const { return data({}); }
  T const* end() const { return data({}) + size(); }
  operator std::vector<T>() const { return std::vector<T>(begin(), end()); }
  std::vector<T> to_vector(location at = location::current()) const {
    T const* p = data(at);
    return std::vector<T>(p, p + size());
  }
  // One element, in row-major order for a rank other than 1. Inside a trace a guard.
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  T operator[](I i) const {
    return detail::element_of<T>(detail::host_item(handle_, static_cast<std::int64_t>(i), {}));
  }
  // The value of an array of one element.
  T item(location at = location::current()) const {
    if (size() != 1)
      throw argument_error("item: an array of shape " + shape().str() + " has not one element");
    return detail::element_of<T>(detail::host_item(handle_, 0, at));
  }
  explicit operator bool() const {
    if (size() != 1)
      throw argument_error("the truth of an array of shape " + shape().str() +
                           " is not one value: use any() or all()");
    return static_cast<bool>(static_cast<promote_t<T, bool>>(item({})) != element_zero());
  }

  // Slices: values for a temporary or const array; for an lvalue a slot, which writes through while it is a
  // temporary.
  slot<T> operator()(index i0, index i1 = index::absent(), index i2 = index::absent(),
                     index i3 = index::absent(), index i4 = index::absent(), index i5 = index::absent(),
                     index i6 = index::absent(), index i7 = index::absent(),
                     location at = location::current()) & {
    return slot<T>(*this, {i0, i1, i2, i3, i4, i5, i6, i7}, at);
  }
  array operator()(index i0, index i1 = index::absent(), index i2 = index::absent(),
                   index i3 = index::absent(), index i4 = index::absent(), index i5 = index::absent(),
                   index i6 = index::absent(), index i7 = index::absent(),
                   location at = location::current()) const& {
    detail::index_argument const all[] = {i0, i1, i2, i3, i4, i5, i6, i7};
    return array(detail::record_slice(handle_, all, at));
  }
  array operator()(index i0, index i1 = index::absent(), index i2 = index::absent(),
                   index i3 = index::absent(), index i4 = index::absent(), index i5 = index::absent(),
                   index i6 = index::absent(), index i7 = index::absent(),
                   location at = location::current()) && {
    detail::index_argument const all[] = {i0, i1, i2, i3, i4, i5, i6, i7};
    return array(detail::record_slice(handle_, all, at));
  }

#define REPRISE_OPERATOR(symbol, row)                                                                \
  friend array operator symbol(operand<T> a, operand<T> b) {                                         \
    detail::argument const both[] = {a.argument(), b.argument()};                                    \
    return array(detail::record_elementwise(detail::opcode::row, dtype_v<T>, both, 2, b.at()));      \
  }                                                                                                  \
  template <element U>                                                                               \
    requires(!std::same_as<T, U>)                                                                    \
  friend array<promote_t<T, U>> operator symbol(operand<T> a, array<U> const& b) {                   \
    detail::argument const both[] = {a.argument(),                                                   \
                                     {detail::argument_kind::array, dtype_v<U>, &b.reference()}};    \
    return array<promote_t<T, U>>(                                                                   \
        detail::record_elementwise(detail::opcode::row, dtype_v<promote_t<T, U>>, both, 2, a.at())); \
  }
  REPRISE_OPERATOR(+, add)
  REPRISE_OPERATOR(-, sub)
  REPRISE_OPERATOR(*, mul)
  REPRISE_OPERATOR(/, div)
  REPRISE_OPERATOR(%, fmod)
  REPRISE_OPERATOR(&, bitwise_and)
  REPRISE_OPERATOR(|, bitwise_or)
  REPRISE_OPERATOR(^, bitwise_xor)
  REPRISE_OPERATOR(<<, left_shift)
  REPRISE_OPERATOR(>>, right_shift)
#undef REPRISE_OPERATOR

#define REPRISE_COMPARISON(symbol, row)                                                               \
  friend array<bool> operator symbol(operand<T> a, operand<T> b) {                                    \
    detail::argument const both[] = {a.argument(), b.argument()};                                     \
    return array<bool>(detail::record_elementwise(detail::opcode::row, dtype_v<T>, both, 2, b.at())); \
  }                                                                                                   \
  template <element U>                                                                                \
    requires(!std::same_as<T, U>)                                                                     \
  friend array<bool> operator symbol(operand<T> a, array<U> const& b) {                               \
    detail::argument const both[] = {a.argument(),                                                    \
                                     {detail::argument_kind::array, dtype_v<U>, &b.reference()}};     \
    return array<bool>(                                                                               \
        detail::record_elementwise(detail::opcode::row, dtype_v<promote_t<T, U>>, both, 2, a.at()));  \
  }
  REPRISE_COMPARISON(==, equal)
  REPRISE_COMPARISON(!=, not_equal)
  REPRISE_COMPARISON(<, less)
  REPRISE_COMPARISON(<=, less_equal)
  REPRISE_COMPARISON(>, greater)
  REPRISE_COMPARISON(>=, greater_equal)
#undef REPRISE_COMPARISON

#define REPRISE_UNARY(symbol, row)                                                          \
  friend array operator symbol(array const& a) {                                            \
    detail::argument const one{detail::argument_kind::array, dtype_v<T>, &a.reference()};   \
    return array(detail::record_elementwise(detail::opcode::row, dtype_v<T>, &one, 1, {})); \
  }
  REPRISE_UNARY(-, neg)
  REPRISE_UNARY(~, invert)
#undef REPRISE_UNARY
  friend array operator+(array const& a) { return a; }
  friend array<bool> operator!(array const& a) {
    detail::argument const one{detail::argument_kind::array, dtype_v<T>, &a.reference()};
    return array<bool>(detail::record_elementwise(detail::opcode::logical_not, dtype_v<T>, &one, 1, {}));
  }

  // Rebind this handle to the new value; other handles of the old value keep it.
#define REPRISE_COMPOUND(symbol) \
  array& operator symbol##=(operand<T> b)& { return *this = static_cast<array const&>(*this) symbol b; }
  REPRISE_COMPOUND(+)
  REPRISE_COMPOUND(-)
  REPRISE_COMPOUND(*)
  REPRISE_COMPOUND(/)
  REPRISE_COMPOUND(%)
  REPRISE_COMPOUND(&)
  REPRISE_COMPOUND(|)
  REPRISE_COMPOUND(^)
#undef REPRISE_COMPOUND

  friend std::ostream& operator<<(std::ostream& out, array const& a) {
    std::string const text = detail::to_text(a.handle_, {});
    return detail_write(out, text);
  }

 private:
  template <class Stream>
  static Stream& detail_write(Stream& out, std::string const& text) {
    out.write(text.data(), static_cast<std::ptrdiff_t>(text.size()));
    return out;
  }
  static auto element_zero() {
    if constexpr (std::is_arithmetic_v<promote_t<T, bool>>) return promote_t<T, bool>{};
    else return 0.f;
  }
  template <class R>
  static void const* checked_data(R const& elements, reprise::shape const& extents, location at) {
    if (static_cast<std::int64_t>(elements.size()) != extents.size())
      throw argument_error("array: " + std::to_string(elements.size()) + " elements do not fill shape " +
                           extents.str() + " (" + at.file + ":" + std::to_string(at.line) + ")");
    return elements.data();
  }
};

template <detail::host_range R>
array(R const&) -> array<detail::range_element_t<R>>;
template <detail::host_range R>
array(R const&, shape) -> array<detail::range_element_t<R>>;
template <detail::number S>
array(std::initializer_list<S>) -> array<S>;

// What x(...) gives for a non-const lvalue: the sliced value, which writes through to x while it is a
// temporary. A named slot is an ordinary value.
template <element T>
class slot : public array<T> {
 public:
  slot(array<T>& target, std::initializer_list<index> indices, location at) : target_(&target), at_(at) {
    int i = 0;
    for (index const& one : indices) indices_[i++] = one;
    this->handle_ = detail::record_slice(target.reference(), indices_, at);
  }
  slot(slot const& o) : array<T>(o) {}
  ~slot() = default;
  void operator=(operand<T> y) && { assign(y.argument(), y.at()); }
  void operator=(slot const& y) && {
    assign({detail::argument_kind::array, dtype_v<T>, &y.reference()}, at_);
  }
  slot& operator=(slot const& y) & {
    this->handle_ = y.handle_;
    return *this;
  }
  slot& operator=(array<T> const& y) & {
    this->handle_ = y.reference();
    return *this;
  }
#define REPRISE_COMPOUND(symbol)                                                  \
  void operator symbol##=(operand<T> b)&& {                                       \
    array<T> const sum = static_cast<array<T> const&>(*this) symbol b;            \
    assign({detail::argument_kind::array, dtype_v<T>, &sum.reference()}, b.at()); \
  }
  REPRISE_COMPOUND(+)
  REPRISE_COMPOUND(-)
  REPRISE_COMPOUND(*)
  REPRISE_COMPOUND(/)
  REPRISE_COMPOUND(%)
  REPRISE_COMPOUND(&)
  REPRISE_COMPOUND(|)
  REPRISE_COMPOUND(^)
#undef REPRISE_COMPOUND
  using array<T>::operator+=;
  using array<T>::operator-=;
  using array<T>::operator*=;
  using array<T>::operator/=;

 private:
  void assign(detail::argument const& y, location at) {
    if (!target_) detail::throw_empty(at);
    target_->reference() = detail::record_slice_update(target_->reference(), indices_, y, at);
  }
  array<T>* target_ = nullptr;
  detail::index_argument indices_[max_rank];
  location at_;
};

template <element T>
operand<T>::operand(array<T> const& a, location at) : at_(at) {
  argument_.kind = detail::argument_kind::array;
  argument_.type = dtype_v<T>;
  argument_.array = &a.reference();
}

}  // namespace reprise::inline v1
