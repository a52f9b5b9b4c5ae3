// What a kernel may be, rule by rule, and the bytes that say what it computes.
#include "jit/kernel.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include <reprise/error.h>

namespace reprise::jit {
namespace {

bool arithmetic(dtype t) { return t != dtype::boolean && !is_half(t); }
bool integer(dtype t) { return class_of(t) == dtype_class::integer; }

int operands(instruction const& i) {
  switch (i.code) {
    case kop::const_:
    case kop::scalar:
    case kop::index:
    case kop::row:
    case kop::load:
    case kop::load_local: return 0;
    case kop::neg:
    case kop::abs:
    case kop::sqrt:
    case kop::floor:
    case kop::ceil:
    case kop::trunc:
    case kop::rint:
    case kop::bnot:
    case kop::convert:
    case kop::bitcast:
    case kop::store:
    case kop::store_local: return 1;
    case kop::add:
    case kop::sub:
    case kop::mul:
    case kop::div:
    case kop::rem:
    case kop::minimum:
    case kop::maximum:
    case kop::lt:
    case kop::le:
    case kop::eq:
    case kop::ne:
    case kop::band:
    case kop::bor:
    case kop::bxor:
    case kop::shl:
    case kop::lshr:
    case kop::ashr: return 2;
    case kop::fma:
    case kop::select: return 3;
    case kop::call: return static_cast<libm>(i.slot) == libm::pow ? 2 : 1;
  }
  return 0;
}

class checker {
 public:
  explicit checker(kernel const& k) : k_(k) {}

  void run() {
    check(!k_.name.empty() && !std::isdigit(static_cast<unsigned char>(k_.name[0])) &&
              std::all_of(k_.name.begin(), k_.name.end(),
                          [](unsigned char c) { return std::isalnum(c) || c == '_'; }),
          "K1: the name is not a C identifier");
    loops();
    for (auto const& b : k_.buffers) check(b.elements >= 0, "K5: a buffer of a negative number of elements");
    for (auto const& l : k_.locals)
      check(l.elements >= 0, "K5: a local array of a negative number of elements");
    left_.assign(k_.rows.size(), false);
    filled_.assign(k_.locals.size(), false);
    for (phase_ = 0; phase_ < k_.phases.size(); ++phase_) {
      auto const& p = k_.phases[phase_];
      for (at_ = 0; at_ < p.body.size(); ++at_) instruct(p, p.body[at_]);
      at_ = none;
      for (auto const& r : p.reductions) reduces(p, r);
      // a register is read from the next phase on
      for (auto const& r : p.reductions) left_[r.row] = true;
    }
  }

 private:
  static constexpr std::size_t none = SIZE_MAX;

  [[noreturn]] void fail(std::string const& what) const {
    std::string where = "kernel " + k_.name;
    if (phase_ < k_.phases.size()) where += ", phase " + std::to_string(phase_);
    if (at_ != none) where += ", instruction " + std::to_string(at_);
    throw compile_error(where + ": " + what);
  }
  void check(bool legal, char const* what) const {
    if (!legal) fail(what);
  }

  void loops() {
    auto const& arena = k_.index;
    check(arena.variables() == k_.grid.size() + 1,
          "K2: the index variables are not the grid's loops and the inner one");
    for (std::uint32_t v = 0; v < k_.grid.size(); ++v)
      check(k_.grid[v] >= 0 && arena.extent(v) == k_.grid[v],
            "K2: a grid loop's extent is not its variable's");
    check(!k_.phases.empty(), "K2: there is no phase");
    for (auto const& p : k_.phases)
      check(p.extent >= 0 && p.extent <= arena.extent(k_.inner()),
            "K2: a phase is longer than the inner variable");
    check(k_.tile >= 1, "K2: a tile of less than one point");
    check(k_.tile == 1 || (k_.lanes == lanes_along::grid && k_.tile_loop < k_.grid.size()),
          "K2: a tile without a grid loop of its own");
  }

  dtype type(phase const& p, value_id v) const { return p.body[v].type; }

  void instruct(phase const& p, instruction const& i) {
    value_id const given[] = {i.a, i.b, i.c};
    for (int n = 0; n < 3; ++n) {
      if (n >= operands(i)) {
        check(given[n] == no_value, "K3: an operand too many");
        continue;
      }
      check(given[n] != no_value && given[n] < at_, "K3: an operand is not an earlier instruction");
      kop const from = p.body[given[n]].code;
      check(from != kop::store && from != kop::store_local, "K3: a store has no value");
    }
    bool const memory = i.code == kop::load || i.code == kop::load_local || i.code == kop::store ||
                        i.code == kop::store_local;
    if (i.guard != no_value) {
      check(memory, "K7: a guard on an instruction that does not touch memory");
      check(i.guard < at_ && type(p, i.guard) == dtype::boolean,
            "K7: the guard is not an earlier boolean instruction");
    }
    types(p, i);
    slots(i);
    if (memory || i.code == kop::index) {
      check(i.index < k_.index.expressions(), "K6: there is no such index expression");
      if (memory && i.guard == no_value) inside(p, i);
    }
  }

  void types(phase const& p, instruction const& i) const {
    dtype const t = i.type, a = i.a == no_value ? t : type(p, i.a), b = i.b == no_value ? a : type(p, i.b);
    switch (i.code) {
      case kop::const_:
        check(size_of(t) == 8 || i.bits >> (8 * size_of(t)) == 0,
              "K4: a constant has more bits than its dtype");
        check(t != dtype::boolean || i.bits <= 1, "K4: a boolean constant is neither 0 nor 1");
        return;
      case kop::index: return check(t == dtype::i64, "K4: an index is an int64");
      case kop::scalar:
      case kop::row:
      case kop::load:
      case kop::load_local: return;
      case kop::store:
      case kop::store_local: return check(a == t, "K4: what is stored has another dtype than the store");
      case kop::add:
      case kop::sub:
      case kop::mul:
      case kop::div:
      case kop::rem:
      case kop::neg:
      case kop::abs:
      case kop::minimum:
      case kop::maximum:
        return check(arithmetic(t) && a == t && b == t,
                     "K4: arithmetic on dtypes that differ or do not compute");
      case kop::sqrt:
      case kop::floor:
      case kop::ceil:
      case kop::trunc:
      case kop::rint:
      case kop::fma:
        return check(
            is_floating(t) && arithmetic(t) && a == t && b == t && (i.c == no_value || type(p, i.c) == t),
            "K4: a floating operation on other dtypes");
      case kop::lt:
      case kop::le:
      case kop::eq:
      case kop::ne:
        return check(t == dtype::boolean && a == b && !is_half(a),
                     "K4: a comparison is boolean and of two equal dtypes, not halves");
      case kop::band:
      case kop::bor:
      case kop::bxor:
      case kop::bnot:
        return check((integer(t) || t == dtype::boolean) && a == t && b == t,
                     "K4: bits of dtypes that differ or have none");
      case kop::shl:
      case kop::lshr:
      case kop::ashr:
        check(t != dtype::u8 || i.code != kop::ashr, "K4: uint8 has no sign to shift");
        return check(integer(t) && a == t && b == t, "K4: a shift of dtypes that differ or are not integers");
      case kop::select:
        return check(a == dtype::boolean && b == t && type(p, i.c) == t,
                     "K4: select needs a boolean and two values of its dtype");
      case kop::convert:
        return check(!(is_half(t) || is_half(a)) || t == a || t == dtype::f32 || a == dtype::f32,
                     "K4: halves are converted from and to float32 only");
      case kop::bitcast:
        return check(arithmetic(t) && arithmetic(a) && size_of(t) == size_of(a) && size_of(t) >= 4,
                     "K4: a bitcast between these dtypes");
      case kop::call:
        check(i.slot <= static_cast<std::uint32_t>(libm::pow), "K4: there is no such function to call");
        return check(t == dtype::f64 && a == t && b == t, "K4: functions are called on float64 only");
    }
  }

  void slots(instruction const& i) {
    auto const known = [&](std::size_t n, char const* what) {
      if (i.slot >= n) fail(std::string("K5: there is no ") + what + " " + std::to_string(i.slot));
    };
    switch (i.code) {
      case kop::load:
      case kop::store:
        known(k_.buffers.size(), "buffer");
        check(k_.buffers[i.slot].type == i.type, "K5: the buffer has another dtype");
        return check(i.code == kop::load || k_.buffers[i.slot].written,
                     "K5: a store to a buffer that is not marked written");
      case kop::load_local:
      case kop::store_local:
        known(k_.locals.size(), "local array");
        check(k_.locals[i.slot].type == i.type, "K5: the local array has another dtype");
        if (i.code == kop::store_local) filled_[i.slot] = true;
        return check(filled_[i.slot], "K5: a local array is read before it is written");
      case kop::scalar:
        known(k_.scalars.size(), "scalar");
        return check(k_.scalars[i.slot] == i.type, "K5: the scalar has another dtype");
      case kop::row:
        known(k_.rows.size(), "row register");
        check(k_.rows[i.slot] == i.type, "K5: the row register has another dtype");
        return check(left_[i.slot], "K5: a row register is read before an earlier phase has left it");
      case kop::const_:
      case kop::index:
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
      case kop::bitcast:
      case kop::call: return;
    }
  }

  // The arena's bounds are of the longest phase; this phase may be shorter.
  void inside(phase const& p, instruction const& i) const {
    bool const local = i.code == kop::load_local || i.code == kop::store_local;
    std::int64_t const n = local ? k_.locals[i.slot].elements : k_.buffers[i.slot].elements;
    if (k_.points() == 0 || p.extent == 0) return;
    range r = k_.index.bounds(i.index);
    if (r.low < 0 || r.high >= n) r = k_.index.bounds(i.index, k_.inner(), p.extent);
    if (r.low < 0 || r.high >= n)
      fail("K8: elements " + std::to_string(r.low) + " to " + std::to_string(r.high) + " of " +
           (local ? "local array " : "buffer ") + std::to_string(i.slot) + ", which has " +
           std::to_string(n));
  }

  void reduces(phase const& p, reduction const& r) const {
    check(r.value < p.body.size(), "K9: what is reduced is not an instruction of the phase");
    check(p.body[r.value].code != kop::store && p.body[r.value].code != kop::store_local,
          "K9: a store has no value to reduce");
    dtype const of = type(p, r.value);
    check(r.row < k_.rows.size() && k_.rows[r.row] == r.type,
          "K9: the row register is not there or has another dtype");
    check(!left_[r.row], "K9: a row register is left twice");
    for (auto const& other : p.reductions)
      check(&other == &r || other.row != r.row, "K9: a row register is left twice");
    switch (r.kind) {
      case reduction_kind::sum:
      case reduction_kind::prod:
        check(of == r.type && (is_floating(of) || of == dtype::i64 || r.order == order::contract) &&
                  arithmetic(of),
              "K9: a sum or product is of float32, float64 or int64");
        break;
      case reduction_kind::max:
      case reduction_kind::min:
        check(of == r.type && arithmetic(of),
              "K9: the extreme of a dtype that does not compute, or into another");
        check(p.extent > 0, "K9: the extreme of nothing");
        break;
      case reduction_kind::any:
      case reduction_kind::all:
        check(of == dtype::boolean && r.type == of, "K9: any and all are of booleans");
        break;
      case reduction_kind::argmax:
      case reduction_kind::argmin:
        check(!is_half(of) && r.type == dtype::i64,
              "K9: argmax and argmin leave an int64, and compare halves as float32");
        check(p.extent > 0, "K9: the extreme of nothing");
        break;
    }
    if (r.order == order::contract) {
      check(r.kind == reduction_kind::sum, "K10: only sums contract");
      check(r.factor < p.body.size() && type(p, r.factor) == of,
            "K10: the second factor is not there or has another dtype");
    } else {
      check(r.factor == no_value, "K10: a second factor of a reduction that does not contract");
    }
  }

  kernel const& k_;
  std::size_t phase_ = none, at_ = none;
  std::vector<bool> left_;    // row registers that an earlier phase has left
  std::vector<bool> filled_;  // local arrays that have been stored to
};

// Bytes of a kernel. An atom is written out where it is first met, after those inside it, and then goes by
// its number: what is written does not depend on what else the arena holds.
class writer {
 public:
  explicit writer(kernel const& k) : k_(k) {}

  std::string run() {
    list(k_.grid, [&](std::int64_t e) { number(e); });
    list(k_.buffers, [&](kernel_buffer const& b) {
      byte(b.type);
      number(b.elements);
      byte(b.written);
    });
    list(k_.scalars, [&](dtype t) { byte(t); });
    list(k_.locals, [&](kernel_local const& l) {
      byte(l.type);
      number(l.elements);
    });
    list(k_.rows, [&](dtype t) { byte(t); });
    byte(k_.lanes);
    number(k_.tile_loop);
    number(k_.tile);
    list(k_.phases, [&](phase const& p) {
      number(p.extent);
      list(p.body, [&](instruction const& i) { write(i); });
      list(p.reductions, [&](reduction const& r) {
        byte(r.kind);
        byte(r.order);
        byte(r.type);
        number(r.value);
        number(r.factor);
        number(r.row);
      });
    });
    return std::move(out_);
  }

 private:
  template <class T>
  void byte(T v) {
    out_ += static_cast<char>(v);
  }
  void number(std::int64_t v) {
    for (int i = 0; i < 8; ++i) out_ += static_cast<char>(static_cast<std::uint64_t>(v) >> (8 * i));
  }
  template <class T, class F>
  void list(std::vector<T> const& all, F&& each) {
    number(static_cast<std::int64_t>(all.size()));
    for (auto const& x : all) each(x);
  }

  void write(instruction const& i) {
    byte(i.code);
    byte(i.type);
    for (std::uint32_t v : {i.a, i.b, i.c, i.slot, i.guard}) number(v);
    number(static_cast<std::int64_t>(i.bits));
    switch (i.code) {
      case kop::index:
      case kop::load:
      case kop::load_local:
      case kop::store:
      case kop::store_local: return write(i.index);
      case kop::const_:
      case kop::scalar:
      case kop::row:
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
      case kop::bitcast:
      case kop::call: return;
    }
  }

  void terms(index_id id) {
    auto const& e = k_.index.at(id);
    // in the order of their numbers, not of the arena's
    std::vector<std::pair<std::int64_t, std::int64_t>> sorted;
    for (term t : e.terms) sorted.emplace_back(numbers_.at(t.atom), t.coefficient);
    std::sort(sorted.begin(), sorted.end());
    number(e.constant);
    number(static_cast<std::int64_t>(sorted.size()));
    for (auto [atom, coefficient] : sorted) {
      number(atom);
      number(coefficient);
    }
  }

  void write(index_id id) {
    std::vector<std::uint32_t> fresh;
    for (std::uint32_t a : k_.index.atoms_of(id))
      if (!numbers_.contains(a)) fresh.push_back(a);
    number(static_cast<std::int64_t>(fresh.size()));
    for (std::uint32_t id_of : fresh) {
      atom const& a = k_.index.atoms()[id_of];
      byte(a.kind);
      number(a.variable);
      number(a.divisor);
      if (a.kind != atom_kind::variable) terms(a.operand);
      numbers_.emplace(id_of, static_cast<std::int64_t>(numbers_.size()));
    }
    terms(id);
  }

  kernel const& k_;
  std::string out_;
  std::unordered_map<std::uint32_t, std::int64_t> numbers_;
};

}  // namespace

void verify(kernel const& k) { checker(k).run(); }

std::string key_bytes(kernel const& k) { return writer(k).run(); }

}  // namespace reprise::jit
