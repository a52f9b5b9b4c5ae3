// Instructions as they are asked for: equal ones are one, constants fold by interpret.h's apply, and what is
// left out is left out because the bits stay the same (x * 1, x + -0, x - 0, division by a power of two),
// never by real-number algebra.
#include "jit/code.h"

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include <reprise/error.h>

#include "jit/interpret.h"

namespace reprise::jit::code {
namespace {

bool commutes(kop k) {
  return k == kop::add || k == kop::mul || k == kop::minimum || k == kop::maximum || k == kop::eq ||
         k == kop::ne || k == kop::band || k == kop::bor || k == kop::bxor || k == kop::fma;
}

bool computes(kop k) {
  switch (k) {
    case kop::const_:
    case kop::scalar:
    case kop::index:
    case kop::row:
    case kop::load:
    case kop::load_local:
    case kop::store:
    case kop::store_local: return false;
    case kop::call:
      return false;  // the running machine's own function, which may differ from this one's in its last bit
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
    case kop::lt:
    case kop::le:
    case kop::eq:
    case kop::ne:
    case kop::band:
    case kop::bor:
    case kop::bxor:
    case kop::bnot:
    case kop::shl:
    case kop::lshr:
    case kop::ashr:
    case kop::select:
    case kop::convert:
    case kop::bitcast: return true;
  }
  return false;
}

// The one nan of docs/numbers.md, so that equal constants have equal bits.
std::uint64_t one_nan(dtype t, std::uint64_t bits) {
  switch (t) {
    case dtype::f16: return (bits & 0x7fff) > 0x7c00 ? 0x7e00 : bits;
    case dtype::bf16: return (bits & 0x7fff) > 0x7f80 ? 0x7fc0 : bits;
    case dtype::f32: return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits;
    case dtype::f64: return (bits & INT64_MAX) > 0x7ff0000000000000 ? 0x7ff8000000000000 : bits;
    case dtype::boolean:
    case dtype::u8:
    case dtype::i32:
    case dtype::i64: return bits;
  }
  return bits;
}

std::uint64_t truncated(dtype t, std::uint64_t bits) {
  int const width = 8 * size_of(t);
  return width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
}

// The bits of the number in t: integers truncate and saturate as conversions do, floating types round once.
std::uint64_t bits_of(dtype t, double v) {
  switch (t) {
    case dtype::boolean:
    case dtype::u8:
    case dtype::i32:
    case dtype::i64:
    case dtype::f32:
    case dtype::f64: {
      std::uint64_t bits = 0;
      apply({.code = kop::convert, .type = t}, dtype::f64, 1, &v, nullptr, nullptr, &bits);
      return bits;
    }
    case dtype::f16:
    case dtype::bf16: {
      // by way of a float that is rounded to odd, so that rounding happens once
      float f = static_cast<float>(v);
      if (std::isfinite(f) && static_cast<double>(f) != v) {
        if (std::fabs(static_cast<double>(f)) > std::fabs(v)) f = std::nextafterf(f, 0.0f);
        f = std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) | 1u);
      }
      return t == dtype::f16 ? float16(f).bits : bfloat16(f).bits;
    }
  }
  return 0;
}

// Every value of `narrow` is one of `wide`.
bool holds(dtype wide, dtype narrow) {
  if (wide == narrow || narrow == dtype::boolean) return true;
  if (wide == dtype::boolean) return false;
  if (is_floating(narrow))
    return is_floating(wide) && (wide == dtype::f64 || (wide == dtype::f32 && narrow != dtype::f64));
  if (!is_floating(wide)) return size_of(narrow) < size_of(wide);
  return (narrow == dtype::u8 && wide != dtype::bf16) || (narrow == dtype::i32 && wide == dtype::f64);
}

struct key {
  instruction i;
  std::uint32_t epoch = 0;  // of loads: how many stores went to the same place before
  friend bool operator==(key const& x, key const& y) {
    return x.i.code == y.i.code && x.i.type == y.i.type && x.i.a == y.i.a && x.i.b == y.i.b &&
           x.i.c == y.i.c && x.i.slot == y.i.slot && x.i.index == y.i.index && x.i.guard == y.i.guard &&
           x.i.bits == y.i.bits && x.epoch == y.epoch;
  }
};
struct key_hash {
  std::size_t operator()(key const& k) const {
    std::uint64_t h = 0;
    for (std::uint64_t v :
         {static_cast<std::uint64_t>(k.i.code), static_cast<std::uint64_t>(k.i.type), std::uint64_t{k.i.a},
          std::uint64_t{k.i.b}, std::uint64_t{k.i.c}, std::uint64_t{k.i.slot}, std::uint64_t{k.i.index},
          std::uint64_t{k.i.guard}, k.i.bits, std::uint64_t{k.epoch}}) {
      h = (h ^ v) * 0x9e3779b97f4a7c15u;
      h ^= h >> 31;
    }
    return h;
  }
};

}  // namespace

struct body::state {
  std::vector<instruction> list;
  std::unordered_map<key, value_id, key_hash> known;
  std::map<std::pair<bool, std::uint32_t>, std::uint32_t> stores;  // (local?, slot) -> count

  bool constant(value_id v) const { return list[v].code == kop::const_; }
  bool constant(value_id v, std::uint64_t bits) const { return constant(v) && list[v].bits == bits; }
  bool number(value_id v, double x) const { return constant(v, bits_of(list[v].type, x)); }
  bool is(value_id v, kop k) const { return list[v].code == k; }

  bool folds(instruction const& i) const {
    if (!computes(i.code)) return false;
    for (value_id v : {i.a, i.b, i.c})
      if (v != no_value && !constant(v)) return false;
    return true;
  }
  std::uint64_t fold(instruction const& i) const {
    std::uint64_t in[3] = {}, out = 0;
    int n = 0;
    for (value_id v : {i.a, i.b, i.c}) {
      if (v != no_value) in[n] = list[v].bits;
      ++n;
    }
    dtype const from = list[i.code == kop::select ? i.b : i.a].type;
    apply(i, from, 1, &in[0], &in[1], &in[2], &out);
    return out;
  }

  // The reciprocal of a power of two, when it is a number of t too: dividing by the one is multiplying by the
  // other.
  bool reciprocal(value_id v, double& r) const {
    if (!constant(v)) return false;
    dtype const t = list[v].type;
    if (t != dtype::f32 && t != dtype::f64) return false;
    double const d = t == dtype::f32
                         ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(list[v].bits)))
                         : std::bit_cast<double>(list[v].bits);
    int exponent;
    if (!std::isfinite(d) || d == 0 || std::fabs(std::frexp(d, &exponent)) != 0.5) return false;
    int const limit = t == dtype::f32 ? 126 : 1022;  // both normal
    if (exponent - 1 > limit || exponent - 1 < -limit) return false;
    r = 1 / d;
    return true;
  }

  // A value that is already there and has the bits of `i`, or no_value.
  value_id same(instruction const& i) const {
    bool const floating = is_floating(i.type);
    switch (i.code) {
      case kop::add:
        if (number(i.b, floating ? -0.0 : 0.0)) return i.a;
        if (number(i.a, floating ? -0.0 : 0.0)) return i.b;
        break;
      case kop::sub:
        if (number(i.b, 0.0)) return i.a;
        break;
      case kop::mul:
        if (number(i.b, 1)) return i.a;
        if (number(i.a, 1)) return i.b;
        if (!floating && number(i.b, 0)) return i.b;
        if (!floating && number(i.a, 0)) return i.a;
        break;
      case kop::div:
        if (number(i.b, 1)) return i.a;
        break;
      case kop::neg:
      case kop::bnot:
        if (is(i.a, i.code)) return list[i.a].a;
        break;
      case kop::abs:
      case kop::floor:
      case kop::ceil:
      case kop::trunc:
      case kop::rint:
        if (is(i.a, i.code)) return i.a;
        break;
      case kop::minimum:
      case kop::maximum:
        if (i.a == i.b) return i.a;
        break;
      case kop::band:
      case kop::bor:
        if (i.a == i.b) return i.a;
        for (auto [x, y] : {std::pair{i.a, i.b}, std::pair{i.b, i.a}}) {
          std::uint64_t const ones = i.type == dtype::boolean ? 1 : truncated(i.type, ~std::uint64_t{0});
          if (constant(y, 0)) return i.code == kop::band ? y : x;
          if (constant(y, ones)) return i.code == kop::band ? x : y;
        }
        break;
      case kop::bxor:
        if (constant(i.b, 0)) return i.a;
        if (constant(i.a, 0)) return i.b;
        break;
      case kop::shl:
      case kop::lshr:
      case kop::ashr:
        if (constant(i.b, 0)) return i.a;
        break;
      case kop::select:
        if (i.b == i.c) return i.b;
        if (constant(i.a)) return list[i.a].bits ? i.b : i.c;
        if (i.type == dtype::boolean && constant(i.b, 1) && constant(i.c, 0)) return i.a;
        break;
      case kop::convert:
        if (list[i.a].type == i.type) return i.a;
        if (is(i.a, kop::convert) && list[list[i.a].a].type == i.type && holds(list[i.a].type, i.type))
          return list[i.a].a;
        break;
      case kop::bitcast:
        if (list[i.a].type == i.type) return i.a;
        if (is(i.a, kop::bitcast) && list[list[i.a].a].type == i.type) return list[i.a].a;
        break;
      case kop::const_:
      case kop::scalar:
      case kop::index:
      case kop::row:
      case kop::load:
      case kop::load_local:
      case kop::rem:
      case kop::sqrt:
      case kop::fma:
      case kop::lt:
      case kop::le:
      case kop::eq:
      case kop::ne:
      case kop::call:
      case kop::store:
      case kop::store_local: break;
    }
    return no_value;
  }

  value_id add(instruction const& i, std::uint32_t epoch = 0) {
    auto const [place, fresh] = known.emplace(key{i, epoch}, static_cast<value_id>(list.size()));
    if (fresh) list.push_back(i);
    return place->second;
  }
  value_id constant_of(dtype t, std::uint64_t bits) {
    instruction i;
    i.type = t;
    i.bits = one_nan(t, truncated(t, bits));
    return add(i);
  }
};

body::body() : state_(std::make_unique<state>()) {}
body::~body() = default;

std::vector<instruction> const& body::instructions() const { return state_->list; }
instruction const& body::at(value_id id) const { return state_->list[id]; }
dtype val::type() const { return in->at(id).type; }

std::vector<instruction> body::take() {
  std::vector<instruction> list = std::move(state_->list);
  *state_ = {};
  return list;
}

val body::constant(dtype t, std::uint64_t bits) { return {this, state_->constant_of(t, bits)}; }
val body::number(dtype t, double value) { return constant(t, bits_of(t, value)); }

val body::append(instruction i) {
  auto& s = *state_;
  for (value_id v : {i.a, i.b, i.c, i.guard})
    if (v != no_value && v >= s.list.size())
      throw compile_error("instruction operand " + std::to_string(v) + " is not there yet");
  if (i.code == kop::const_) return constant(i.type, i.bits);
  if (i.guard != no_value && s.constant(i.guard, 1)) i.guard = no_value;
  if (i.code == kop::store || i.code == kop::store_local) {
    ++s.stores[{i.code == kop::store_local, i.slot}];
    s.list.push_back(i);
    return {this, static_cast<value_id>(s.list.size() - 1)};
  }
  if (i.code == kop::load || i.code == kop::load_local) {
    if (i.guard != no_value && s.constant(i.guard, 0)) return constant(i.type, 0);
    auto const count = s.stores.find({i.code == kop::load_local, i.slot});
    return {this, s.add(i, count == s.stores.end() ? 0 : count->second)};
  }
  if (s.folds(i)) {
    // a nan that is taken apart keeps its bits
    return {this, s.constant_of(i.type, s.fold(i))};
  }
  if (value_id const v = s.same(i); v != no_value) return {this, v};
  switch (i.code) {  // the same bits from a cheaper instruction
    case kop::div:
      if (double r; s.reciprocal(i.b, r))
        return append({.code = kop::mul, .type = i.type, .a = i.a, .b = number(i.type, r).id});
      break;
    case kop::fma:
      for (auto [x, y] : {std::pair{i.a, i.b}, std::pair{i.b, i.a}})
        if (s.number(y, 1)) return append({.code = kop::add, .type = i.type, .a = x, .b = i.c});
      if (s.number(i.c, -0.0)) return append({.code = kop::mul, .type = i.type, .a = i.a, .b = i.b});
      break;
    case kop::abs:
      if (s.is(i.a, kop::neg) && i.type != dtype::u8)  // the negative of a u8 is another number
        return append({.code = kop::abs, .type = i.type, .a = s.list[i.a].a});
      break;
    case kop::select:
      if (s.is(i.a, kop::bnot))
        return append({.code = kop::select, .type = i.type, .a = s.list[i.a].a, .b = i.c, .c = i.b});
      break;
    case kop::convert:
      // halves are converted from and to f32 only, which is how docs/numbers.md goes from and to all other
      // dtypes
      if ((is_half(i.type) || is_half(s.list[i.a].type)) && i.type != dtype::f32 &&
          s.list[i.a].type != dtype::f32) {
        val const middle = append({.code = kop::convert, .type = dtype::f32, .a = i.a});
        return append({.code = kop::convert, .type = i.type, .a = middle.id});
      }
      // A -> B -> C is A -> C where B holds A and both ways end the same: not by a float from integer to
      // integer, which saturates
      if (s.is(i.a, kop::convert)) {
        value_id const first = s.list[i.a].a;
        dtype const a = s.list[first].type, b = s.list[i.a].type;
        bool const detour =
            class_of(a) == dtype_class::integer && is_floating(b) && class_of(i.type) == dtype_class::integer;
        if (holds(b, a) && !detour && !is_half(a) && !is_half(i.type))
          return append({.code = kop::convert, .type = i.type, .a = first});
      }
      break;
    case kop::const_:
    case kop::scalar:
    case kop::index:
    case kop::row:
    case kop::load:
    case kop::load_local:
    case kop::add:
    case kop::sub:
    case kop::mul:
    case kop::rem:
    case kop::neg:
    case kop::sqrt:
    case kop::floor:
    case kop::ceil:
    case kop::trunc:
    case kop::rint:
    case kop::minimum:
    case kop::maximum:
    case kop::lt:
    case kop::le:
    case kop::eq:
    case kop::ne:
    case kop::band:
    case kop::bor:
    case kop::bxor:
    case kop::bnot:
    case kop::shl:
    case kop::lshr:
    case kop::ashr:
    case kop::bitcast:
    case kop::call:
    case kop::store:
    case kop::store_local: break;
  }
  if (commutes(i.code) && i.b < i.a) std::swap(i.a, i.b);
  return {this, s.add(i)};
}

namespace {

[[noreturn]] void mismatch(char const* what, dtype a, dtype b) {
  throw compile_error(std::string("code::") + what + ": operands of " + name_of(a) + " and " + name_of(b));
}

val unary(kop k, val a) { return a.in->append({.code = k, .type = a.type(), .a = a.id}); }

val binary(char const* what, kop k, val a, val b, bool compares = false) {
  if (a.type() != b.type()) mismatch(what, a.type(), b.type());
  return a.in->append({.code = k, .type = compares ? dtype::boolean : a.type(), .a = a.id, .b = b.id});
}

}  // namespace

val add(val a, val b) { return binary("add", kop::add, a, b); }
val sub(val a, val b) { return binary("sub", kop::sub, a, b); }
val mul(val a, val b) { return binary("mul", kop::mul, a, b); }
val div(val a, val b) { return binary("div", kop::div, a, b); }
val rem(val a, val b) { return binary("rem", kop::rem, a, b); }
val neg(val a) { return unary(kop::neg, a); }
val abs(val a) { return unary(kop::abs, a); }
val sqrt(val a) { return unary(kop::sqrt, a); }
val fma(val a, val b, val c) {
  if (a.type() != b.type()) mismatch("fma", a.type(), b.type());
  if (a.type() != c.type()) mismatch("fma", a.type(), c.type());
  return a.in->append({.code = kop::fma, .type = a.type(), .a = a.id, .b = b.id, .c = c.id});
}
val floor(val a) { return unary(kop::floor, a); }
val ceil(val a) { return unary(kop::ceil, a); }
val trunc(val a) { return unary(kop::trunc, a); }
val rint(val a) { return unary(kop::rint, a); }
val minimum(val a, val b) { return binary("minimum", kop::minimum, a, b); }
val maximum(val a, val b) { return binary("maximum", kop::maximum, a, b); }
val lt(val a, val b) { return binary("lt", kop::lt, a, b, true); }
val le(val a, val b) { return binary("le", kop::le, a, b, true); }
val eq(val a, val b) { return binary("eq", kop::eq, a, b, true); }
val ne(val a, val b) { return binary("ne", kop::ne, a, b, true); }
val band(val a, val b) { return binary("band", kop::band, a, b); }
val bor(val a, val b) { return binary("bor", kop::bor, a, b); }
val bxor(val a, val b) { return binary("bxor", kop::bxor, a, b); }
val bnot(val a) { return unary(kop::bnot, a); }
val shl(val a, val b) { return binary("shl", kop::shl, a, b); }
val lshr(val a, val b) { return binary("lshr", kop::lshr, a, b); }
val ashr(val a, val b) { return binary("ashr", kop::ashr, a, b); }
val select(val condition, val yes, val no) {
  if (condition.type() != dtype::boolean) mismatch("select", condition.type(), yes.type());
  if (yes.type() != no.type()) mismatch("select", yes.type(), no.type());
  return yes.in->append(
      {.code = kop::select, .type = yes.type(), .a = condition.id, .b = yes.id, .c = no.id});
}
val convert(val a, dtype t) { return a.in->append({.code = kop::convert, .type = t, .a = a.id}); }
val bitcast(val a, dtype t) {
  if (size_of(a.type()) != size_of(t)) mismatch("bitcast", a.type(), t);
  return a.in->append({.code = kop::bitcast, .type = t, .a = a.id});
}
val call(libm f, val a) {
  return a.in->append(
      {.code = kop::call, .type = a.type(), .a = a.id, .slot = static_cast<std::uint32_t>(f)});
}
val call(libm f, val a, val b) {
  if (a.type() != b.type()) mismatch("call", a.type(), b.type());
  return a.in->append(
      {.code = kop::call, .type = a.type(), .a = a.id, .b = b.id, .slot = static_cast<std::uint32_t>(f)});
}

val number(val like, double value) { return like.in->number(like.type(), value); }
val integer(val like, std::int64_t value) {
  if (is_floating(like.type())) return number(like, static_cast<double>(value));
  return like.in->constant(like.type(), static_cast<std::uint64_t>(value));
}
val bits(val like, std::uint64_t pattern) { return like.in->constant(like.type(), pattern); }
val zero(val like) { return like.in->constant(like.type(), 0); }
val truth(val a) {
  if (a.type() == dtype::boolean) return a;
  return convert(a, dtype::boolean);
}

namespace {

// 0 with the sign of b.
val signed_zero(val b) {
  dtype const whole = b.type() == dtype::f32 ? dtype::i32 : dtype::i64;
  val const pattern = bitcast(b, whole);
  return bitcast(band(pattern, bits(pattern, std::uint64_t{1} << (8 * size_of(whole) - 1))), b.type());
}

// Where a truncated quotient of integers is one more than the floor: the remainder is not 0 and its sign is
// not b's.
val overshot(val r, val b) { return band(ne(r, zero(r)), lt(bxor(r, b), zero(r))); }

}  // namespace

val mod(val a, val b) {
  val const r = rem(a, b);
  if (a.type() == dtype::u8) return r;
  if (!is_floating(a.type())) return select(overshot(r, b), add(r, b), r);
  val const opposite = bxor(lt(r, zero(r)), lt(b, zero(b)));
  return select(eq(r, zero(r)), signed_zero(b), select(opposite, add(r, b), r));
}

val floor_divide(val a, val b) {
  if (a.type() == dtype::u8) return div(a, b);
  if (!is_floating(a.type())) return sub(div(a, b), convert(overshot(rem(a, b), b), a.type()));
  val const r = rem(a, b), ratio = div(a, b), near = div(sub(a, r), b);
  val const opposite = band(ne(r, zero(r)), bxor(lt(r, zero(r)), lt(b, zero(b))));
  val const q = select(opposite, sub(near, number(near, 1)), near), whole = floor(q);
  val const nearest = select(lt(number(q, 0.5), sub(q, whole)), add(whole, number(q, 1)), whole);
  return select(eq(b, zero(b)), ratio, select(eq(q, zero(q)), signed_zero(ratio), nearest));
}

val sign(val a) {
  val const positive = select(lt(zero(a), a), integer(a, 1), zero(a));
  if (a.type() == dtype::u8) return positive;
  val const any = select(lt(a, zero(a)), integer(a, -1), positive);
  return is_floating(a.type()) ? select(ne(a, a), a, any) : any;
}

val isfinite(val a) { return lt(abs(a), number(a, INFINITY)); }
val isinf(val a) { return eq(abs(a), number(a, INFINITY)); }

val left_shift(val a, val b) {
  val const width = integer(b, 8 * size_of(b.type()));
  val legal = lt(b, width);
  if (b.type() != dtype::u8) legal = band(legal, le(zero(b), b));
  return select(legal, shl(a, select(legal, b, zero(b))), zero(a));
}

val right_shift(val a, val b) {
  std::int64_t const width = 8 * size_of(b.type());
  if (b.type() == dtype::u8) {
    val const legal = lt(b, integer(b, width));
    return select(legal, lshr(a, select(legal, b, zero(b))), zero(a));
  }
  val const legal = band(lt(b, integer(b, width)), le(zero(b), b));
  return ashr(a, select(legal, b, integer(b, width - 1)));
}

}  // namespace reprise::jit::code
