// Lanes along the last loop of the grid: each lane is a point of its own and runs the whole inner loop. A
// unit is a few vectors of neighbours, times a tile of points of another loop.
#include <algorithm>

#include "jit/cpu/emit_shape.h"
#include "jit/cpu/emit_state.h"

namespace reprise::cpu {

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

}  // namespace reprise::cpu
