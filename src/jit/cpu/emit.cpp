#include "jit/cpu/emit.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "jit/cpu/emit_state.h"
#include "reprise/error.h"

namespace reprise::cpu {

using jit::kop;
using jit::value_id;

namespace {

bool is_store(kop code) { return code == kop::store || code == kop::store_local; }

// Nanoseconds of one inner index, roughly; only ever compared with what waking a thread costs.
double cost_of(jit::phase const& p) {
  double ns = 0.05 * static_cast<double>(p.reductions.size());
  for (auto const& i : p.body) {
    switch (i.code) {
      case kop::load:
      case kop::store: ns += 0.03 * size_of(i.type); break;
      case kop::call: ns += 10; break;
      case kop::div:
      case kop::rem: ns += is_floating(i.type) ? (i.code == kop::rem ? 8 : 0.3) : 1.5; break;
      case kop::const_: break;
      default: ns += 0.02 * std::max(1, size_of(i.type) / 4); break;
    }
  }
  return ns;
}

}  // namespace

emitter::emitter(jit::kernel const& k, target const& host, llvm::Module& m, llvm::Function* f)
    : k_(k), host_(host), m_(m), f_(f), b_(m.getContext()), ops_(b_, host), inner_(k.inner()) {}

bool emitter::is_vector(value_id id) const { return lanes_ > 1 && (deps_[id] & dependence::lane) != 0; }

namespace {
std::size_t slot_of(value_id id, int t, int v, int tiles, int vectors) {
  return (static_cast<std::size_t>(id) * static_cast<std::size_t>(tiles) + static_cast<std::size_t>(t)) *
             static_cast<std::size_t>(vectors) +
         static_cast<std::size_t>(v);
}
}  // namespace

Value*& emitter::known(value_id id, int t, int v) {
  unsigned const d = deps_[id];
  int const tile = (d & dependence::tile) ? t : 0, vector = (d & dependence::lane) ? v : 0;
  if ((d & dependence::inner) != 0) return loop_values_[slot_of(id, tile, vector, tile_, vectors_)];
  return row_values_[slot_of(id, tile, vector, tile_, along_grid_ ? vectors_ : 1)];
}

Value* emitter::get(value_id id, int t, int v) {
  Value* const x = known(id, t, v);
  if (!x)
    throw compile_error("kernel " + k_.name + ": value " + std::to_string(id) +
                        " is used before it is computed");
  return x;
}

Value* emitter::vector(value_id id, int t, int v) { return splat(get(id, t, v)); }

void emitter::define(value_id id, int t, int v) {
  jit::instruction const& i = phase_->body[id];
  if (squares_ && tile_ > 1 && i.code == kop::load && i.guard == jit::no_value && crosses_rows(i)) {
    if (t == 0) load_square(i);
    return;
  }
  Value* x = nullptr;
  switch (i.code) {
    case kop::const_: x = ops_.constant(i.type, i.bits); break;
    case kop::scalar: x = scalars_[i.slot]; break;
    case kop::row: x = rows_[i.slot][static_cast<std::size_t>(t * vectors_ + v)]; break;
    case kop::load:
    case kop::load_local: x = load(i, t, v); break;
    case kop::index: {
      place const p = locate(i.index, t, v);
      x = b_.getInt64(static_cast<std::uint64_t>(p.constant));
      x = b_.CreateAdd(sum(sum(p.row, p.loop), b_.getInt64(0)), x);
      if (is_vector(id))
        x = b_.CreateAdd(splat(x), b_.CreateSExtOrTrunc(lane_offsets(p), vector_type(b_.getInt64Ty())));
      break;
    }
    case kop::store:
    case kop::store_local: store(i, t, v); return;
    default: {
      auto operand = [&](value_id o) -> Value* {
        return o == jit::no_value ? nullptr : is_vector(id) ? vector(o, t, v) : get(o, t, v);
      };
      dtype const from = phase_->body[i.code == kop::select ? i.b : i.a].type;
      x = ops_.apply(i, from, operand(i.a), operand(i.b), operand(i.c));
    }
  }
  known(id, t, v) = x;
}

void emitter::begin_phase(jit::phase const& p) {
  phase_ = &p;
  atom_deps_.clear();
  row_parts_.clear();
  row_spreads_.clear();
  row_atoms_.clear();
  loop_atoms_.clear();
  row_pointers_.clear();
  variables_[inner_] = b_.getInt64(0);
  unsigned const own = along_grid_ ? dependence::lane | (tile_ > 1 ? dependence::tile : 0u) : 0u;
  deps_.clear();
  for (auto const& i : p.body) {
    unsigned d = dependence::none;
    for (value_id o : {i.a, i.b, i.c, i.guard})
      if (o != jit::no_value) d |= deps_[o];
    switch (i.code) {
      case kop::index:
      case kop::load: d |= dependences(i.index); break;
      case kop::load_local: d |= dependences(i.index) | own; break;
      case kop::row: d |= own; break;
      // A store belongs where it is written, for every point.
      case kop::store:
      case kop::store_local:
        d |= dependences(i.index) | dependence::inner | dependence::lane | dependence::tile;
        break;
      default: break;
    }
    deps_.push_back(d);
  }
  row_values_.assign(p.body.size() * static_cast<std::size_t>(tile_ * (along_grid_ ? vectors_ : 1)), nullptr);
}

void emitter::for_replicas(unsigned deps, std::function<void(int, int)> const& each) {
  int const tiles = (deps & dependence::tile) ? tile_ : 1, vectors = (deps & dependence::lane) ? vectors_ : 1;
  for (int t = 0; t < tiles; ++t)
    for (int v = 0; v < vectors; ++v) each(t, v);
}

// What does not change in the inner loop: values, and the places in memory that the loop starts from.
void emitter::row_level() {
  in_loop_ = false;
  for (value_id id = 0; id < phase_->body.size(); ++id) {
    jit::instruction const& i = phase_->body[id];
    bool const in_loop = (deps_[id] & dependence::inner) != 0;
    if (!in_loop) {
      for_replicas(deps_[id], [&](int t, int v) { define(id, t, v); });
    } else if (i.code == kop::load || is_store(i.code) || i.code == kop::load_local) {
      int const vectors = along_grid_ ? vectors_ : 1;
      for (int t = 0; t < tile_; ++t)
        for (int v = 0; v < vectors; ++v) locate_access(i, t, v);
    } else if (i.code == kop::index) {
      for_replicas(along_grid_ ? deps_[id] : deps_[id] & dependence::tile,
                   [&](int t, int v) { locate(i.index, t, v); });
    }
  }
}

// One pass through the body for all replicas, an instruction of all of them before the next one.
void emitter::loop_level() {
  in_loop_ = true;
  loop_atoms_.clear();
  loop_values_.assign(phase_->body.size() * static_cast<std::size_t>(tile_ * vectors_), nullptr);
  for (value_id id = 0; id < phase_->body.size(); ++id)
    if ((deps_[id] & dependence::inner) != 0)
      for_replicas(deps_[id], [&](int t, int v) { define(id, t, v); });
  in_loop_ = false;
}

int emitter::heaviness() const {
  int n = 0;
  for (auto const& i : phase_->body) {
    if (i.code == kop::const_ || i.code == kop::scalar || i.code == kop::row) continue;
    bool const library = i.code == kop::call || (i.code == kop::rem && is_floating(i.type));
    n += library ? 16 : 1;
  }
  return n;
}

// The grid's loop variables of a unit: the last of `loops` varies fastest.
void emitter::decode(Value* unit, std::span<std::uint32_t const> loops,
                     std::span<std::int64_t const> counts) {
  Value* rest = unit;
  std::size_t first = 0;
  while (first < counts.size() && counts[first] == 1) ++first;
  for (std::size_t n = loops.size(); n-- > 0;) {
    auto* const count = b_.getInt64(static_cast<std::uint64_t>(counts[n]));
    Value* mine = b_.getInt64(0);
    if (counts[n] != 1) {
      mine = n == first ? rest : b_.CreateURem(rest, count);
      if (n != first) rest = b_.CreateUDiv(rest, count);
    }
    variables_[loops[n]] = mine;
  }
}

emitter::work emitter::emit() {
  auto& c = m_.getContext();
  b_.SetInsertPoint(llvm::BasicBlock::Create(c, "entry", f_));
  auto* const pointer = b_.getPtrTy();
  for (std::size_t n = 0; n < k_.buffers.size(); ++n)
    buffers_.push_back(b_.CreateLoad(pointer, b_.CreateConstInBoundsGEP1_64(pointer, f_->getArg(2), n)));
  for (std::size_t n = 0; n < k_.scalars.size(); ++n) {
    Value* const bits =
        b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), f_->getArg(3), n));
    dtype const type = k_.scalars[n];
    Value* x = nullptr;
    if (type == dtype::boolean) x = b_.CreateICmpNE(b_.CreateTrunc(bits, b_.getInt8Ty()), b_.getInt8(0));
    else
      x = b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(static_cast<unsigned>(size_of(type)) * 8)),
                           ops_.type(type));
    scalars_.push_back(x);
  }
  scratch_argument_ = f_->getArg(4);
  dummy_ = b_.CreateAlloca(b_.getInt64Ty());
  b_.CreateStore(b_.getInt64(0), dummy_);
  variables_.assign(k_.grid.size() + 1, b_.getInt64(0));
  rows_.assign(k_.rows.size(), std::vector<Value*>(1, nullptr));
  along_grid_ = k_.lanes == jit::lanes_along::grid && !k_.grid.empty();
  if (k_.points() == 0) {
    units_ = 0;
  } else if (along_grid_) {
    emit_along_grid();
  } else {
    for (auto const& l : k_.locals) locals_.push_back(scratch(l.elements * size_of(l.type)));
    emit_along_inner();
  }
  b_.CreateRetVoid();
  return {units_, scratch_bytes_};
}

launch emit(jit::kernel const& k, std::string const& symbol, target const& host, llvm::Module& m) {
  auto& c = m.getContext();
  auto* const i64 = llvm::Type::getInt64Ty(c);
  auto* const pointer = llvm::PointerType::getUnqual(c);
  auto* const type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(c), {i64, i64, pointer, pointer, pointer}, false);
  auto* const f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, m);
  prepare(*f, host);
  emitter e(k, host, m, f);
  auto const w = e.emit();
  std::string complaint;
  llvm::raw_string_ostream stream(complaint);
  if (llvm::verifyFunction(*f, &stream))
    throw compile_error("kernel " + k.name + ": LLVM rejects what was generated: " + complaint);
  double ns = 5;
  for (auto const& p : k.phases) ns += cost_of(p) * static_cast<double>(p.extent);
  ns *= static_cast<double>(k.points());
  launch l{w.units, 1, w.scratch_bytes};
  if (w.units > 0)
    l.grain =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(6000.0 / (ns / static_cast<double>(w.units))));
  return l;
}

}  // namespace reprise::cpu
