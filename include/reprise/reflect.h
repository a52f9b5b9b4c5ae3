// The fields of a record, without macros: aggregates of up to 32 fields by counting and structured bindings,
// tuples, pairs, optionals, vectors and arrays of those, classes that say their fields (reprise_fields(),
// reprise::fields<T>) and static leaves (is_static<T>). Tracing sees a record as a list of leaves: arrays and
// run-time numbers are data, everything else is static.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <reprise/array.h>

namespace reprise::inline v1 {

// For a type that you cannot edit: `static auto of(auto& x) { return std::tie(x.a, x.b); }`.
template <class T>
struct fields;

// A leaf that is part of the signature as its bytes: trivially copyable, without padding.
template <class T>
inline constexpr bool is_static = false;

namespace detail {

// Three wildcards: for members that copy, that move, and that do neither. Not constexpr, never defined.
struct any_copied {
  template <class T>
  operator T&() const&;
};
struct any_moved {
  template <class T>
  operator T&&() const&&;
};
struct any_made {
  template <class T>
  operator T() const;
};

template <class T, class Any, std::size_t... I>
constexpr bool initialized_by(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Any{})...}; };
}
template <class T, std::size_t N>
constexpr bool takes() {
  return initialized_by<T, any_copied>(std::make_index_sequence<N>{}) ||
         initialized_by<T, any_moved>(std::make_index_sequence<N>{}) ||
         initialized_by<T, any_made>(std::make_index_sequence<N>{});
}
template <class T, std::size_t N = 32>
constexpr std::size_t field_count() {
  if constexpr (N == 0) return 0;
  else if constexpr (takes<T, N>()) return N;
  else return field_count<T, N - 1>();
}

template <class T>
constexpr auto tie_fields(T& x) {
  constexpr std::size_t N = field_count<std::remove_const_t<T>>();
  if constexpr (N == 0) {
    static_cast<void>(x);
    return std::tie();
  } else if constexpr (N == 1) {
    auto& [f0] = x;
    return std::tie(f0);
  } else if constexpr (N == 2) {
    auto& [f0, f1] = x;
    return std::tie(f0, f1);
  } else if constexpr (N == 3) {
    auto& [f0, f1, f2] = x;
    return std::tie(f0, f1, f2);
  } else if constexpr (N == 4) {
    auto& [f0, f1, f2, f3] = x;
    return std::tie(f0, f1, f2, f3);
  } else if constexpr (N == 5) {
    auto& [f0, f1, f2, f3, f4] = x;
    return std::tie(f0, f1, f2, f3, f4);
  } else if constexpr (N == 6) {
    auto& [f0, f1, f2, f3, f4, f5] = x;
    return std::tie(f0, f1, f2, f3, f4, f5);
  } else if constexpr (N == 7) {
    auto& [f0, f1, f2, f3, f4, f5, f6] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6);
  } else if constexpr (N == 8) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7);
  } else if constexpr (N == 9) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8);
  } else if constexpr (N == 10) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9);
  } else if constexpr (N == 11) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10);
  } else if constexpr (N == 12) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11);
  } else if constexpr (N == 13) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12);
  } else if constexpr (N == 14) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13);
  } else if constexpr (N == 15) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14);
  } else if constexpr (N == 16) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15);
  } else if constexpr (N == 17) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16);
  } else if constexpr (N == 18) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17);
  } else if constexpr (N == 19) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18);
  } else if constexpr (N == 20) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19);
  } else if constexpr (N == 21) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20);
  } else if constexpr (N == 22) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20,
           f21] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21);
  } else if constexpr (N == 23) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22);
  } else if constexpr (N == 24) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22, f23] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22, f23);
  } else if constexpr (N == 25) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22, f23, f24] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22, f23, f24);
  } else if constexpr (N == 26) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22, f23, f24, f25] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22, f23, f24, f25);
  } else if constexpr (N == 27) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22, f23, f24, f25, f26] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22, f23, f24, f25, f26);
  } else if constexpr (N == 28) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22, f23, f24, f25, f26, f27] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22, f23, f24, f25, f26, f27);
  } else if constexpr (N == 29) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22, f23, f24, f25, f26, f27, f28] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22, f23, f24, f25, f26, f27, f28);
  } else if constexpr (N == 30) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22, f23, f24, f25, f26, f27, f28, f29] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22, f23, f24, f25, f26, f27, f28, f29);
  } else if constexpr (N == 31) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22, f23, f24, f25, f26, f27, f28, f29, f30] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30);
  } else if constexpr (N == 32) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21,
           f22, f23, f24, f25, f26, f27, f28, f29, f30, f31] = x;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
                    f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31);
  }
}

#if defined(__GNUC__) && !defined(__clang__)
// The name of field I, read off a function's name whose template argument is that field's address. Never
// defined, only named.
template <class T>
struct nowhere {
  T value;
};
template <class T>
extern nowhere<T> const nobody;
template <auto P>
constexpr std::string_view pretty_name() {
  return __PRETTY_FUNCTION__;
}
template <class T, std::size_t I>
constexpr auto field_address() {
  return &std::get<I>(tie_fields(nobody<T>.value));
}
template <class T, std::size_t I>
constexpr std::string_view field_name() {
  std::string_view const all = pretty_name<field_address<T, I>()>();
  std::string_view const upto = all.substr(0, all.find(')', all.find("(& ")));
  return upto.substr(upto.rfind(':') + 1);
}
#else
// Compilers without such template arguments call fields by their numbers.
template <class T, std::size_t I>
constexpr std::string_view field_name() {
  return std::string_view("0 1 2 3 4 5 6 7 8 9 1011121314151617181920212223242526272829303132")
      .substr(2 * I, I < 10 ? 1 : 2);
}
#endif

// Visitors that want to know where they are have enter(name) and leave().
template <class V>
concept wants_names = requires(V& v) { v.enter(std::string_view()); };

template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;
template <class T>
inline constexpr bool is_std_array = false;
template <class T, std::size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_scalar = false;
template <class T>
inline constexpr bool is_scalar<scalar<T>> = true;

template <class T>
concept names_its_fields = requires(T& x) { x.reprise_fields(); };
template <class T>
concept has_fields = requires(T& x) { fields<std::remove_const_t<T>>::of(x); };

// The advice is the name: compilers print it first.
template <class T>
struct a_traced_argument_must_not_hold_a_pointer {
  static_assert(sizeof(T) == 0,
                "a pointer cannot be part of a signature: pass the array, or a reprise::array");
};
template <class T>
struct host_memory_inside_a_record_must_be_a_reprise_array {
  static_assert(
      sizeof(T) == 0,
      "a vector or span of numbers inside a record cannot become data: make the member a reprise::array");
};
template <class T>
struct a_traced_argument_must_be_an_aggregate_or_name_its_fields {
  static_assert(sizeof(T) == 0,
                "give the class reprise_fields(), specialise reprise::fields<T>, or is_static<T>");
};

template <class T, class V>
void walk(T& x, V& v);

// The elements of a tuple, by number or by the names of a record's fields.
template <class Record, class Tuple, class V>
void walk_each(Tuple&& all, V& v) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (
        [&] {
          if constexpr (wants_names<V>) {
            if constexpr (std::is_void_v<Record>) v.enter(std::to_string(I));
            else v.enter(field_name<Record, I>());
          }
          walk(std::get<I>(all), v);
          if constexpr (wants_names<V>) v.leave();
        }(),
        ...);
  }(std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<Tuple>>>{});
}

template <class R, class V>
void walk_range(R& all, V& v) {
  std::size_t i = 0;
  for (auto& one : all) {
    if constexpr (wants_names<V>) v.enter(std::to_string(i++));
    walk(one, v);
    if constexpr (wants_names<V>) v.leave();
  }
  static_cast<void>(i);
}

// Calls leaf handlers of `v` for everything inside x, in the order of declaration:
//   v.data(array_base&)  v.number(scalar<T>&)  v.bytes(void const*, size)
template <class T, class V>
void walk(T& x, V& v) {
  using U = std::remove_const_t<T>;
  if constexpr (std::derived_from<U, array_base>) {
    v.data(x);
  } else if constexpr (is_scalar<U>) {
    v.number(x);
  } else if constexpr (std::is_arithmetic_v<U> || std::is_enum_v<U>) {
    v.bytes(&x, sizeof(U));
  } else if constexpr (std::same_as<U, std::string>) {
    std::size_t const n = x.size();
    v.bytes(&n, sizeof n);
    v.bytes(x.data(), n);
  } else if constexpr (std::same_as<U, shape>) {
    int const rank = x.rank();
    v.bytes(&rank, sizeof rank);
    v.bytes(x.begin(), sizeof(std::int64_t) * static_cast<std::size_t>(rank));
  } else if constexpr (is_static<U>) {
    static_assert(std::has_unique_object_representations_v<U> || std::is_arithmetic_v<U>,
                  "is_static<T> needs a type without padding");
    v.bytes(&x, sizeof(U));
  } else if constexpr (has_fields<T>) {
    walk_each<void>(fields<U>::of(x), v);
  } else if constexpr (names_its_fields<T>) {
    walk_each<void>(x.reprise_fields(), v);
  } else if constexpr (is_tuple<U>) {
    walk_each<void>(x, v);
  } else if constexpr (is_optional<U>) {
    bool const has = x.has_value();
    v.bytes(&has, 1);
    if (has) walk(*x, v);
  } else if constexpr (is_vector<U>) {
    if constexpr (element<typename U::value_type> || std::is_arithmetic_v<typename U::value_type>) {
      static_cast<void>(host_memory_inside_a_record_must_be_a_reprise_array<U>{});
    } else {
      std::size_t const n = x.size();
      v.bytes(&n, sizeof n);
      walk_range(x, v);
    }
  } else if constexpr (is_std_array<U>) {
    walk_range(x, v);
  } else if constexpr (std::is_pointer_v<U> || requires(U const& p) { p.operator->(); }) {
    static_cast<void>(a_traced_argument_must_not_hold_a_pointer<U>{});
  } else if constexpr (host_range<U>) {
    static_cast<void>(host_memory_inside_a_record_must_be_a_reprise_array<U>{});
  } else if constexpr (std::is_empty_v<U>) {
    // nothing to see
  } else if constexpr (std::is_aggregate_v<U> && !std::is_array_v<U>) {
    walk_each<U>(tie_fields(x), v);
  } else {
    static_cast<void>(a_traced_argument_must_be_an_aggregate_or_name_its_fields<U>{});
  }
}

}  // namespace detail
}  // namespace reprise::inline v1
