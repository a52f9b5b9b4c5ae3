// Lanes along the inner loop: points of the grid one after the other, each with all its phases; or, where
// nothing is reduced and nothing kept, chunks of the one loop.
//
// Where memory goes across rows, as in a transpose, a unit is a block of as many rows as a vector has lanes.
// Whole squares of it are loaded along the rows, where memory is contiguous, and turned in registers; their
// ends gather.
#include <llvm/IR/IntrinsicsX86.h>

#include "jit/cpu/emit_shape.h"
#include "jit/cpu/emit_state.h"

namespace reprise::cpu {

using jit::kop;

namespace {

// Inner indices of a unit where a row is cut.
constexpr std::int64_t plain_chunk = 2048, crossing_chunk = 256;
// Instructions of a body that is written once for each row of a square.
constexpr int most_in_squares = 8;
// Arrays of a kernel above this are not in a cache afterwards.
constexpr std::int64_t streaming_bytes = std::int64_t{32} << 20;

}  // namespace

// An access whose neighbour in memory belongs to the next row of the grid.
bool emitter::crosses_rows(jit::instruction const& i) const {
  if (k_.grid.empty() || (i.code != kop::load && i.code != kop::store)) return false;
  auto const along = k_.index.stride(i.index, inner_);
  auto const across = k_.index.stride(i.index, static_cast<std::uint32_t>(k_.grid.size() - 1));
  return along && across && std::abs(*along) >= 8 && *across == 1;
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
  auto const& first_phase = k_.phases[0];
  bool const elementwise = k_.phases.size() == 1 && first_phase.reductions.empty() && k_.locals.empty();
  std::int64_t const last = k_.grid.empty() ? 1 : k_.grid.back();
  most_lanes_ = kernel_lanes(k_, host_);
  block_rows_ = 1;
  chunk_ = 0;
  if (elementwise) {
    bool crossing = false, loads = false;
    for (auto const& i : first_phase.body) {
      crossing |= crosses_rows(i);
      loads |= crosses_rows(i) && i.code == kop::load && i.guard == jit::no_value;
    }
    if (crossing) {
      most_lanes_ = host_.lanes;
      block_rows_ = std::min<std::int64_t>(most_lanes_, last);
      phase_ = &first_phase;
      squares_ =
          loads && last >= most_lanes_ && first_phase.extent >= most_lanes_ && heaviness() <= most_in_squares;
    }
    chunk_ = crossing ? squares_ ? crossing_chunk : 2 * most_lanes_ : plain_chunk;
    if (first_phase.extent <= chunk_) chunk_ = 0;
  }
  std::int64_t const chunks = chunk_ == 0 ? 1 : ceil_div(first_phase.extent, chunk_);
  units_ = k_.points() / last * ceil_div(last, block_rows_) * chunks;
  std::vector<std::uint32_t> loops;
  std::vector<std::int64_t> counts;
  for (std::uint32_t g = 0; g < k_.grid.size(); ++g) {
    loops.push_back(g);
    counts.push_back(g + 1 == k_.grid.size() ? ceil_div(last, block_rows_) : k_.grid[g]);
  }
  loops.push_back(inner_);
  counts.push_back(chunks);
  auto all_units = [&] {
    loop(f_->getArg(0), f_->getArg(1), 1, {}, [&](Value* unit, carried const&) {
      decode(unit, loops, counts);
      if (block_rows_ == 1) unit_along_inner(variables_[inner_]);
      else block_along_rows(variables_[inner_]);
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

// A block of rows: by squares as far as those go, the rest row by row.
void emitter::block_along_rows(Value* chunk) {
  auto const row = static_cast<std::uint32_t>(k_.grid.size() - 1);
  std::int64_t const last = k_.grid.back(), extent = k_.phases[0].extent;
  Value* const first = scaled(variables_[row], block_rows_);
  Value* const past = b_.CreateAdd(first, b_.getInt64(static_cast<std::uint64_t>(block_rows_)));
  Value* const rows = b_.getInt64(static_cast<std::uint64_t>(last));
  auto by_rows = [&](bool whole) {
    Value* const end = whole ? past : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, past, rows);
    loop(
        first, end, 1, {},
        [&](Value* r, carried const&) {
          variables_[row] = r;
          unit_along_inner(chunk);
          return carried{};
        },
        true);
  };
  if (!squares_) return by_rows(last % block_rows_ == 0);
  auto by_squares = [&] {
    lanes_ = most_lanes_;
    vectors_ = 1;
    tile_ = lanes_;
    lane_variable_ = inner_;
    tile_variable_ = row;
    variables_[row] = first;
    begin_phase(k_.phases[0]);
    row_level();
    auto const [start, stop] = chunk_bounds(chunk, extent);
    Value* const whole =
        b_.CreateAnd(stop, b_.getInt64(static_cast<std::uint64_t>(-static_cast<std::int64_t>(lanes_))));
    loop(start, whole, lanes_, {}, [&](Value* i, carried const&) {
      variables_[inner_] = i;
      loop_level();
      return carried{};
    });
    tile_ = 1;
    tile_variable_ = no_variable;
    if (extent % lanes_ == 0) return;
    when(b_.CreateICmpSLT(whole, stop), [&] {
      loop(
          first, past, 1, {},
          [&](Value* r, carried const&) {
            variables_[row] = r;
            begin_phase(k_.phases[0]);
            row_level();
            tail_mask_ = first_lanes(static_cast<int>(extent % lanes_));
            variables_[inner_] = whole;
            loop_level();
            tail_mask_ = nullptr;
            return carried{};
          },
          true);
    });
  };
  if (last % block_rows_ == 0) by_squares();
  else when_else(b_.CreateICmpSLE(past, rows), by_squares, [&] { by_rows(false); });
}

// One vector for each row of a square: vectors along the rows, turned by riffling them as often as their
// length doubles.
void emitter::load_square(jit::instruction const& i) {
  auto const id = static_cast<jit::value_id>(&i - phase_->body.data());
  access const a = locate_access(i, 0, 0);
  std::int64_t const along = *k_.index.stride(i.index, inner_);
  llvm::Align const align(m_.getDataLayout().getTypeStoreSize(a.type));
  std::vector<Value*> v;
  for (int l = 0; l < lanes_; ++l) {
    Value* const p = b_.CreateConstInBoundsGEP1_64(a.type, a.first, static_cast<std::uint64_t>(l * along));
    v.push_back(b_.CreateAlignedLoad(vector_type(a.type), p, align));
  }
  std::vector<int> low, high;
  for (int l = 0; l < lanes_; ++l) {
    low.push_back(l % 2 * lanes_ + l / 2);
    high.push_back(l % 2 * lanes_ + l / 2 + lanes_ / 2);
  }
  for (int round = 1; round < lanes_; round *= 2) {
    std::vector<Value*> next;
    for (int l = 0; l < lanes_ / 2; ++l) {
      auto const x = static_cast<std::size_t>(l), y = static_cast<std::size_t>(l + lanes_ / 2);
      next.push_back(b_.CreateShuffleVector(v[x], v[y], low));
      next.push_back(b_.CreateShuffleVector(v[x], v[y], high));
    }
    v = std::move(next);
  }
  for (int t = 0; t < tile_; ++t) known(id, t, 0) = ops_.from_memory(i.type, v[static_cast<std::size_t>(t)]);
}

std::pair<Value*, Value*> emitter::chunk_bounds(Value* chunk, std::int64_t extent) {
  Value* const all = b_.getInt64(static_cast<std::uint64_t>(extent));
  if (chunk_ == 0) return {b_.getInt64(0), all};
  Value* const start = scaled(chunk, chunk_);
  Value* const end = b_.CreateAdd(start, b_.getInt64(static_cast<std::uint64_t>(chunk_)));
  return {start, extent % chunk_ == 0 ? end : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, all, end)};
}

// All phases at one point of the grid, or one chunk of its only loop.
void emitter::unit_along_inner(Value* chunk) {
  auto const locals_end = scratch_at_;
  for (auto const& p : k_.phases) {
    scratch_at_ = locals_end;
    vectors_ = tile_ = 1;
    lanes_ = lanes_for(most_lanes_, p.extent);
    lane_variable_ = p.extent > 1 ? inner_ : no_variable;
    auto const [start, stop] = chunk_bounds(chunk, p.extent);
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
  int unroll = heaviness() <= 12 ? 4 : heaviness() <= 128 ? 2 : 1;
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

}  // namespace reprise::cpu
