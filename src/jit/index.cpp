// Sums of coefficient * atom, interned. All the strength is in two places: `split` finds a divisor g of c
// with expression = g * a + b, 0 <= b < g, after which dividing by c forgets b; and `finish` puts a quotient
// and its remainder, c * (x / c) + x % c, together again. An atom is younger than every atom inside it, so
// walks over atoms in their order need no recursion; divide and modulo recurse on smaller divisors only.
#include "jit/index.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include <reprise/error.h>

namespace reprise::jit {
namespace {

[[noreturn]] void overflow() {
  throw compile_error("index expression: the arithmetic of an array's offsets does not fit in 64 bits");
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) overflow();
  return r;
}
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) overflow();
  return r;
}
std::int64_t floor_div(std::int64_t a, std::int64_t c) { return a / c - (a % c < 0); }
std::int64_t floor_mod(std::int64_t a, std::int64_t c) { return a % c + (a % c < 0 ? c : 0); }

// Bounds saturate: a bound that does not fit proves nothing, which is safe.
std::int64_t saturated(__int128 v) {
  return static_cast<std::int64_t>(std::clamp<__int128>(v, INT64_MIN, INT64_MAX));
}

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

}  // namespace

struct index_arena::tables {
  struct division {
    atom_kind kind;
    index_id operand;
    std::int64_t divisor;
    friend bool operator==(division const&, division const&) = default;
  };
  struct division_hash {
    std::size_t operator()(division const& d) const {
      return mix(mix(static_cast<std::uint64_t>(d.kind), d.operand), static_cast<std::uint64_t>(d.divisor));
    }
  };
  // A sum under construction: terms in any order, atoms repeated.
  struct sum {
    std::vector<term> terms;
    std::int64_t constant = 0;
    void add(index_expression const& e, std::int64_t factor) {
      for (term t : e.terms) terms.push_back({t.atom, times(t.coefficient, factor)});
      constant = plus(constant, times(e.constant, factor));
    }
  };

  std::unordered_multimap<std::uint64_t, index_id> interned;
  std::unordered_map<std::uint32_t, std::uint32_t> variable_atoms;
  std::unordered_map<division, std::uint32_t, division_hash> division_atoms;
  std::unordered_map<division, index_id, division_hash> results;  // of divide and modulo
  std::vector<range> ranges;                                      // of expressions
  std::vector<range> atom_ranges;
  std::vector<std::vector<std::uint32_t>> inside;  // all atoms that an expression is made of, ascending

  static range of(index_arena const& a, index_expression const& e) { return of(e, a.tables_[0].atom_ranges); }
  static range of(index_expression const& e, std::vector<range> const& atoms) {
    __int128 low = e.constant, high = e.constant;
    for (term t : e.terms) {
      range const r = atoms[t.atom];
      __int128 const x = static_cast<__int128>(t.coefficient) * r.low;
      __int128 const y = static_cast<__int128>(t.coefficient) * r.high;
      low += std::min(x, y);
      high += std::max(x, y);
    }
    return {saturated(low), saturated(high)};
  }

  static void merge(sum& s) {
    std::sort(s.terms.begin(), s.terms.end(), [](term a, term b) { return a.atom < b.atom; });
    std::size_t n = 0;
    for (std::size_t i = 0; i < s.terms.size();) {
      term t = s.terms[i++];
      while (i < s.terms.size() && s.terms[i].atom == t.atom)
        t.coefficient = plus(t.coefficient, s.terms[i++].coefficient);
      if (t.coefficient != 0) s.terms[n++] = t;
    }
    s.terms.resize(n);
  }

  static index_id intern(index_arena& a, index_expression e) {
    std::uint64_t h = mix(1, static_cast<std::uint64_t>(e.constant));
    for (term t : e.terms) h = mix(mix(h, t.atom), static_cast<std::uint64_t>(t.coefficient));
    auto& self = a.tables_[0];
    auto const [first, last] = self.interned.equal_range(h);
    for (auto i = first; i != last; ++i) {
      auto const& known = a.expressions_[i->second];
      if (known.constant == e.constant &&
          std::equal(known.terms.begin(), known.terms.end(), e.terms.begin(), e.terms.end(),
                     [](term x, term y) { return x.atom == y.atom && x.coefficient == y.coefficient; }))
        return i->second;
    }
    auto const id = static_cast<index_id>(a.expressions_.size());
    self.ranges.push_back(of(a, e));
    std::vector<std::uint32_t> atoms;
    for (term t : e.terms) {
      atoms.push_back(t.atom);
      if (a.atoms_[t.atom].kind != atom_kind::variable) {
        auto const& deeper = self.inside[a.atoms_[t.atom].operand];
        atoms.insert(atoms.end(), deeper.begin(), deeper.end());
      }
    }
    std::sort(atoms.begin(), atoms.end());
    atoms.erase(std::unique(atoms.begin(), atoms.end()), atoms.end());
    self.inside.push_back(std::move(atoms));
    a.expressions_.push_back(std::move(e));
    self.interned.emplace(h, id);
    return id;
  }

  // One step of putting a remainder k * (u % c) together with what divides by the same c: with k * c * (u /
  // c) it is k * u, with k * c * ((u / c) % d) it is k * (u % (c * d)).
  static bool reunite(index_arena& a, sum& s) {
    for (std::size_t i = 0; i < s.terms.size(); ++i) {
      atom const remainder = a.atoms_[s.terms[i].atom];
      if (remainder.kind != atom_kind::modulo) continue;
      std::int64_t const k = s.terms[i].coefficient, c = remainder.divisor;
      std::int64_t whole;
      if (__builtin_mul_overflow(k, c, &whole)) continue;
      bool candidate = false;
      for (term t : s.terms) candidate |= t.coefficient == whole || t.coefficient == -whole;
      if (!candidate) continue;
      index_id const quotient = a.divide(remainder.operand, c);
      index_expression const q = a.expressions_[quotient];
      for (std::size_t j = 0; j < s.terms.size(); ++j) {
        if (j == i) continue;
        term const t = s.terms[j];
        if (q.terms.size() == 1 && q.terms[0].atom == t.atom &&
            t.coefficient == whole * q.terms[0].coefficient) {
          s.add(q, -whole);
          s.terms.push_back({s.terms[i].atom, -k});
          s.add(a.expressions_[remainder.operand], k);
          return true;
        }
        atom const other = a.atoms_[t.atom];
        std::int64_t both;
        if (other.kind == atom_kind::modulo && other.operand == quotient && t.coefficient == whole &&
            !__builtin_mul_overflow(c, other.divisor, &both)) {
          index_id const joined = a.modulo(remainder.operand, both);
          s.terms.push_back({s.terms[i].atom, -k});
          s.terms.push_back({t.atom, -whole});
          s.add(a.expressions_[joined], k);
          return true;
        }
      }
    }
    return false;
  }

  static index_id finish(index_arena& a, sum s) {
    merge(s);
    while (reunite(a, s)) merge(s);
    return intern(a, {std::move(s.terms), s.constant});
  }

  static index_id atom_expression(index_arena& a, std::uint32_t atom) { return intern(a, {{{atom, 1}}, 0}); }

  static range divided(atom_kind kind, range r, std::int64_t c) {
    std::int64_t const low = floor_div(r.low, c), high = floor_div(r.high, c);
    if (kind == atom_kind::divide) return {low, high};
    return low == high ? range{floor_mod(r.low, c), floor_mod(r.high, c)} : range{0, c - 1};
  }

  static std::uint32_t add_atom(index_arena& a, atom what, range r) {
    a.atoms_.push_back(what);
    a.tables_[0].atom_ranges.push_back(r);
    return static_cast<std::uint32_t>(a.atoms_.size() - 1);
  }

  static index_id division_expression(index_arena& a, atom_kind kind, index_id operand, std::int64_t c) {
    auto& self = a.tables_[0];
    division const key{kind, operand, c};
    auto found = self.division_atoms.find(key);
    if (found == self.division_atoms.end()) {
      range const r = self.ranges[operand];
      range const result =
          kind == atom_kind::modulo ? range{0, c - 1} : range{floor_div(r.low, c), floor_div(r.high, c)};
      found = self.division_atoms.emplace(key, add_atom(a, {kind, 0, operand, c}, result)).first;
    }
    return atom_expression(a, found->second);
  }

  struct parts {
    std::int64_t g = 1;
    sum high;  // the expression is g * high + low
    sum low;   // in [0, g)
  };
  // The largest divisor g > 1 of c for which the expression splits.
  static std::optional<parts> split(index_arena const& a, index_expression const& e, std::int64_t c) {
    std::vector<std::int64_t> divisors{c};
    for (term t : e.terms) divisors.push_back(std::gcd(t.coefficient, c));
    std::sort(divisors.begin(), divisors.end(), std::greater<>());
    divisors.erase(std::unique(divisors.begin(), divisors.end()), divisors.end());
    for (std::int64_t g : divisors) {
      if (g == 1) break;
      parts p;
      p.g = g;
      p.low.constant = e.constant;
      for (term t : e.terms)
        if (t.coefficient % g == 0) p.high.terms.push_back({t.atom, t.coefficient / g});
        else p.low.terms.push_back(t);
      range const r = of(a, {p.low.terms, p.low.constant});
      std::int64_t const m = floor_div(r.low, g);
      if (m != floor_div(r.high, g) || r.low == INT64_MIN || r.high == INT64_MAX) continue;
      p.high.constant = m;
      p.low.constant -= m * g;
      return p;
    }
    return std::nullopt;
  }

  static index_id divide(index_arena& a, index_id id, std::int64_t c) {
    index_expression const e = a.expressions_[id];
    sum quotient;
    index_expression rest;
    quotient.constant = floor_div(e.constant, c);
    rest.constant = floor_mod(e.constant, c);
    for (term t : e.terms) {
      if (t.coefficient / c != 0) quotient.terms.push_back({t.atom, t.coefficient / c});
      if (t.coefficient % c != 0) rest.terms.push_back({t.atom, t.coefficient % c});
    }
    if (!quotient.terms.empty() || quotient.constant != 0) {
      index_id const r = a.divide(finish(a, {rest.terms, rest.constant}), c);
      quotient.add(a.expressions_[r], 1);
      return finish(a, std::move(quotient));
    }
    if (auto p = split(a, e, c)) return a.divide(finish(a, std::move(p->high)), c / p->g);
    if (e.terms.size() == 1 && e.terms[0].coefficient == 1) {
      atom const inner = a.atoms_[e.terms[0].atom];
      std::int64_t both, moved;
      if (inner.kind == atom_kind::divide && !__builtin_mul_overflow(inner.divisor, c, &both) &&
          !__builtin_mul_overflow(inner.divisor, e.constant, &moved))
        return a.divide(a.add(inner.operand, moved), both);
      if (inner.kind == atom_kind::modulo && e.constant == 0 && inner.divisor % c == 0)
        return a.modulo(a.divide(inner.operand, c), inner.divisor / c);
    }
    if (e.terms[0].coefficient < 0) return a.add(a.mul(a.divide(flipped(a, e), c), -1), -1);
    return division_expression(a, atom_kind::divide, id, c);
  }

  static index_id modulo(index_arena& a, index_id id, std::int64_t c) {
    index_expression const e = a.expressions_[id];
    index_expression rest;
    rest.constant = floor_mod(e.constant, c);
    bool reduced = rest.constant != e.constant;
    for (term t : e.terms) {
      if (t.coefficient % c != 0) rest.terms.push_back({t.atom, t.coefficient % c});
      reduced |= t.coefficient / c != 0;
    }
    if (reduced) return a.modulo(finish(a, {rest.terms, rest.constant}), c);
    if (auto p = split(a, e, c)) {
      index_id const high = a.modulo(finish(a, std::move(p->high)), c / p->g);
      p->low.add(a.expressions_[high], p->g);
      return finish(a, std::move(p->low));
    }
    // k * (y % d) is k * y but for a multiple of k * d; taken only where the expression does not grow by it
    for (term t : e.terms) {
      atom const inner = a.atoms_[t.atom];
      std::int64_t period;
      if (inner.kind != atom_kind::modulo || __builtin_mul_overflow(t.coefficient, inner.divisor, &period) ||
          period % c != 0)
        continue;
      if (e.terms.size() > 1 && a.expressions_[inner.operand].terms.size() > 1) continue;
      sum s{e.terms, e.constant};
      s.terms.push_back({t.atom, -t.coefficient});
      s.add(a.expressions_[inner.operand], t.coefficient);
      return a.modulo(finish(a, std::move(s)), c);
    }
    if (e.terms[0].coefficient < 0) return a.add(a.mul(a.modulo(flipped(a, e), c), -1), c - 1);
    return division_expression(a, atom_kind::modulo, id, c);
  }

  // -1 - e: division by c turns into -1 - quotient, and the remainder into c - 1 - remainder.
  static index_id flipped(index_arena& a, index_expression const& e) {
    sum s;
    s.add(e, -1);
    s.constant = plus(s.constant, -1);
    return finish(a, std::move(s));
  }
};

index_arena::index_arena() { tables_.emplace_back(); }
index_arena::~index_arena() = default;
index_arena::index_arena(index_arena const&) = default;
index_arena::index_arena(index_arena&&) noexcept = default;
index_arena& index_arena::operator=(index_arena const&) = default;
index_arena& index_arena::operator=(index_arena&&) noexcept = default;

std::uint32_t index_arena::add_variable(std::int64_t extent) {
  if (extent < 0)
    throw compile_error("index expression: a loop cannot have the extent " + std::to_string(extent));
  extents_.push_back(extent);
  return static_cast<std::uint32_t>(extents_.size() - 1);
}

index_id index_arena::constant(std::int64_t c) { return tables::intern(*this, {{}, c}); }

index_id index_arena::variable(std::uint32_t v) {
  if (v >= extents_.size())
    throw compile_error("index expression: there is no loop variable " + std::to_string(v));
  if (extents_[v] <= 1) return constant(0);
  auto& atoms = tables_[0].variable_atoms;
  auto found = atoms.find(v);
  if (found == atoms.end()) {
    range const r{0, extents_[v] - 1};
    found = atoms.emplace(v, tables::add_atom(*this, {atom_kind::variable, v, 0, 1}, r)).first;
  }
  return tables::atom_expression(*this, found->second);
}

index_id index_arena::add(index_id a, index_id b) {
  tables::sum s;
  s.add(expressions_[a], 1);
  s.add(expressions_[b], 1);
  return tables::finish(*this, std::move(s));
}

index_id index_arena::add(index_id a, std::int64_t c) {
  index_expression e = expressions_[a];
  e.constant = plus(e.constant, c);
  return tables::intern(*this, std::move(e));
}

index_id index_arena::mul(index_id a, std::int64_t c) {
  if (c == 0) return constant(0);
  index_expression e = expressions_[a];
  for (term& t : e.terms) t.coefficient = times(t.coefficient, c);
  e.constant = times(e.constant, c);
  return tables::intern(*this, std::move(e));
}

index_id index_arena::divide(index_id a, std::int64_t c) {
  if (c <= 0) throw compile_error("index expression: division by " + std::to_string(c));
  if (c == 1) return a;
  if (expressions_[a].terms.empty()) return constant(floor_div(expressions_[a].constant, c));
  tables::division const key{atom_kind::divide, a, c};
  if (auto known = tables_[0].results.find(key); known != tables_[0].results.end()) return known->second;
  index_id const result = tables::divide(*this, a, c);
  tables_[0].results.emplace(key, result);
  return result;
}

index_id index_arena::modulo(index_id a, std::int64_t c) {
  if (c <= 0) throw compile_error("index expression: remainder of a division by " + std::to_string(c));
  if (expressions_[a].terms.empty()) return constant(floor_mod(expressions_[a].constant, c));
  if (c == 1) return constant(0);
  tables::division const key{atom_kind::modulo, a, c};
  if (auto known = tables_[0].results.find(key); known != tables_[0].results.end()) return known->second;
  index_id const result = tables::modulo(*this, a, c);
  tables_[0].results.emplace(key, result);
  return result;
}

index_id index_arena::substitute(index_id a, std::span<index_id const> by) {
  std::vector<std::uint32_t> const inside = tables_[0].inside[a];  // a copy: the tables grow
  std::unordered_map<std::uint32_t, index_id> now;
  auto const rebuilt = [&](index_expression const& e) {
    tables::sum s;
    s.constant = e.constant;
    for (term t : e.terms) s.add(expressions_[now.at(t.atom)], t.coefficient);
    return tables::finish(*this, std::move(s));
  };
  for (std::uint32_t i : inside) {
    atom const was = atoms_[i];
    switch (was.kind) {
      case atom_kind::variable:
        if (was.variable >= by.size())
          throw compile_error("index expression: nothing to put in the place of loop variable " +
                              std::to_string(was.variable));
        now[i] = by[was.variable];
        break;
      case atom_kind::divide:
        now[i] = divide(rebuilt(index_expression(expressions_[was.operand])), was.divisor);
        break;
      case atom_kind::modulo:
        now[i] = modulo(rebuilt(index_expression(expressions_[was.operand])), was.divisor);
        break;
    }
  }
  return rebuilt(index_expression(expressions_[a]));
}

std::vector<std::uint32_t> const& index_arena::atoms_of(index_id id) const { return tables_[0].inside[id]; }

range index_arena::bounds(index_id id) const { return tables_[0].ranges[id]; }

range index_arena::bounds(index_id id, std::uint32_t variable, std::int64_t extent) const {
  auto const& inside = tables_[0].inside[id];
  std::vector<range> ranges(inside.empty() ? 0 : inside.back() + 1);
  for (std::uint32_t i : inside) {
    atom const& a = atoms_[i];
    if (a.kind != atom_kind::variable)
      ranges[i] = tables::divided(a.kind, tables::of(expressions_[a.operand], ranges), a.divisor);
    else ranges[i] = a.variable == variable ? range{0, extent - 1} : tables_[0].atom_ranges[i];
  }
  return tables::of(expressions_[id], ranges);
}

bool index_arena::depends(index_id id, std::uint32_t variable) const {
  for (std::uint32_t i : tables_[0].inside[id])
    if (atoms_[i].kind == atom_kind::variable && atoms_[i].variable == variable) return true;
  return false;
}

std::optional<std::int64_t> index_arena::stride(index_id id, std::uint32_t variable) const {
  std::int64_t found = 0;
  for (term t : expressions_[id].terms) {
    atom const& a = atoms_[t.atom];
    if (a.kind == atom_kind::variable) {
      if (a.variable == variable) found = t.coefficient;
    } else if (depends(a.operand, variable)) {
      return std::nullopt;
    }
  }
  return found;
}

std::int64_t index_arena::evaluate(index_id id, std::span<std::int64_t const> variables) const {
  auto const& inside = tables_[0].inside[id];
  std::vector<std::int64_t> values(inside.empty() ? 0 : inside.back() + 1);
  auto const value = [&](index_expression const& e) {
    std::int64_t v = e.constant;
    for (term t : e.terms) v += t.coefficient * values[t.atom];
    return v;
  };
  for (std::uint32_t i : inside) {
    atom const& a = atoms_[i];
    switch (a.kind) {
      case atom_kind::variable: values[i] = variables[a.variable]; break;
      case atom_kind::divide: values[i] = floor_div(value(expressions_[a.operand]), a.divisor); break;
      case atom_kind::modulo: values[i] = floor_mod(value(expressions_[a.operand]), a.divisor); break;
    }
  }
  return value(expressions_[id]);
}

}  // namespace reprise::jit
