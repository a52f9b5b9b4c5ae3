// The meaning of one instruction, over many lanes at once: loops that a compiler can turn into vector
// instructions around functions of one element that read like docs/numbers.md.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <reprise/error.h>

#include "jit/interpret.h"

namespace reprise::jit {
namespace {

[[noreturn]] void illegal(instruction const& i, dtype from) {
  throw compile_error("instruction " + std::to_string(static_cast<int>(i.code)) + " does not compute on " +
                      name_of(from));
}

template <class T>
using unsigned_of = std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<T>, int, T>>;

template <class T>
T wrapped(unsigned_of<T> v) {
  return static_cast<T>(v);
}

template <class T>
T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  else return static_cast<T>(static_cast<unsigned_of<T>>(a) + static_cast<unsigned_of<T>>(b));
}
template <class T>
T sub(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a - b;
  else return static_cast<T>(static_cast<unsigned_of<T>>(a) - static_cast<unsigned_of<T>>(b));
}
template <class T>
T mul(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a * b;
  else return static_cast<T>(static_cast<unsigned_of<T>>(a) * static_cast<unsigned_of<T>>(b));
}
template <class T>
T neg(T a) {
  if constexpr (std::is_floating_point_v<T>) return -a;
  else return sub<T>(0, a);
}
template <class T>
T div(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a / b;
  else if (b == 0) return 0;
  else if (std::is_signed_v<T> && b == static_cast<T>(-1)) return neg(a);
  else return static_cast<T>(a / b);
}
template <class T>
T rem(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(a, b);
  else if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
  else return static_cast<T>(a % b);
}
template <class T>
T abs(T a) {
  if constexpr (std::is_floating_point_v<T>) return std::fabs(a);
  else return std::is_signed_v<T> && a < 0 ? neg(a) : a;
}

template <class T>
using bits_of = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
// Equal floating numbers differ in the sign of zero at most: or-ing them gives -0, and-ing +0.
template <class T>
T minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    T const equal = std::bit_cast<T>(std::bit_cast<bits_of<T>>(a) | std::bit_cast<bits_of<T>>(b));
    return a < b ? a : b < a ? b : a == b ? equal : a + b;
  } else {
    return b < a ? b : a;
  }
}
template <class T>
T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    T const equal = std::bit_cast<T>(std::bit_cast<bits_of<T>>(a) & std::bit_cast<bits_of<T>>(b));
    return a < b ? b : b < a ? a : a == b ? equal : a + b;
  } else {
    return a < b ? b : a;
  }
}

// One element of each dtype in memory: booleans are bytes.
template <dtype D>
using stored = std::conditional_t<D == dtype::boolean, std::uint8_t, element_t<D>>;

template <dtype To, dtype From>
stored<To> converted(stored<From> v) {
  if constexpr (is_half(From) && To == From) {
    return v;
  } else if constexpr (is_half(From)) {
    return converted<To, dtype::f32>(static_cast<float>(v));
  } else if constexpr (To == dtype::boolean) {
    return v != 0;
  } else if constexpr (is_half(To)) {
    return stored<To>(converted<dtype::f32, From>(v));
  } else if constexpr (class_of(To) == dtype_class::integer && is_floating(From)) {
    using T = stored<To>;
    using L = std::numeric_limits<T>;
    // 2^w is exact in both floating types, the largest integer below it need not be
    constexpr auto end = static_cast<stored<From>>(T{1} << (L::digits - 1)) * 2;
    if (v != v) return 0;
    if (v >= end) return L::max();
    if (v <= static_cast<stored<From>>(L::min())) return L::min();
    return static_cast<T>(v);
  } else {
    return static_cast<stored<To>>(v);
  }
}

struct lanes {
  std::size_t n;
  void const *a, *b, *c;
  void* result;

  template <class R, class A, class F>
  void map1(F f) const {
    auto const* x = static_cast<A const*>(a);
    auto* r = static_cast<R*>(result);
    for (std::size_t l = 0; l < n; ++l) r[l] = static_cast<R>(f(x[l]));
  }
  template <class R, class A, class F>
  void map2(F f) const {
    auto const *x = static_cast<A const*>(a), *y = static_cast<A const*>(b);
    auto* r = static_cast<R*>(result);
    for (std::size_t l = 0; l < n; ++l) r[l] = static_cast<R>(f(x[l], y[l]));
  }
};

template <dtype D>
struct tag {
  static constexpr dtype value = D;
};

template <class F>
void each_dtype(dtype t, F&& f) {
  switch (t) {
#define DTYPE(id, type, name, bytes, cls, compute, device) \
  case dtype::id: return f(tag<dtype::id>{});
#include <reprise/dtypes.def>
#undef DTYPE
  }
}

constexpr bool computes(dtype t) { return t != dtype::boolean && !is_half(t); }

void call_libm(libm f, lanes const& l) {
  switch (f) {
    case libm::exp: return l.map1<double, double>([](double x) { return std::exp(x); });
    case libm::expm1: return l.map1<double, double>([](double x) { return std::expm1(x); });
    case libm::log: return l.map1<double, double>([](double x) { return std::log(x); });
    case libm::log1p: return l.map1<double, double>([](double x) { return std::log1p(x); });
    case libm::sin: return l.map1<double, double>([](double x) { return std::sin(x); });
    case libm::cos: return l.map1<double, double>([](double x) { return std::cos(x); });
    case libm::tanh: return l.map1<double, double>([](double x) { return std::tanh(x); });
    case libm::erf: return l.map1<double, double>([](double x) { return std::erf(x); });
    case libm::erfc: return l.map1<double, double>([](double x) { return std::erfc(x); });
    case libm::pow: return l.map2<double, double>([](double x, double y) { return std::pow(x, y); });
  }
}

void select_lanes(std::size_t n, std::size_t size, std::uint8_t const* condition, void const* yes,
                  void const* no, void* result) {
  auto const pick = [&]<class T>(T) {
    auto const *y = static_cast<T const*>(yes), *m = static_cast<T const*>(no);
    auto* r = static_cast<T*>(result);
    for (std::size_t l = 0; l < n; ++l) r[l] = condition[l] ? y[l] : m[l];
  };
  switch (size) {
    case 1: return pick(std::uint8_t{});
    case 2: return pick(std::uint16_t{});
    case 4: return pick(std::uint32_t{});
    case 8: return pick(std::uint64_t{});
  }
}

// Arithmetic and bits over a type that computes; false when the type has no such instruction.
template <class T>
bool arithmetic(instruction const& i, lanes const& l) {
  constexpr bool floating = std::is_floating_point_v<T>;
  using U = unsigned_of<T>;
  switch (i.code) {
    case kop::add: return l.map2<T, T>(add<T>), true;
    case kop::sub: return l.map2<T, T>(sub<T>), true;
    case kop::mul: return l.map2<T, T>(mul<T>), true;
    case kop::div: return l.map2<T, T>(div<T>), true;
    case kop::rem: return l.map2<T, T>(rem<T>), true;
    case kop::neg: return l.map1<T, T>(neg<T>), true;
    case kop::abs: return l.map1<T, T>(abs<T>), true;
    case kop::minimum: return l.map2<T, T>(minimum<T>), true;
    case kop::maximum: return l.map2<T, T>(maximum<T>), true;
    case kop::sqrt:
      if constexpr (floating) return l.map1<T, T>([](T x) { return std::sqrt(x); }), true;
      return false;
    case kop::fma:
      if constexpr (floating) {
        auto const *x = static_cast<T const*>(l.a), *y = static_cast<T const*>(l.b),
                   *z = static_cast<T const*>(l.c);
        auto* r = static_cast<T*>(l.result);
        for (std::size_t n = 0; n < l.n; ++n) r[n] = std::fma(x[n], y[n], z[n]);
        return true;
      }
      return false;
    case kop::floor:
      if constexpr (floating) return l.map1<T, T>([](T x) { return std::floor(x); }), true;
      return false;
    case kop::ceil:
      if constexpr (floating) return l.map1<T, T>([](T x) { return std::ceil(x); }), true;
      return false;
    case kop::trunc:
      if constexpr (floating) return l.map1<T, T>([](T x) { return std::trunc(x); }), true;
      return false;
    case kop::rint:
      if constexpr (floating) return l.map1<T, T>([](T x) { return std::nearbyint(x); }), true;
      return false;
    case kop::band:
      if constexpr (!floating) return l.map2<T, T>([](T x, T y) { return x & y; }), true;
      return false;
    case kop::bor:
      if constexpr (!floating) return l.map2<T, T>([](T x, T y) { return x | y; }), true;
      return false;
    case kop::bxor:
      if constexpr (!floating) return l.map2<T, T>([](T x, T y) { return x ^ y; }), true;
      return false;
    case kop::bnot:
      if constexpr (!floating) return l.map1<T, T>([](T x) { return ~x; }), true;
      return false;
    case kop::shl:
      if constexpr (!floating)
        return l.map2<T, T>([](T x, T y) { return wrapped<T>(static_cast<U>(static_cast<U>(x) << y)); }),
               true;
      return false;
    case kop::lshr:
      if constexpr (!floating)
        return l.map2<T, T>([](T x, T y) { return wrapped<T>(static_cast<U>(static_cast<U>(x) >> y)); }),
               true;
      return false;
    case kop::ashr:
      if constexpr (!floating && std::is_signed_v<T>)
        return l.map2<T, T>([](T x, T y) { return static_cast<T>(x >> y); }), true;
      return false;
    case kop::call:
      if constexpr (std::is_same_v<T, double>) return call_libm(static_cast<libm>(i.slot), l), true;
      return false;
    case kop::const_:
    case kop::scalar:
    case kop::index:
    case kop::row:
    case kop::load:
    case kop::load_local:
    case kop::lt:
    case kop::le:
    case kop::eq:
    case kop::ne:
    case kop::select:
    case kop::convert:
    case kop::bitcast:
    case kop::store:
    case kop::store_local: return false;
  }
  return false;
}

bool compare(instruction const& i, dtype from, lanes const& l) {
  bool done = false;
  each_dtype(from, [&]<dtype D>(tag<D>) {
    if constexpr (!is_half(D)) {
      using T = stored<D>;
      using B = std::uint8_t;
      done = true;
      if (i.code == kop::lt) l.map2<B, T>([](T x, T y) { return x < y; });
      else if (i.code == kop::le) l.map2<B, T>([](T x, T y) { return x <= y; });
      else if (i.code == kop::eq) l.map2<B, T>([](T x, T y) { return x == y; });
      else l.map2<B, T>([](T x, T y) { return x != y; });
    }
  });
  return done;
}

bool boolean_bits(instruction const& i, lanes const& l) {
  using B = std::uint8_t;
  if (i.code == kop::band) l.map2<B, B>([](B x, B y) { return x & y; });
  else if (i.code == kop::bor) l.map2<B, B>([](B x, B y) { return x | y; });
  else if (i.code == kop::bxor) l.map2<B, B>([](B x, B y) { return x ^ y; });
  else if (i.code == kop::bnot) l.map1<B, B>([](B x) { return x ^ 1; });
  else return false;
  return true;
}

}  // namespace

void apply(instruction const& i, dtype from, std::size_t n, void const* a, void const* b, void const* c,
           void* result) {
  lanes const l{n, a, b, c, result};
  bool done = false;
  switch (i.code) {
    case kop::lt:
    case kop::le:
    case kop::eq:
    case kop::ne: done = compare(i, from, l); break;
    case kop::select:
      select_lanes(n, static_cast<std::size_t>(size_of(i.type)), static_cast<std::uint8_t const*>(a), b, c,
                   result);
      done = true;
      break;
    case kop::convert:
      each_dtype(from, [&]<dtype F>(tag<F>) {
        each_dtype(i.type, [&]<dtype T>(tag<T>) { l.map1<stored<T>, stored<F>>(converted<T, F>); });
      });
      done = true;
      break;
    case kop::bitcast:
      done = size_of(from) == size_of(i.type) && computes(from) && computes(i.type);
      if (done) std::memcpy(result, a, n * static_cast<std::size_t>(size_of(from)));
      break;
    case kop::add:
    case kop::sub:
    case kop::mul:
    case kop::div:
    case kop::rem:
    case kop::neg:
    case kop::abs:
    case kop::sqrt:
    case kop::fma:
    case kop::floor:
    case kop::ceil:
    case kop::trunc:
    case kop::rint:
    case kop::minimum:
    case kop::maximum:
    case kop::band:
    case kop::bor:
    case kop::bxor:
    case kop::bnot:
    case kop::shl:
    case kop::lshr:
    case kop::ashr:
    case kop::call:
      if (from == dtype::boolean) done = boolean_bits(i, l);
      each_dtype(from, [&]<dtype D>(tag<D>) {
        if constexpr (computes(D)) done = arithmetic<element_t<D>>(i, l);
      });
      break;
    case kop::const_:
    case kop::scalar:
    case kop::index:
    case kop::row:
    case kop::load:
    case kop::load_local:
    case kop::store:
    case kop::store_local: break;
  }
  if (!done) illegal(i, from);
}

}  // namespace reprise::jit
