// Index expressions: what of one is known before the inner loop, what changes in it, and how it goes along
// the lanes.
//
// A quotient or remainder of the lane's variable need not break a stride: lane 0 is at a multiple of the
// vector's length, so when the divisor is such a multiple too, all lanes have one quotient, and their
// remainders follow each other.
#include <numeric>

#include "jit/cpu/emit_state.h"

namespace reprise::cpu {

using jit::atom_kind;
using jit::index_id;

unsigned emitter::dependences_of_atom(std::uint32_t atom) {
  if (auto const known = atom_deps_.find(atom); known != atom_deps_.end()) return known->second;
  jit::atom const& a = k_.index.atoms()[atom];
  unsigned d = dependence::none;
  if (a.kind == atom_kind::variable) {
    if (a.variable == inner_ && phase_->extent > 1) d |= dependence::inner;
    if (a.variable == lane_variable_) d |= dependence::lane;
    if (a.variable == tile_variable_ && tile_ > 1) d |= dependence::tile;
  } else {
    d = dependences(a.operand);
  }
  return atom_deps_[atom] = d;
}

unsigned emitter::dependences(index_id e) {
  unsigned d = dependence::none;
  for (jit::term t : k_.index.at(e).terms) d |= dependences_of_atom(t.atom);
  return d;
}

bool emitter::divides_inner() {
  for (auto const& i : phase_->body) {
    if (i.code != jit::kop::load && i.code != jit::kop::index) continue;
    for (jit::term t : k_.index.at(i.index).terms)
      if (k_.index.atoms()[t.atom].kind != atom_kind::variable &&
          (dependences_of_atom(t.atom) & dependence::inner) != 0)
        return true;
  }
  return false;
}

std::int64_t emitter::alignment(index_id e) {
  auto const& x = k_.index.at(e);
  std::int64_t known = x.constant;
  for (jit::term t : x.terms) {
    jit::atom const& a = k_.index.atoms()[t.atom];
    std::int64_t of_atom = 1;
    switch (a.kind) {
      case atom_kind::variable: of_atom = a.variable == lane_variable_ ? lanes_ : 1; break;
      case atom_kind::modulo: of_atom = std::gcd(alignment(a.operand), a.divisor); break;
      case atom_kind::divide: {
        std::int64_t const inside = alignment(a.operand);
        of_atom = inside % a.divisor == 0 ? inside / a.divisor : 1;
        break;
      }
    }
    known = std::gcd(known, t.coefficient * of_atom);
  }
  return known;
}

std::optional<std::int64_t> emitter::lane_stride_of_atom(std::uint32_t atom) {
  if (lanes_ == 1 || (dependences_of_atom(atom) & dependence::lane) == 0) return 0;
  jit::atom const& a = k_.index.atoms()[atom];
  if (a.kind == atom_kind::variable) return 1;
  auto const inside = lane_stride(a.operand);
  if (!inside || *inside < 0) return std::nullopt;
  if (*inside == 0) return 0;
  // The remainder at lane 0 is a multiple of `unit`, so at most divisor - unit.
  std::int64_t const unit = std::gcd(alignment(a.operand), a.divisor);
  if (*inside * (lanes_ - 1) >= unit) return std::nullopt;
  return a.kind == atom_kind::divide ? 0 : *inside;
}

std::optional<std::int64_t> emitter::lane_stride(index_id e) {
  std::int64_t s = 0;
  for (jit::term t : k_.index.at(e).terms) {
    auto const one = lane_stride_of_atom(t.atom);
    if (!one) return std::nullopt;
    s += t.coefficient * *one;
  }
  return s;
}

Value* emitter::variable_at(std::uint32_t variable, int t, int v) {
  std::int64_t const more = (variable == lane_variable_ ? static_cast<std::int64_t>(v) * lanes_ : 0) +
                            (variable == tile_variable_ ? t : 0);
  Value* const base = variables_[variable];
  return more == 0 ? base : b_.CreateAdd(base, b_.getInt64(static_cast<std::uint64_t>(more)));
}

namespace {

// Floor division and modulus by a positive constant, of a scalar or a vector with a known lower bound.
Value* divide_by(llvm::IRBuilder<>& b, atom_kind kind, Value* x, std::int64_t low, std::int64_t divisor) {
  auto constant = [&](std::int64_t c) { return llvm::ConstantInt::getSigned(x->getType(), c); };
  std::int64_t const steps = low >= 0 ? 0 : -((low + 1) / divisor) + 1;  // x + steps * divisor >= 0
  Value* const shifted = steps == 0 ? x : b.CreateAdd(x, constant(steps * divisor));
  if (kind == atom_kind::modulo) return b.CreateURem(shifted, constant(divisor));
  Value* const q = b.CreateUDiv(shifted, constant(divisor));
  return steps == 0 ? q : b.CreateSub(q, constant(steps));
}

}  // namespace

Value* emitter::scalar_index(index_id e, int t, int v) {
  auto const& x = k_.index.at(e);
  Value* s = nullptr;
  for (jit::term m : x.terms) s = sum(s, scaled(scalar_atom(m.atom, t, v), m.coefficient));
  Value* const c = b_.getInt64(static_cast<std::uint64_t>(x.constant));
  return s ? b_.CreateAdd(s, c) : c;
}

Value* emitter::scalar_atom(std::uint32_t atom, int t, int v) {
  jit::atom const& a = k_.index.atoms()[atom];
  if (a.kind == atom_kind::variable) return variable_at(a.variable, t, v);
  unsigned const d = dependences_of_atom(atom);
  std::tuple const key{atom, (d & dependence::tile) ? t : 0, (d & dependence::lane) ? v : 0};
  auto& known = (d & dependence::inner) ? loop_atoms_ : row_atoms_;
  if (auto const found = known.find(key); found != known.end()) return found->second;
  Value* const q =
      divide_by(b_, a.kind, scalar_index(a.operand, t, v), k_.index.bounds(a.operand).low, a.divisor);
  if (in_loop_ == ((d & dependence::inner) != 0)) known[key] = q;
  return q;
}

Value* emitter::iota(llvm::IntegerType* as, std::int64_t stride) {
  if (lanes_ == 1) return llvm::ConstantInt::get(as, 0);
  std::vector<llvm::Constant*> c;
  for (int l = 0; l < lanes_; ++l) c.push_back(llvm::ConstantInt::getSigned(as, l * stride));
  return llvm::ConstantVector::get(c);
}

Value* emitter::vector_atom(std::uint32_t atom, int t, int v, llvm::IntegerType* as) {
  if (lane_stride_of_atom(atom)) {
    Value* const first = b_.CreateIntCast(scalar_atom(atom, t, v), as, true);
    return b_.CreateAdd(splat(first), iota(as, *lane_stride_of_atom(atom)));
  }
  jit::atom const& a = k_.index.atoms()[atom];
  return divide_by(b_, a.kind, vector_index(a.operand, t, v, as), k_.index.bounds(a.operand).low, a.divisor);
}

Value* emitter::vector_index(index_id e, int t, int v, llvm::IntegerType* as) {
  auto const& x = k_.index.at(e);
  Value *scalar = nullptr, *lanes = nullptr;
  std::int64_t stride = 0;
  for (jit::term m : x.terms) {
    if (auto const s = lane_stride_of_atom(m.atom)) {
      scalar = sum(scalar, scaled(scalar_atom(m.atom, t, v), m.coefficient));
      stride += *s * m.coefficient;
    } else {
      Value* const one = vector_atom(m.atom, t, v, as);
      lanes =
          sum(lanes, m.coefficient == 1
                         ? one
                         : b_.CreateMul(one, llvm::ConstantInt::getSigned(one->getType(), m.coefficient)));
    }
  }
  Value* const c = b_.getInt64(static_cast<std::uint64_t>(x.constant));
  Value* const base = splat(b_.CreateIntCast(scalar ? b_.CreateAdd(scalar, c) : c, as, true));
  return sum(stride == 0 ? base : b_.CreateAdd(base, iota(as, stride)), lanes);
}

// Sums may wrap on the way as long as the whole and everything that is divided fits.
bool emitter::fits_32(index_id e) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  auto const& x = k_.index.at(e);
  std::int64_t total = x.constant < 0 ? -x.constant : x.constant;
  if (total < 0 || total >= most) return false;
  for (jit::term t : x.terms) {
    jit::atom const& a = k_.index.atoms()[t.atom];
    std::int64_t reach = 0;
    if (a.kind == atom_kind::variable) {
      reach = k_.index.extent(a.variable);
    } else {
      if (a.divisor >= most || !fits_32(a.operand)) return false;
      auto const r = k_.index.bounds(a.operand);
      reach = a.kind == atom_kind::modulo ? a.divisor : std::max(r.high, -r.low) / a.divisor + 1;
    }
    std::int64_t part = 0;
    if (__builtin_mul_overflow(reach, t.coefficient < 0 ? -t.coefficient : t.coefficient, &part))
      return false;
    if (part >= most || (total += part) >= most) return false;
  }
  return true;
}

place emitter::locate(index_id e, int t, int v) {
  auto const& x = k_.index.at(e);
  place p;
  p.constant = x.constant;
  unsigned row_deps = dependence::none;  // of what the row part depends on other than by a constant
  for (jit::term m : x.terms) {
    unsigned const d = dependences_of_atom(m.atom);
    if (k_.index.atoms()[m.atom].kind != atom_kind::variable && (d & dependence::inner) == 0) row_deps |= d;
  }
  std::tuple const key{e, (row_deps & dependence::tile) ? t : 0, (row_deps & dependence::lane) ? v : 0};
  auto const known_row = row_parts_.find(key);
  bool const have_row = known_row != row_parts_.end();
  std::tuple const spread_key{e, t, v};
  auto const known_spread = row_spreads_.find(spread_key);
  bool const have_spread = known_spread != row_spreads_.end();
  Value* row_spread = nullptr;
  auto* const as = fits_32(e) ? b_.getInt32Ty() : b_.getInt64Ty();
  for (jit::term m : x.terms) {
    jit::atom const& a = k_.index.atoms()[m.atom];
    bool const in_loop = (dependences_of_atom(m.atom) & dependence::inner) != 0;
    auto const stride = lane_stride_of_atom(m.atom);
    if (!stride) {
      if (in_loop ? !in_loop_ : have_spread) continue;
      Value* const one = vector_atom(m.atom, t, v, as);
      Value* const part =
          m.coefficient == 1 ? one
                             : b_.CreateMul(one, llvm::ConstantInt::getSigned(one->getType(), m.coefficient));
      (in_loop ? p.spread : row_spread) = sum(in_loop ? p.spread : row_spread, part);
      continue;
    }
    p.stride += *stride * m.coefficient;
    if (a.kind == atom_kind::variable) {
      if (a.variable == lane_variable_) p.constant += m.coefficient * v * lanes_;
      if (a.variable == tile_variable_) p.constant += m.coefficient * t;
    }
    if (in_loop ? !in_loop_ : have_row) continue;
    Value* const first = a.kind == atom_kind::variable ? variables_[a.variable] : scalar_atom(m.atom, t, v);
    if (auto const* c = llvm::dyn_cast<llvm::ConstantInt>(first); c && c->isZero()) continue;
    (in_loop ? p.loop : p.row) = sum(in_loop ? p.loop : p.row, scaled(first, m.coefficient));
  }
  if (have_row) p.row = known_row->second;
  else if (!in_loop_) row_parts_[key] = p.row;
  if (have_spread) row_spread = known_spread->second;
  else if (!in_loop_) row_spreads_[spread_key] = row_spread;
  p.spread = sum(p.spread, row_spread);
  return p;
}

Value* emitter::lane_offsets(place const& p) {
  if (!p.spread) return iota(b_.getInt64Ty(), p.stride);
  if (p.stride == 0) return p.spread;
  return b_.CreateAdd(p.spread,
                      iota(llvm::cast<llvm::IntegerType>(p.spread->getType()->getScalarType()), p.stride));
}

}  // namespace reprise::cpu
