// A kernel as text, one line an instruction. g0, g1, ... are the grid's loops, i the inner one; b, s, l, r
// the buffers, scalars, local arrays and row registers by number. Numbers are written exactly.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "jit/kernel.h"

namespace reprise::jit {
namespace {

char const* name_of_kop(kop k) {
  switch (k) {
    case kop::const_: return "const";
    case kop::scalar: return "scalar";
    case kop::index: return "index";
    case kop::row: return "row";
    case kop::load: return "load";
    case kop::load_local: return "load_local";
    case kop::add: return "add";
    case kop::sub: return "sub";
    case kop::mul: return "mul";
    case kop::div: return "div";
    case kop::rem: return "rem";
    case kop::neg: return "neg";
    case kop::abs: return "abs";
    case kop::sqrt: return "sqrt";
    case kop::fma: return "fma";
    case kop::floor: return "floor";
    case kop::ceil: return "ceil";
    case kop::trunc: return "trunc";
    case kop::rint: return "rint";
    case kop::minimum: return "minimum";
    case kop::maximum: return "maximum";
    case kop::lt: return "lt";
    case kop::le: return "le";
    case kop::eq: return "eq";
    case kop::ne: return "ne";
    case kop::band: return "and";
    case kop::bor: return "or";
    case kop::bxor: return "xor";
    case kop::bnot: return "not";
    case kop::shl: return "shl";
    case kop::lshr: return "lshr";
    case kop::ashr: return "ashr";
    case kop::select: return "select";
    case kop::convert: return "convert";
    case kop::bitcast: return "bitcast";
    case kop::call: return "call";
    case kop::store: return "store";
    case kop::store_local: return "store_local";
  }
  return "?";
}

char const* name_of_function(libm f) {
  switch (f) {
    case libm::exp: return "exp";
    case libm::expm1: return "expm1";
    case libm::log: return "log";
    case libm::log1p: return "log1p";
    case libm::sin: return "sin";
    case libm::cos: return "cos";
    case libm::tanh: return "tanh";
    case libm::erf: return "erf";
    case libm::erfc: return "erfc";
    case libm::pow: return "pow";
  }
  return "?";
}

char const* name_of_kind(reduction_kind k) {
  switch (k) {
    case reduction_kind::sum: return "sum";
    case reduction_kind::prod: return "prod";
    case reduction_kind::max: return "max";
    case reduction_kind::min: return "min";
    case reduction_kind::any: return "any";
    case reduction_kind::all: return "all";
    case reduction_kind::argmax: return "argmax";
    case reduction_kind::argmin: return "argmin";
  }
  return "?";
}

char const* name_of_order(order o) {
  switch (o) {
    case order::lanes: return "lanes";
    case order::runs: return "runs";
    case order::tree: return "tree";
    case order::contract: return "contract";
  }
  return "?";
}

std::string number(dtype t, std::uint64_t bits) {
  switch (t) {
    case dtype::boolean: return bits ? "true" : "false";
    case dtype::u8: return std::to_string(bits);
    case dtype::i32: return std::to_string(static_cast<std::int32_t>(bits));
    case dtype::i64: return std::to_string(static_cast<std::int64_t>(bits));
    case dtype::f16: return fmt::format("{}", detail::f16_value(static_cast<std::uint16_t>(bits)));
    case dtype::bf16: return fmt::format("{}", detail::bf16_value(static_cast<std::uint16_t>(bits)));
    case dtype::f32: return fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case dtype::f64: return fmt::format("{}", std::bit_cast<double>(bits));
  }
  return "?";
}

class printer {
 public:
  explicit printer(kernel const& k) : k_(k) {}

  std::string run() {
    line("kernel {} over ({}){}", k_.name, fmt::join(k_.grid, ", "), along());
    for (std::size_t n = 0; n < k_.buffers.size(); ++n)
      line("  b{}: {} {}[{}]", n, k_.buffers[n].written ? "write" : "read", name_of(k_.buffers[n].type),
           k_.buffers[n].elements);
    for (std::size_t n = 0; n < k_.scalars.size(); ++n) line("  s{}: {}", n, name_of(k_.scalars[n]));
    for (std::size_t n = 0; n < k_.locals.size(); ++n)
      line("  l{}: {}[{}]", n, name_of(k_.locals[n].type), k_.locals[n].elements);
    for (std::size_t n = 0; n < k_.rows.size(); ++n) line("  r{}: {}", n, name_of(k_.rows[n]));
    for (auto const& p : k_.phases) {
      line("  for i in {}", p.extent);
      for (std::size_t v = 0; v < p.body.size(); ++v)
        line("    {}", instruction_text(p, static_cast<value_id>(v)));
      for (auto const& r : p.reductions)
        line("    r{} = {} {} {} %{}{}", r.row, name_of_kind(r.kind), name_of_order(r.order), name_of(r.type),
             r.value, r.factor == no_value ? "" : fmt::format(" * %{}", r.factor));
    }
    return std::move(out_);
  }

 private:
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<A>(arguments)...);
    out_ += '\n';
  }

  std::string along() const {
    if (k_.lanes == lanes_along::inner) return "";
    return k_.tile == 1
               ? ", lanes along the grid"
               : fmt::format(", lanes along the grid, {} points of g{} at once", k_.tile, k_.tile_loop);
  }

  // Atoms inside atoms are named and written on lines of their own, so that a text is never longer than its
  // index expressions.
  std::string sum(index_expression const& e) {
    std::string text;
    // loop variables first, outermost first, however old their atoms are
    auto const place = [&](term t) {
      atom const& a = k_.index.atoms()[t.atom];
      return a.kind == atom_kind::variable ? a.variable : k_.index.variables() + t.atom;
    };
    std::vector<term> terms = e.terms;
    std::sort(terms.begin(), terms.end(), [&](term x, term y) { return place(x) < place(y); });
    for (term t : terms) {
      std::int64_t const size = t.coefficient < 0 ? -t.coefficient : t.coefficient;
      text += text.empty() ? (t.coefficient < 0 ? "-" : "") : (t.coefficient < 0 ? " - " : " + ");
      text += size == 1 ? names_.at(t.atom) : fmt::format("{}*{}", size, names_.at(t.atom));
    }
    if (text.empty()) return std::to_string(e.constant);
    if (e.constant != 0)
      text += fmt::format(" {} {}", e.constant < 0 ? '-' : '+', e.constant < 0 ? -e.constant : e.constant);
    return text;
  }
  std::string index_text(index_id id) {
    for (std::uint32_t number_of : k_.index.atoms_of(id)) {
      if (names_.contains(number_of)) continue;
      atom const& a = k_.index.atoms()[number_of];
      if (a.kind == atom_kind::variable) {
        names_[number_of] = a.variable == k_.inner() ? "i" : fmt::format("g{}", a.variable);
        continue;
      }
      std::string text = sum(k_.index.at(a.operand));
      bool const simple = k_.index.at(a.operand).terms.size() == 1 && k_.index.at(a.operand).constant == 0;
      if (!simple) text = '(' + text + ')';
      text = fmt::format("({} {} {})", text, a.kind == atom_kind::divide ? '/' : '%', a.divisor);
      if (text.size() > 60) {
        std::string const name = fmt::format("x{}", ++named_);
        line("    {} = {}", name, text);
        text = name;
      }
      names_[number_of] = text;
    }
    return sum(k_.index.at(id));
  }

  std::string instruction_text(phase const& p, value_id v) {
    instruction const& i = p.body[v];
    std::string const guard = i.guard == no_value ? "" : fmt::format(" if %{}", i.guard);
    std::string const head = fmt::format("%{} = {} {}", v, name_of(i.type), name_of_kop(i.code));
    switch (i.code) {
      case kop::const_: return fmt::format("{} {}", head, number(i.type, i.bits));
      case kop::scalar: return fmt::format("{} s{}", head, i.slot);
      case kop::row: return fmt::format("{} r{}", head, i.slot);
      case kop::index: return fmt::format("{} {}", head, index_text(i.index));
      case kop::load: return fmt::format("{} b{}[{}]{}", head, i.slot, index_text(i.index), guard);
      case kop::load_local: return fmt::format("{} l{}[{}]{}", head, i.slot, index_text(i.index), guard);
      case kop::store: return fmt::format("store b{}[{}] = %{}{}", i.slot, index_text(i.index), i.a, guard);
      case kop::store_local:
        return fmt::format("store_local l{}[{}] = %{}{}", i.slot, index_text(i.index), i.a, guard);
      case kop::call:
        return fmt::format("{} {} %{}{}", head, name_of_function(static_cast<libm>(i.slot)), i.a,
                           i.b == no_value ? "" : fmt::format(" %{}", i.b));
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
      case kop::bitcast: {
        std::string text = head;
        for (value_id o : {i.a, i.b, i.c})
          if (o != no_value) text += fmt::format(" %{}", o);
        return text;
      }
    }
    return head;
  }

  kernel const& k_;
  std::string out_;
  std::unordered_map<std::uint32_t, std::string> names_;
  int named_ = 0;
};

}  // namespace

std::string str(kernel const& k) { return printer(k).run(); }

}  // namespace reprise::jit
