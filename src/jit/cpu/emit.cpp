#include "jit/cpu/emit.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <bit>

#include "jit/cpu/emit_state.h"
#include "reprise/error.h"

namespace reprise::cpu {

using jit::kop;
using jit::value_id;

namespace {

// Inner indices of a unit where a row is cut, and the rows of a unit where memory goes across them: a line of
// the cache that a row brings is used up by the next rows before it is gone.
constexpr std::int64_t plain_chunk = 2048, crossing_chunk = 32, row_block = 16;
// Arrays of a kernel above this are not in a cache afterwards.
constexpr std::int64_t streaming_bytes = std::int64_t{32} << 20;

bool is_store(kop code) { return code == kop::store || code == kop::store_local; }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Bytes of the widest value that is computed: 16 lanes, or more where everything is narrower than four bytes.
int widest_value(jit::kernel const& k) {
  int widest = 1;
  for (auto const& p : k.phases) {
    for (auto const& i : p.body) widest = std::max(widest, size_of(i.type));
    for (auto const& r : p.reductions) widest = std::max(widest, size_of(r.type));
  }
  return widest;
}

int kernel_lanes(jit::kernel const& k, target const& host) {
  return std::max(host.lanes, host.register_bytes() / widest_value(k));
}

int lanes_for(int most, std::int64_t extent) {
  return extent >= most
             ? most
             : static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1))));
}

bool contracts(jit::kernel const& k) {
  for (auto const& p : k.phases)
    for (auto const& r : p.reductions)
      if (r.order == jit::order::contract) return true;
  return false;
}

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

// Whether an element's neighbour in memory belongs to the next row of the grid, as in a transpose.
bool emitter::crosses_rows() {
  if (k_.grid.empty()) return false;
  auto const last = static_cast<std::uint32_t>(k_.grid.size() - 1);
  for (auto const& i : k_.phases[0].body) {
    if (i.code != kop::load && i.code != kop::store) continue;
    auto const along = k_.index.stride(i.index, inner_), across = k_.index.stride(i.index, last);
    if (along && across && std::abs(*along) >= 8 && *across != 0 && std::abs(*across) < 8) return true;
  }
  return false;
}

// Results that will not fit in the caches beside what is read, and that nothing here reads.
std::vector<std::uint32_t> emitter::streamed_buffers() {
  std::int64_t bytes = 0;
  for (auto const& b : k_.buffers) bytes += b.elements * size_of(b.type);
  if (bytes < streaming_bytes) return {};
  std::vector<std::uint32_t> streamed;
  for (std::uint32_t n = 0; n < k_.buffers.size(); ++n) {
    bool stored = false, loaded = false;
    for (auto const& i : k_.phases[0].body) {
      stored |= i.code == kop::store && i.slot == n && i.guard == jit::no_value;
      loaded |= i.code == kop::load && i.slot == n;
    }
    if (stored && !loaded) streamed.push_back(n);
  }
  return streamed;
}

void emitter::emit_along_inner() {
  bool const elementwise = k_.phases.size() == 1 && k_.phases[0].reductions.empty() && k_.locals.empty();
  std::int64_t const last = k_.grid.empty() ? 1 : k_.grid.back();
  if (elementwise) {
    bool const crossing = crosses_rows();
    block_rows_ = crossing ? std::min(row_block, last) : 1;
    chunk_ = crossing ? std::max<std::int64_t>(crossing_chunk, kernel_lanes(k_, host_)) : plain_chunk;
    if (k_.phases[0].extent <= chunk_) chunk_ = 0;
  }
  std::int64_t const chunks = chunk_ == 0 ? 1 : ceil_div(k_.phases[0].extent, chunk_);
  units_ = k_.points() / last * ceil_div(last, block_rows_) * chunks;
  auto all_units = [&] {
    loop(f_->getArg(0), f_->getArg(1), 1, {}, [&](Value* unit, carried const&) {
      std::vector<std::uint32_t> loops;
      std::vector<std::int64_t> counts;
      for (std::uint32_t g = 0; g < k_.grid.size(); ++g) {
        loops.push_back(g);
        counts.push_back(g + 1 == k_.grid.size() ? ceil_div(last, block_rows_) : k_.grid[g]);
      }
      loops.push_back(inner_);
      counts.push_back(chunks);
      decode(unit, loops, counts);
      Value* const chunk = variables_[inner_];
      if (block_rows_ == 1) {
        unit_along_inner(chunk);
        return carried{};
      }
      auto const row = static_cast<std::uint32_t>(k_.grid.size() - 1);
      Value* const first = scaled(variables_[row], block_rows_);
      Value* end = b_.CreateAdd(first, b_.getInt64(static_cast<std::uint64_t>(block_rows_)));
      if (last % block_rows_ != 0)
        end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end,
                                       b_.getInt64(static_cast<std::uint64_t>(last)));
      loop(
          first, end, 1, {},
          [&](Value* r, carried const&) {
            variables_[row] = r;
            unit_along_inner(chunk);
            return carried{};
          },
          true);
      return carried{};
    });
  };
  auto const streamed = elementwise ? streamed_buffers() : std::vector<std::uint32_t>{};
  if (streamed.empty()) return all_units();
  Value* together = b_.getInt64(0);
  for (auto n : streamed) together = b_.CreateOr(together, b_.CreatePtrToInt(buffers_[n], b_.getInt64Ty()));
  Value* const aligned = b_.CreateICmpEQ(b_.CreateAnd(together, b_.getInt64(63)), b_.getInt64(0));
  when_else(
      aligned,
      [&] {
        streams_ = true;
        all_units();
        streams_ = false;
        b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
      },
      all_units);
}

// All phases at one point of the grid, or one chunk of its only loop.
void emitter::unit_along_inner(Value* chunk) {
  int const most_lanes = kernel_lanes(k_, host_);
  auto const locals_end = scratch_at_;
  for (auto const& p : k_.phases) {
    scratch_at_ = locals_end;
    vectors_ = tile_ = 1;
    lanes_ = lanes_for(most_lanes, p.extent);
    lane_variable_ = p.extent > 1 ? inner_ : no_variable;
    Value *start = b_.getInt64(0), *stop = b_.getInt64(static_cast<std::uint64_t>(p.extent));
    if (chunk_ != 0) {
      start = scaled(chunk, chunk_);
      Value* const end = b_.CreateAdd(start, b_.getInt64(static_cast<std::uint64_t>(chunk_)));
      stop = p.extent % chunk_ == 0 ? end : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, stop, end);
    }
    begin_phase(p);
    if (p.extent == 0) {
      for (auto const& r : p.reductions) leave(r, 0, 0, empty(r));
      continue;
    }
    row_level();
    if (!p.reductions.empty()) reductions_along_inner();
    else if (p.extent == 1) loop_level();
    else elementwise_loop(start, stop, chunk_ == 0);
  }
  scratch_at_ = locals_end;
}

// Vectors by fours, by ones, and what is left under a mask.
void emitter::elementwise_loop(Value* start, Value* stop, bool whole) {
  std::int64_t const n = phase_->extent;
  int unroll = heaviness() <= 12 ? 4 : heaviness() <= 32 ? 2 : 1;
  while (unroll > 1 && (n < 2 * unroll * lanes_ || (chunk_ != 0 && chunk_ < unroll * lanes_))) unroll /= 2;
  std::int64_t const wide = static_cast<std::int64_t>(unroll) * lanes_;
  auto rounded = [&](std::int64_t to) -> Value* {
    if (whole) return b_.getInt64(static_cast<std::uint64_t>(n / to * to));
    return b_.CreateAdd(
        start, b_.CreateAnd(b_.CreateSub(stop, start), b_.getInt64(static_cast<std::uint64_t>(-to))));
  };
  auto run = [&](Value* i) {
    variables_[inner_] = i;
    loop_level();
    return carried{};
  };
  Value* const wide_end = rounded(wide);
  vectors_ = unroll;
  loop(start, wide_end, wide, {}, [&](Value* i, carried const&) { return run(i); });
  vectors_ = 1;
  Value* end = wide_end;
  if (n % wide >= lanes_) {
    end = rounded(lanes_);
    loop(wide_end, end, lanes_, {}, [&](Value* i, carried const&) { return run(i); });
  }
  if (n % lanes_ != 0) {
    when(whole ? static_cast<Value*>(b_.getTrue()) : b_.CreateICmpSLT(end, stop), [&] {
      tail_mask_ = first_lanes(static_cast<int>(n % lanes_));
      run(end);
      tail_mask_ = nullptr;
    });
  }
}

void emitter::emit_along_grid() {
  std::int64_t const last = k_.grid.back();
  auto const lane_loop = static_cast<std::uint32_t>(k_.grid.size() - 1);
  lane_variable_ = lane_loop;
  lanes_ = lanes_for(kernel_lanes(k_, host_), last);
  std::int64_t const vectors_in_all = ceil_div(last, lanes_);
  bool const contract = contracts(k_);
  bool const tiled = k_.tile > 1 && k_.tile_loop != lane_loop;
  tile_variable_ = tiled ? k_.tile_loop : no_variable;
  int tile = tiled ? static_cast<int>(std::min(k_.tile, k_.grid[k_.tile_loop])) : 1;
  int body = 0;
  for (auto const& p : k_.phases) {
    phase_ = &p;
    body = std::max(body, heaviness());
  }
  std::int64_t vectors = 1;
  if (contract) {
    int const registers = host_.lanes == 16 ? 32 : 16;
    vectors = std::clamp((registers - 6) / tile, 1, 4);
    if (!tiled && k_.tile > 1) vectors = std::clamp<std::int64_t>(k_.tile / lanes_, 1, 8);
    vectors = std::min(vectors, vectors_in_all);
    // All taps of a convolution as straight code, rather than a larger tile.
    for (auto const& p : k_.phases) {
      begin_phase(p);
      if (p.reductions.empty() || !divides_inner() || p.extent > most_unrolled) continue;
      while (tile > 1 && p.extent * tile * vectors > most_unrolled) tile /= 2;
    }
  } else {
    vectors = body <= 12 ? 4 : body <= 32 ? 2 : 1;
    // Enough units to share.
    std::int64_t const points = k_.points() / std::max<std::int64_t>(last, 1);
    while (vectors > 1 && (vectors > vectors_in_all || points * ceil_div(vectors_in_all, vectors) < 16))
      vectors /= 2;
  }
  std::int64_t const width = vectors * lanes_;
  std::vector<std::uint32_t> loops;
  std::vector<std::int64_t> counts;
  std::int64_t const blocks = ceil_div(last, width);
  for (std::uint32_t g = 0; g < k_.grid.size(); ++g) {
    if (g == lane_loop || (tiled && g == k_.tile_loop)) continue;
    loops.push_back(g);
    counts.push_back(k_.grid[g]);
  }
  // Of a contraction the points of a tile loop are neighbours, so that what the lanes read stays in the
  // cache.
  loops.push_back(lane_loop);
  counts.push_back(blocks);
  if (tiled) {
    loops.push_back(k_.tile_loop);
    counts.push_back(ceil_div(k_.grid[k_.tile_loop], tile));
  }
  units_ = 1;
  for (auto c : counts) units_ *= c;
  auto const locals_at = scratch_at_;
  loop(f_->getArg(0), f_->getArg(1), 1, {}, [&](Value* unit, carried const&) {
    decode(unit, loops, counts);
    Value* const lane_base =
        b_.CreateMul(variables_[lane_loop], b_.getInt64(static_cast<std::uint64_t>(width)));
    variables_[lane_loop] = lane_base;
    Value* tile_base = nullptr;
    if (tiled)
      tile_base = variables_[k_.tile_loop] =
          b_.CreateMul(variables_[k_.tile_loop], b_.getInt64(static_cast<std::uint64_t>(tile)));
    auto lanes_of_block = [&](int t) {
      std::int64_t const rest = last % width;
      auto block = [&](std::int64_t v, std::int64_t used) {
        scratch_at_ = locals_at;
        grid_block(t, static_cast<int>(v), static_cast<int>(used));
      };
      if (rest == 0) return block(vectors, 0);
      if (last < width) return block(ceil_div(rest, lanes_), rest % lanes_);
      Value* const end = b_.getInt64(static_cast<std::uint64_t>(last - rest));
      when_else(
          b_.CreateICmpSLT(lane_base, end), [&] { block(vectors, 0); },
          [&] { block(ceil_div(rest, lanes_), rest % lanes_); });
    };
    if (!tiled || k_.grid[k_.tile_loop] % tile == 0) {
      lanes_of_block(tile);
    } else {
      std::int64_t const rest = k_.grid[k_.tile_loop] % tile;
      Value* const end = b_.getInt64(static_cast<std::uint64_t>(k_.grid[k_.tile_loop] - rest));
      when_else(
          b_.CreateICmpSLT(tile_base, end), [&] { lanes_of_block(tile); },
          [&] { lanes_of_block(static_cast<int>(rest)); });
    }
    return carried{};
  });
}

// One version of a unit: tile * vectors replicas; `used` lanes of the last vector exist, 0: all.
void emitter::grid_block(int tile, int vectors, int used) {
  tile_ = tile;
  vectors_ = vectors;
  tail_mask_ = used == 0 || lanes_ == 1 ? nullptr : first_lanes(used);
  rows_.assign(k_.rows.size(), std::vector<Value*>(static_cast<std::size_t>(tile * vectors), nullptr));
  locals_.clear();
  for (auto const& l : k_.locals)
    locals_.push_back(scratch(l.elements * tile * vectors * lanes_ * size_of(l.type)));
  for (auto const& p : k_.phases) {
    auto const at = scratch_at_;
    begin_phase(p);
    if (p.extent == 0) {
      for (auto const& r : p.reductions)
        for_replicas(dependence::tile | dependence::lane,
                     [&](int t, int v) { leave(r, t, v, splat(empty(r))); });
      continue;
    }
    row_level();
    if (!p.reductions.empty()) {
      reductions_along_grid();
    } else {
      loop(b_.getInt64(0), b_.getInt64(static_cast<std::uint64_t>(p.extent)), 1, {},
           [&](Value* i, carried const&) {
             variables_[inner_] = i;
             loop_level();
             return carried{};
           });
    }
    scratch_at_ = at;
  }
  tail_mask_ = nullptr;
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
