// When a kernel may write over what it reads. Iterations run in any order, so an element may be overwritten
// only by the one iteration that loads it, after its load: the load and the store have the same index
// expression, and that expression is another number for every iteration. The second is shown for sums of
// stride * variable only: with the strides in ascending order, each must be larger than all that the smaller
// ones can add up to.
#include <algorithm>
#include <vector>

#include <reprise/error.h>

#include "jit/memory_plan.h"

namespace reprise::jit {
namespace {

__extension__ typedef __int128 wide;

// Is the index another one for each point of the grid and each of `extent` inner iterations?
bool injective(kernel const& k, index_id id, std::int64_t extent) {
  struct loop {
    wide stride;
    std::int64_t extent;
  };
  std::vector<loop> loops;
  for (term t : k.index.at(id).terms) {
    atom const& a = k.index.atoms()[t.atom];
    if (a.kind != atom_kind::variable || a.variable > k.inner()) return false;
    loops.push_back({t.coefficient < 0 ? -static_cast<wide>(t.coefficient) : static_cast<wide>(t.coefficient),
                     a.variable == k.inner() ? extent : k.grid[a.variable]});
  }
  std::size_t moving = 0;
  for (std::int64_t e : k.grid) moving += e > 1;
  moving += extent > 1;
  std::erase_if(loops, [](loop const& l) { return l.extent <= 1; });
  if (loops.size() != moving) return false;
  std::sort(loops.begin(), loops.end(), [](loop const& a, loop const& b) { return a.stride < b.stride; });
  wide span = 0;
  for (loop const& l : loops) {
    if (l.stride <= span) return false;
    span += l.stride * (l.extent - 1);
  }
  return true;
}

}  // namespace

bool can_run_in_place(kernel const& k, std::uint32_t read, std::uint32_t written) {
  if (read >= k.buffers.size() || written >= k.buffers.size()) return false;
  kernel_buffer const &from = k.buffers[read], &to = k.buffers[written];
  if (from.written || !to.written || from.type != to.type || from.elements != to.elements) return false;

  std::vector<index_id> loaded;
  index_id stored = 0;
  int stores = 0;
  std::int64_t extent = 1;
  for (phase const& ph : k.phases) {
    for (instruction const& i : ph.body) {
      bool const load = i.code == kop::load && i.slot == read,
                 store = i.code == kop::store && i.slot == written;
      if (i.code == kop::load && i.slot == written) return false;
      if (load && stores > 0) return false;  // it would see what was stored
      if (!load && !store) continue;
      extent = std::max(extent, ph.extent);
      if (load) loaded.push_back(i.index);
      if (!store) continue;
      if (i.guard != no_value || ++stores > 1) return false;
      stored = i.index;
    }
  }
  if (stores != 1) return false;
  return std::all_of(loaded.begin(), loaded.end(), [&](index_id id) { return id == stored; }) &&
         injective(k, stored, extent);
}

kernel run_in_place(kernel const& k, std::uint32_t read, std::uint32_t written) {
  if (!can_run_in_place(k, read, written))
    throw compile_error("kernel " + k.name + ": buffer " + std::to_string(written) +
                        " cannot take the place of buffer " + std::to_string(read));
  kernel out = k;
  out.buffers[read].written = true;
  out.buffers.erase(out.buffers.begin() + written);
  for (phase& ph : out.phases)
    for (instruction& i : ph.body) {
      if (i.code != kop::load && i.code != kop::store) continue;
      if (i.slot == written) i.slot = read;
      if (i.slot > written) --i.slot;
    }
  return out;
}

}  // namespace reprise::jit
