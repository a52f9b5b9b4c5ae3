// cuda::trace: a callable that is recorded on its first call, compiled, and replayed on later ones. The
// callable is ordinary C++ over arrays; what a trace can see of the world, and what happens when that
// changes, is docs/semantics.md.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <reprise/context.h>
#include <reprise/functions.h>
#include <reprise/reflect.h>

namespace reprise::inline v1 {

namespace detail {

// One call of a traced callable, from packed arguments to results. The library's side of traced::operator().
class REPRISE_API call {
 public:
  // key: the address that stands for the callable's type; target: a function pointer's value, else 0; types:
  // the address that stands for the argument types, since equal bytes of different types are different calls.
  call(void const* key, std::uint64_t target, void const* types, bool stateless);
  ~call();
  call(call const&) = delete;
  call& operator=(call const&) = delete;

  // Inside the body of another traced call this one is part of it: nothing is packed, the body simply runs.
  bool nested() const { return nested_; }

  // Packing, in order. `rebindable`: the caller's own mutable object.
  void add_bytes(void const* p, std::size_t n);
  void add_array(handle const& h, bool rebindable);
  void add_scalar(std::uint64_t id, dtype type, std::uint64_t bits);
  // Before a recording: what the leaves are called, in packing order.
  void name_array(std::string name);
  void name_scalar(std::string name);
  // Host memory as an array for the length of this call; the same memory twice is one array.
  handle borrow(dtype type, void const* data, std::int64_t size);
  void* shared_object(void const* address, void const* tag,
                      void* mine);  // one temporary for each distinct caller object

  // Signature look-up. True: the program ran, results are there.
  bool replay();
  void const* prototype() const;  // of the result object, as given to finish()
  handle take_result();           // results of a replay, in the order of add_result
  // For each rebindable array argument in packing order: is it another array now? then which.
  bool take_rebound(handle& h);

  // First call, or a callable with state: record the body between begin() and finish().
  void begin();
  void abort() noexcept;
  void after_bytes(void const* p, std::size_t n);  // the arguments again, after the body
  void after_array(handle const& h);
  void after_scalar(std::uint64_t id);
  void add_result_bytes(void const* p, std::size_t n);
  // Before results go to callers' memory: an array over one caller's memory that another argument is now gets
  // memory of its own.
  void own(handle const& h);
  void add_result(handle& h);  // the address stays valid until finish() returns
  // `check`: record the body once more before later calls may do without it. True: begin_check(), the body,
  // end_check().
  bool finish(std::shared_ptr<void const> prototype, bool replayable, bool check);
  void begin_check();
  void
  end_check();  // throws error when the two recordings differ, and keeps nothing of this call for later ones

 private:
  struct state;
  state* state_;
  bool nested_;
};

REPRISE_API std::string traced_json(void const* key, std::uint64_t target);
REPRISE_API void forget_callable(void const* key) noexcept;  // its code is being unloaded

// The identity of a callable's type: the address of a tag that no other library shares, dropped with the code
// that owns it.
template <class F>
struct __attribute__((visibility("hidden"))) callable_key {
  struct entry {
    char tag = 0;
    ~entry() { forget_callable(this); }
  };
  static inline entry tag;
};

template <class... A>
struct __attribute__((visibility("hidden"))) argument_types {
  static inline char tag = 0;
};

template <class T>
struct a_traced_function_must_take_arrays_not_host_memory {
  static_assert(
      sizeof(T) == 0,
      "inside a trace every data argument is a cuda::array: take `auto const&` or `cuda::array<T> const&`");
};
template <class P>
constexpr bool checked_parameter() {
  if constexpr (host_range<std::remove_cvref_t<P>>)
    static_cast<void>(a_traced_function_must_take_arrays_not_host_memory<P>{});
  return true;
}
template <class F>
struct signature_check {
  static constexpr bool value = true;
};
template <class R, class... P>
struct signature_check<R (*)(P...)> {
  static constexpr bool value = (checked_parameter<P>() && ... && true);
};
template <class R, class... P>
struct signature_check<R (*)(P...) noexcept> : signature_check<R (*)(P...)> {};
template <class M>
struct member_check {
  static constexpr bool value = true;
};
template <class R, class C, class... P>
struct member_check<R (C::*)(P...)> : signature_check<R (*)(P...)> {};
template <class R, class C, class... P>
struct member_check<R (C::*)(P...) const> : signature_check<R (*)(P...)> {};
template <class R, class C, class... P>
struct member_check<R (C::*)(P...) noexcept> : signature_check<R (*)(P...)> {};
template <class R, class C, class... P>
struct member_check<R (C::*)(P...) const noexcept> : signature_check<R (*)(P...)> {};
template <class F>
constexpr bool check_callable() {
  if constexpr (requires { &F::operator(); }) return member_check<decltype(&F::operator())>::value;
  else return signature_check<F>::value;
}

// What the body receives for an argument of type T: arrays for host memory at top level and in tuples and
// vectors of it, else T itself.
template <class T>
struct mapped {
  using type = T;
  static constexpr bool changes = false;
};
template <class T>
  requires host_range<T>
struct mapped<T> {
  using type = array<range_element_t<T>>;
  static constexpr bool changes = true;
};
template <class T, std::size_t N>
  requires element<std::remove_cv_t<T>> && (!std::same_as<std::remove_cv_t<T>, char>)
struct mapped<T[N]> {
  using type = array<std::remove_cv_t<T>>;
  static constexpr bool changes = true;
};
template <std::size_t N>
struct mapped<char[N]> {
  using type = std::string;
  static constexpr bool changes = true;
};
template <std::size_t N>
struct mapped<char const[N]> : mapped<char[N]> {};
template <class... T>
  requires(mapped<T>::changes || ...)
struct mapped<std::tuple<T...>> {
  using type = std::tuple<typename mapped<T>::type...>;
  static constexpr bool changes = true;
};
template <class A, class B>
  requires(mapped<A>::changes || mapped<B>::changes)
struct mapped<std::pair<A, B>> {
  using type = std::pair<typename mapped<A>::type, typename mapped<B>::type>;
  static constexpr bool changes = true;
};
template <class T>
  requires(!element<T> && mapped<T>::changes)
struct mapped<std::vector<T>> {
  using type = std::vector<typename mapped<T>::type>;
  static constexpr bool changes = true;
};
template <class T>
struct mapped<slot<T>> {
  using type = array<T>;
  static constexpr bool changes = true;
};

template <class S>
void to_mapped(S const& from, typename mapped<S>::type& to, call& c) {
  if constexpr (host_range<S>) {
    to.reference() =
        c.borrow(dtype_v<range_element_t<S>>, from.data(), static_cast<std::int64_t>(from.size()));
  } else if constexpr (std::is_array_v<S>) {
    if constexpr (std::same_as<typename mapped<S>::type, std::string>) to = from;
    else
      to.reference() = c.borrow(dtype_v<std::remove_cvref_t<decltype(from[0])>>, from,
                                static_cast<std::int64_t>(std::size(from)));
  } else if constexpr (std::derived_from<S, array_base>) {
    to.reference() = from.reference();
  } else if constexpr (is_vector<S>) {
    to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) to_mapped(from[i], to[i], c);
  } else if constexpr (is_tuple<S>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (
          [&] {
            using P = std::remove_cvref_t<std::tuple_element_t<I, S>>;
            if constexpr (mapped<P>::changes) to_mapped(std::get<I>(from), std::get<I>(to), c);
            else std::get<I>(to) = std::get<I>(from);
          }(),
          ...);
    }(std::make_index_sequence<std::tuple_size_v<S>>{});
  }
}

// Back into the caller's memory, where the body rebound an array.
template <class S>
void from_mapped(typename mapped<S>::type const& from, S& to, handle const& before) {
  if constexpr (is_vector<S> && std::derived_from<typename mapped<S>::type, array_base>) {
    if (!(from.reference() == before)) to = static_cast<S>(from);
  } else if constexpr ((host_range<S> || std::is_array_v<S>) &&
                       std::derived_from<typename mapped<S>::type, array_base>) {
    if (!(from.reference() == before)) {
      if (from.size() != std::size(to))
        throw argument_error("trace: an array of shape " + from.shape().str() +
                             " does not fit into the caller's " + std::to_string(std::size(to)) +
                             " elements");
      if constexpr (!std::is_const_v<std::remove_reference_t<decltype(*std::data(to))>>) {
        auto const* p = from.begin();
        for (auto& one : to) one = *p++;
      }
    }
  }
}

struct packing {
  call& c;
  bool rebindable;
  template <class A>
  void data(A& a) {
    c.add_array(a.reference(), rebindable);
  }
  template <class T>
  void number(scalar<T>& s) {
    c.add_scalar(s.id(), dtype_v<T>, bits_of<T>(s.peek(), {}));
  }
  template <class T>
  void number(scalar<T> const& s) {
    c.add_scalar(s.id(), dtype_v<T>, bits_of<T>(s.peek(), {}));
  }
  void bytes(void const* p, std::size_t n) { c.add_bytes(p, n); }
};
struct repacking {
  call& c;
  template <class A>
  void data(A& a) {
    c.after_array(a.reference());
  }
  template <class T>
  void number(scalar<T>& s) {
    c.after_scalar(s.id());
  }
  template <class T>
  void number(scalar<T> const& s) {
    c.after_scalar(s.id());
  }
  void bytes(void const* p, std::size_t n) { c.after_bytes(p, n); }
};
struct rebinding {
  call& c;
  template <class A>
  void data(A& a) {
    handle h;
    if constexpr (!std::is_const_v<A>)
      if (c.take_rebound(h)) a.reference() = std::move(h);
  }
  template <class S>
  void number(S&) {}
  void bytes(void const*, std::size_t) {}
};
struct naming {  // "1.weight": the argument, then the path of fields
  call& c;
  std::vector<std::string> path;
  std::string text() const {
    std::string t;
    for (auto const& p : path) t += (t.empty() ? "" : ".") + p;
    return t;
  }
  void enter(std::string_view name) { path.emplace_back(name); }
  void leave() { path.pop_back(); }
  template <class A>
  void data(A&) {
    c.name_array(text());
  }
  template <class S>
  void number(S&) {
    c.name_scalar(text());
  }
  void bytes(void const*, std::size_t) {}
};
struct restoring {  // puts the handles of mutable arguments back after a throw
  std::vector<handle> saved;
  std::size_t next = 0;
  bool back = false;
  template <class A>
  void data(A& a) {
    if constexpr (!std::is_const_v<A>) {
      if (!back) saved.push_back(a.reference());
      else if (next < saved.size()) a.reference() = saved[next++];
    }
  }
  template <class S>
  void number(S&) {}
  void bytes(void const*, std::size_t) {}
};
struct collecting {
  call& c;
  template <class A>
  void data(A& a) {
    if constexpr (!std::is_const_v<A>) c.add_result(a.reference());
  }
  template <class S>
  void number(S&) {}
  void bytes(void const* p, std::size_t n) { c.add_result_bytes(p, n); }
};
struct clearing {
  template <class A>
  void data(A& a) {
    a.reference() = handle();
  }
  template <class S>
  void number(S&) {}
  void bytes(void const*, std::size_t) {}
};
struct filling {
  call& c;
  template <class A>
  void data(A& a) {
    a.reference() = c.take_result();
  }
  template <class S>
  void number(S&) {}
  void bytes(void const*, std::size_t) {}
};

// One argument for the length of a call: the caller's own object by reference, or a temporary of arrays over
// his host memory.
template <class A>  // as deduced by A&&
class bound_argument {
  using plain = std::remove_cvref_t<A>;
  static constexpr bool maps = mapped<plain>::changes;
  using object = typename mapped<plain>::type;
  static constexpr bool mutable_lvalue =
      std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;

 public:
  // Made in place from one argument, as an element of a tuple: its address is known to the call.
  struct source {
    std::remove_reference_t<A>* object;
    call* c;
  };
  explicit bound_argument(source s) : caller_(s.object) {
    [[maybe_unused]] call& c = *s.c;
    if constexpr (maps) {
      static char const tag = 0;
      shared_ = static_cast<object*>(c.shared_object(caller_, &tag, &temporary_));
      if (shared_ == &temporary_) to_mapped<plain>(*caller_, temporary_, c);
      if constexpr (std::derived_from<object, array_base>) before_ = shared_->reference();
    }
  }
  bound_argument(bound_argument const&) = delete;
  bound_argument& operator=(bound_argument const&) = delete;
  decltype(auto) value() {
    if constexpr (maps) {
      if constexpr (!std::is_lvalue_reference_v<A>) return std::move(*shared_);
      else if constexpr (mutable_lvalue) return static_cast<object&>(*shared_);
      else return static_cast<object const&>(*shared_);
    } else {
      return static_cast<A&&>(*caller_);
    }
  }
  auto& object_of() {
    if constexpr (maps) return *shared_;
    else return *caller_;
  }
  template <class V>
  void visit(V& v) {
    walk(object_of(), v);
  }
  void pack(call& c) {
    packing v{c, mutable_lvalue};
    visit(v);
  }
  void own_what_goes_back(call& c) {
    if constexpr (maps && mutable_lvalue && std::derived_from<object, array_base>)
      if (!(shared_->reference() == before_)) {
        c.own(shared_->reference());  // another argument's memory, which may be written first
        c.own(before_);               // what a handle elsewhere may still name
      }
  }
  void write_back() {
    if constexpr (maps && mutable_lvalue) from_mapped<plain>(*shared_, *caller_, before_);
  }

 private:
  std::remove_reference_t<A>* caller_;
  std::conditional_t<maps, object, std::tuple<>> temporary_{};
  std::conditional_t<maps, object, std::tuple<>>* shared_ = nullptr;
  handle before_;
};

template <class F>
constexpr bool stateless_callable = std::is_empty_v<F> || std::is_function_v<std::remove_pointer_t<F>> ||
                                    std::is_member_function_pointer_v<F>;

template <class F>
std::uint64_t target_of(F const& f) {
  if constexpr (std::is_pointer_v<F>) return reinterpret_cast<std::uint64_t>(f);
  else if constexpr (std::is_member_function_pointer_v<F>) {
    std::uint64_t words[2] = {};
    static_assert(sizeof(f) <= sizeof words);
    __builtin_memcpy(words, &f, sizeof f);
    return words[0] ^ words[1] * 0x9e3779b97f4a7c15u;
  } else {
    return 0;
  }
}

template <class R>
using result_of_body = typename mapped<std::remove_cvref_t<R>>::type;

// In builds without NDEBUG a first call is recorded twice: a counter, a clock or a random number in the body
// shows.
#ifdef NDEBUG
#define REPRISE_RECORDS_TWICE false
#else
#define REPRISE_RECORDS_TWICE true
#endif

// The whole of a call, for traced and context::run.
template <class F, class... A>
auto perform(F& f, A&&... a) {
  using plain = std::remove_cvref_t<F>;
  static_assert(check_callable<plain>());
  call c(&callable_key<plain>::tag, target_of<plain>(f), &argument_types<A...>::tag,
         stateless_callable<plain>);
  std::tuple<bound_argument<A>...> bound(typename bound_argument<A>::source{&a, &c}...);
  auto each = [&](auto&& fn) { std::apply([&](auto&... b) { (fn(b), ...); }, bound); };
  auto body = [&]() -> decltype(auto) {
    return std::apply([&](auto&... b) -> decltype(auto) { return std::invoke(f, b.value()...); }, bound);
  };
  using raw = decltype(body());
  auto write_back = [&] {
    each([&](auto& b) { b.own_what_goes_back(c); });
    each([](auto& b) { b.write_back(); });
  };
  if constexpr (std::is_void_v<raw>) {
    if (c.nested()) {
      body();
      write_back();
      return;
    }
  } else {
    if (c.nested()) {
      result_of_body<raw> r = body();
      write_back();
      return r;
    }
  }
  each([&](auto& b) { b.pack(c); });
  auto give_back = [&] {
    rebinding v{c};
    each([&](auto& b) { b.visit(v); });
    write_back();
  };
  if (c.replay()) {
    if constexpr (std::is_void_v<raw>) {
      give_back();
      return;
    } else {
      using R = result_of_body<raw>;
      if constexpr (std::copy_constructible<R>) {
        R r(*static_cast<R const*>(c.prototype()));
        filling v{c};
        walk(r, v);
        give_back();
        return r;
      }
    }
  }
  naming names{c, {}};
  each([&, i = 0](auto& b) mutable {
    names.enter(std::to_string(i++));
    b.visit(names);
    names.leave();
  });
  restoring saved;
  each([&](auto& b) { b.visit(saved); });
  c.begin();
  auto undo = [&]() noexcept {
    c.abort();
    saved.back = true;
    saved.next = 0;
    each([&](auto& b) { b.visit(saved); });
  };
  auto again = [&] {
    repacking v{c};
    each([&](auto& b) { b.visit(v); });
  };
  // The body once more on the arguments as they were, for comparison; then the arguments are as after the
  // call.
  auto check = [&] {
    restoring after;
    each([&](auto& b) { b.visit(after); });
    saved.back = after.back = true;
    saved.next = 0;
    each([&](auto& b) { b.visit(saved); });
    c.begin_check();
    if constexpr (std::is_void_v<raw>) {
      body();
      again();
      c.end_check();
    } else {
      result_of_body<raw> second = body();
      again();
      collecting v{c};
      walk(second, v);
      c.end_check();
    }
    each([&](auto& b) { b.visit(after); });
  };
  if constexpr (std::is_void_v<raw>) {
    try {
      body();
      again();
      if (c.finish(nullptr, true, REPRISE_RECORDS_TWICE)) check();
    } catch (...) {
      undo();
      throw;
    }
    write_back();
  } else {
    using R = result_of_body<raw>;
    try {
      R r = body();
      again();
      collecting v{c};
      walk(r, v);
      std::shared_ptr<void const> kept;
      if constexpr (std::copy_constructible<R>) {
        auto copy = std::make_shared<R>(r);
        clearing w;
        walk(*copy, w);
        kept = copy;
      }
      if (c.finish(std::move(kept), std::copy_constructible<R>, REPRISE_RECORDS_TWICE)) check();
      write_back();
      return r;
    } catch (...) {
      undo();
      throw;
    }
  }
}

#undef REPRISE_RECORDS_TWICE

}  // namespace detail

// A traced callable. Copies share nothing but the callable's type: programs are kept by context, callable and
// signature.
template <class F>
class traced {
 public:
  explicit traced(F f) : f_(std::move(f)) {}

  template <class... A>
  auto operator()(A&&... a) {
    static_assert(std::is_invocable_v<F&, decltype(std::declval<detail::bound_argument<A>&>().value())...>,
                  "the callable does not take these arguments: their number, or a temporary where it wants a "
                  "non-const reference");
    return detail::perform(f_, std::forward<A>(a)...);
  }
  template <class... A>
  auto operator()(A&&... a) const {
    static_assert(
        std::is_invocable_v<F const&, decltype(std::declval<detail::bound_argument<A>&>().value())...>,
        "the callable does not take these arguments, or is mutable while the traced object is const");
    return detail::perform(f_, std::forward<A>(a)...);
  }
  // The program of the last recording of this callable, as JSON. Throws argument_error before the first call.
  std::string json() const {
    return detail::traced_json(&detail::callable_key<F>::tag, detail::target_of<F>(f_));
  }

 private:
  [[no_unique_address]] F f_;
};

template <class F>
traced<std::decay_t<F>> trace(F&& f) {
  return traced<std::decay_t<F>>(std::forward<F>(f));
}

template <class F, class... A>
auto context::run(F&& f, A&&... a) const {
  use const here(*this);
  return detail::perform(f, std::forward<A>(a)...);
}

// Writes the value of x to a stream, also from inside a trace (the function's body then runs on every call).
REPRISE_API void print_text(std::string_view label, std::string const& text, std::ostream* to);
template <element T>
void print(array<T> const& x, std::string_view label = {}, std::ostream* to = nullptr,
           location at = location::current()) {
  print_text(label, detail::to_text(x.reference(), at), to);
}

}  // namespace reprise::inline v1
