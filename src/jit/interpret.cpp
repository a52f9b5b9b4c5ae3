// Every phase at every point of the grid, one after the other; a phase evaluates one instruction at a time
// over a block of its inner indices and keeps what its reductions take until the loop is over.
#include "jit/interpret.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <reprise/error.h>

namespace reprise::jit {
namespace {

constexpr std::int64_t block = 1024;

// The atoms of a kernel's index expressions at a block of inner indices.
class index_lanes {
 public:
  explicit index_lanes(kernel const& k) : k_(k), atoms_(k.index.atoms().size()) {}

  void need(index_id id) {
    for (std::uint32_t a : k_.index.atoms_of(id))
      if (atoms_[a].empty()) {
        atoms_[a].resize(block);
        needed_.push_back(a);
      }
  }
  void prepare() { std::sort(needed_.begin(), needed_.end()); }

  void move_to(std::vector<std::int64_t> const& point, std::int64_t inner, std::size_t n) {
    for (std::uint32_t id : needed_) {
      atom const& a = k_.index.atoms()[id];
      std::int64_t* const to = atoms_[id].data();
      if (a.kind == atom_kind::variable) {
        for (std::size_t l = 0; l < n; ++l)
          to[l] = a.variable == k_.inner() ? inner + static_cast<std::int64_t>(l) : point[a.variable];
        continue;
      }
      evaluate(a.operand, n, to);
      for (std::size_t l = 0; l < n; ++l) {
        std::int64_t const r = to[l] % a.divisor, q = to[l] / a.divisor;
        to[l] = a.kind == atom_kind::divide ? q - (r < 0) : r + (r < 0 ? a.divisor : 0);
      }
    }
  }
  void evaluate(index_id id, std::size_t n, std::int64_t* to) const {
    auto const& e = k_.index.at(id);
    std::fill_n(to, n, e.constant);
    for (term t : e.terms) {
      std::int64_t const* from = atoms_[t.atom].data();
      for (std::size_t l = 0; l < n; ++l) to[l] += t.coefficient * from[l];
    }
  }

 private:
  kernel const& k_;
  std::vector<std::uint32_t> needed_;
  std::vector<std::vector<std::int64_t>> atoms_;
};

class phase_run {
 public:
  phase_run(kernel const& k, phase const& p, std::span<void* const> buffers,
            std::span<std::uint64_t const> scalars, std::vector<std::vector<unsigned char>>& locals,
            std::vector<std::uint64_t>& rows)
      : k_(k),
        p_(p),
        buffers_(buffers),
        scalars_(scalars),
        locals_(locals),
        rows_(rows),
        indices_(k),
        offsets_(block) {
    for (auto const& i : p.body) {
      values_.emplace_back(static_cast<std::size_t>(block) * bytes(i.type));
      if (uses_index(i.code)) indices_.need(i.index);
    }
    indices_.prepare();
    for (auto const& r : p.reductions)
      for (value_id v : {r.value, r.factor})
        collected_.emplace_back(v == no_value ? 0
                                              : static_cast<std::size_t>(p.extent) * bytes(p.body[v].type));
  }

  void run(std::vector<std::int64_t> const& point) {
    for (std::int64_t inner = 0; inner < p_.extent; inner += block) {
      auto const n = static_cast<std::size_t>(std::min(block, p_.extent - inner));
      indices_.move_to(point, inner, n);
      for (std::size_t v = 0; v < p_.body.size(); ++v) execute(p_.body[v], values_[v].data(), n);
      for (std::size_t r = 0; r < p_.reductions.size(); ++r) {
        collect(collected_[2 * r], p_.reductions[r].value, inner, n);
        collect(collected_[2 * r + 1], p_.reductions[r].factor, inner, n);
      }
    }
    for (std::size_t r = 0; r < p_.reductions.size(); ++r) {
      reduction const& what = p_.reductions[r];
      rows_[what.row] = reduce(what, p_.body[what.value].type, static_cast<std::size_t>(p_.extent),
                               collected_[2 * r].data(), collected_[2 * r + 1].data());
    }
  }

 private:
  static std::size_t bytes(dtype t) { return static_cast<std::size_t>(size_of(t)); }
  static bool uses_index(kop k) {
    return k == kop::index || k == kop::load || k == kop::load_local || k == kop::store ||
           k == kop::store_local;
  }

  void collect(std::vector<unsigned char>& to, value_id v, std::int64_t inner, std::size_t n) const {
    if (v == no_value) return;
    std::size_t const size = bytes(p_.body[v].type);
    std::memcpy(to.data() + static_cast<std::size_t>(inner) * size, values_[v].data(), n * size);
  }

  void const* operand(value_id v) const { return v == no_value ? nullptr : values_[v].data(); }

  static void fill(void* to, std::size_t size, std::uint64_t bits, std::size_t n) {
    for (std::size_t l = 0; l < n; ++l) std::memcpy(static_cast<unsigned char*>(to) + l * size, &bits, size);
  }

  // Calls visit(lane, address) for each lane that the guard lets through.
  template <class F>
  void each_access(instruction const& i, void* base, dtype type, std::int64_t elements, char const* what,
                   std::size_t n, F&& visit) {
    indices_.evaluate(i.index, n, offsets_.data());
    auto const* guard = static_cast<std::uint8_t const*>(operand(i.guard));
    for (std::size_t l = 0; l < n; ++l) {
      if (guard && !guard[l]) continue;
      if (offsets_[l] < 0 || offsets_[l] >= elements)
        throw compile_error("kernel " + k_.name + ": element " + std::to_string(offsets_[l]) + " of " + what +
                            " " + std::to_string(i.slot) + ", which has " + std::to_string(elements));
      visit(l, static_cast<unsigned char*>(base) + static_cast<std::size_t>(offsets_[l]) * bytes(type));
    }
  }

  void load(instruction const& i, unsigned char* to, void* base, dtype type, std::int64_t elements,
            char const* what, std::size_t n) {
    std::size_t const size = bytes(type);
    if (i.guard != no_value) std::memset(to, 0, n * size);
    each_access(i, base, type, elements, what, n, [&](std::size_t l, unsigned char const* from) {
      std::memcpy(to + l * size, from, size);
      if (type == dtype::boolean) to[l] = to[l] != 0;
    });
  }
  void store(instruction const& i, void* base, dtype type, std::int64_t elements, char const* what,
             std::size_t n) {
    std::size_t const size = bytes(type);
    auto const* from = static_cast<unsigned char const*>(operand(i.a));
    each_access(i, base, type, elements, what, n,
                [&](std::size_t l, unsigned char* to) { std::memcpy(to, from + l * size, size); });
  }

  void execute(instruction const& i, unsigned char* to, std::size_t n) {
    switch (i.code) {
      case kop::const_: return fill(to, bytes(i.type), i.bits, n);
      case kop::scalar: return fill(to, bytes(i.type), scalars_[i.slot], n);
      case kop::row: return fill(to, bytes(i.type), rows_[i.slot], n);
      case kop::index: return indices_.evaluate(i.index, n, reinterpret_cast<std::int64_t*>(to));
      case kop::load:
        return load(i, to, buffers_[i.slot], k_.buffers[i.slot].type, k_.buffers[i.slot].elements, "buffer",
                    n);
      case kop::load_local:
        return load(i, to, locals_[i.slot].data(), k_.locals[i.slot].type, k_.locals[i.slot].elements,
                    "local array", n);
      case kop::store:
        return store(i, buffers_[i.slot], k_.buffers[i.slot].type, k_.buffers[i.slot].elements, "buffer", n);
      case kop::store_local:
        return store(i, locals_[i.slot].data(), k_.locals[i.slot].type, k_.locals[i.slot].elements,
                     "local array", n);
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
      case kop::call:
        return apply(i, p_.body[i.code == kop::select ? i.b : i.a].type, n, operand(i.a), operand(i.b),
                     operand(i.c), to);
    }
  }

  kernel const& k_;
  phase const& p_;
  std::span<void* const> buffers_;
  std::span<std::uint64_t const> scalars_;
  std::vector<std::vector<unsigned char>>& locals_;
  std::vector<std::uint64_t>& rows_;
  index_lanes indices_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::vector<unsigned char>> values_;     // of each instruction, a block of lanes
  std::vector<std::vector<unsigned char>> collected_;  // of each reduction: values, factors
};

}  // namespace

void interpret(kernel const& k, std::span<void* const> buffers, std::span<std::uint64_t const> scalars) {
  if (buffers.size() != k.buffers.size() || scalars.size() != k.scalars.size())
    throw compile_error("kernel " + k.name + ": " + std::to_string(buffers.size()) + " buffers and " +
                        std::to_string(scalars.size()) + " scalars were given, it has " +
                        std::to_string(k.buffers.size()) + " and " + std::to_string(k.scalars.size()));
  std::vector<std::vector<unsigned char>> locals;
  for (auto const& l : k.locals)
    locals.emplace_back(static_cast<std::size_t>(l.elements) * static_cast<std::size_t>(size_of(l.type)));
  std::vector<std::uint64_t> rows(k.rows.size());
  std::vector<phase_run> runs;
  runs.reserve(k.phases.size());
  for (auto const& p : k.phases) runs.emplace_back(k, p, buffers, scalars, locals, rows);
  std::vector<std::int64_t> point(k.grid.size());
  for (std::int64_t left = k.points(); left > 0; --left) {
    for (auto& run : runs) run.run(point);
    for (std::size_t d = point.size(); d-- > 0;) {
      if (++point[d] < k.grid[d]) break;
      point[d] = 0;
    }
  }
}

}  // namespace reprise::jit
