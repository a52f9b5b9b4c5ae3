#include "jit/collapse.h"

#include <algorithm>
#include <unordered_set>

namespace reprise::jit {
namespace {

std::int64_t coefficient(index_arena const& arena, index_expression const& e, std::uint32_t variable) {
  for (term const& t : e.terms) {
    atom const& a = arena.atoms()[t.atom];
    if (a.kind == atom_kind::variable && a.variable == variable) return t.coefficient;
  }
  return 0;
}

// All sums: the expressions themselves and the operands of divisions inside them.
std::vector<index_id> sums_inside(index_arena const& arena, std::span<index_id const> used) {
  std::vector<index_id> found, todo(used.begin(), used.end());
  std::unordered_set<index_id> seen;
  while (!todo.empty()) {
    index_id const e = todo.back();
    todo.pop_back();
    if (!seen.insert(e).second) continue;
    found.push_back(e);
    for (term const& t : arena.at(e).terms) {
      atom const& a = arena.atoms()[t.atom];
      if (a.kind != atom_kind::variable) todo.push_back(a.operand);
    }
  }
  return found;
}

}  // namespace

std::vector<axis_loop> collapse(index_arena const& arena, std::span<index_id const> used,
                                std::vector<axis_loop> loops) {
  std::vector<index_id> const sums = sums_inside(arena, used);
  for (std::size_t i = loops.size(); i-- > 1;) {
    axis_loop &outer = loops[i - 1], &inner = loops[i];
    bool const fits = std::all_of(sums.begin(), sums.end(), [&](index_id e) {
      index_expression const& sum = arena.at(e);
      std::int64_t const a = coefficient(arena, sum, outer.variables.back()),
                         b = coefficient(arena, sum, inner.variables.back());
      return static_cast<__int128>(b) * inner.extent == a;
    });
    if (!fits) continue;
    outer.extent *= inner.extent;
    outer.variables.insert(outer.variables.end(), inner.variables.begin(), inner.variables.end());
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return loops;
}

void spread(index_arena const& from, axis_loop const& loop, index_arena& to, index_id at,
            std::span<index_id> by) {
  for (std::size_t i = loop.variables.size(); i-- > 1;) {
    std::int64_t const extent = from.extent(loop.variables[i]);
    by[loop.variables[i]] = to.modulo(at, extent);
    at = to.divide(at, extent);
  }
  by[loop.variables[0]] = at;
}

index_id index_map::operator()(index_id e) {
  if (auto const known = known_.find(e); known != known_.end()) return known->second;
  index_expression const sum = from_.at(e);
  index_id result = to_.constant(sum.constant);
  for (term const& t : sum.terms) {
    atom const a = from_.atoms()[t.atom];
    index_id value = 0;
    switch (a.kind) {
      case atom_kind::variable: value = by_[a.variable]; break;
      case atom_kind::divide: value = to_.divide((*this)(a.operand), a.divisor); break;
      case atom_kind::modulo: value = to_.modulo((*this)(a.operand), a.divisor); break;
    }
    result = to_.add(result, to_.mul(value, t.coefficient));
  }
  known_.emplace(e, result);
  return result;
}

}  // namespace reprise::jit
