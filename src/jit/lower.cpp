// How the parts become loops: axes that are kept are the grid, axes that are reduced are the inner loop
// (flattened), and a kernel without reductions has its last axis, or as many as collapse into one, as the
// inner loop.
#include "jit/lower.h"

#include <algorithm>
#include <utility>

#include "jit/collapse.h"
#include "jit/lower_writer.h"

namespace reprise::jit {
namespace {

constexpr std::int64_t lanes_block = 4096, run_length = 128;

struct loop_nest {
  std::vector<axis_loop> kept, reduced;
};

std::int64_t points(std::vector<axis_loop> const& loops) {
  std::int64_t n = 1;
  for (axis_loop const& l : loops) n *= l.extent;
  return n;
}

// All expressions that the group's instructions will hold.
std::vector<index_id> used_expressions(kernel_group const& g) {
  point_space& space = *g.space;
  std::vector<index_id> used;
  std::vector<char> seen(space.points().size());
  std::vector<point_id> todo;
  for (kernel_reduction const& r : g.reductions) {
    todo.push_back(r.value);
    if (r.factor != no_point) todo.push_back(r.factor);
  }
  for (kernel_output const& o : g.outputs) {
    todo.push_back(o.value);
    used.push_back(store_index(g, o.row));
  }
  while (!todo.empty()) {
    point_id const at = todo.back();
    todo.pop_back();
    if (std::exchange(seen[at], 1)) continue;
    point const& p = space.points()[at];
    if (p.kind == point_kind::load || p.kind == point_kind::index || p.kind == point_kind::philox)
      used.push_back(p.index);
    for (guard_id t = p.guard; t != no_guard; t = space.guards()[t].parent)
      used.push_back(space.guards()[t].expression);
    for (point_id o : p.operand)
      if (o != no_point) todo.push_back(o);
  }
  return used;
}

loop_nest nest_of(kernel_group const& g) {
  loop_nest nest;
  reprise::shape const& axes = g.space->axes();
  for (int i = 0; i < axes.rank(); ++i)
    if (axes[i] != 1)
      (g.is_reduced(i) ? nest.reduced : nest.kept).push_back({axes[i], {static_cast<std::uint32_t>(i)}});
  std::vector<index_id> const used = used_expressions(g);
  nest.kept = collapse(g.space->arena(), used, std::move(nest.kept));
  nest.reduced = collapse(g.space->arena(), used, std::move(nest.reduced));
  return nest;
}

bool order_free(kernel_group const& g) {
  return std::all_of(g.reductions.begin(), g.reductions.end(), [&](kernel_reduction const& r) {
    ir::node const& n = g.space->program().nodes[r.node];
    return !(n.code == ir::op::sum || n.code == ir::op::prod) || !is_floating(n.type);
  });
}

// Nothing to compute: the arrays are listed, and no element of them is touched.
std::vector<lowered_kernel> lower_empty(kernel_group const& g, buffer_table& buffers, std::string const& name,
                                        std::vector<buffer_id> const& first) {
  kernel_writer w(g, buffers, name, first);
  w.loops({}, 1);
  w.begin_phase(0);
  w.end_phase(0);
  for (kernel_output const& o : g.outputs)
    for (buffer_id b : buffers.written(o.node)) w.slot(b, true);
  std::vector<lowered_kernel> result;
  result.push_back(w.take());
  return result;
}

std::vector<lowered_kernel> lower_elementwise(kernel_group const& g, buffer_table& buffers,
                                              std::string const& name, std::vector<buffer_id> const& first) {
  constexpr std::int64_t short_loop = 16;
  std::vector<axis_loop> const loops = nest_of(g).kept;
  std::size_t outer = loops.empty() ? 0 : loops.size() - 1;
  std::int64_t inner = loops.empty() ? 1 : loops.back().extent;
  while (outer > 0 && inner < short_loop) inner *= loops[--outer].extent;
  kernel_writer w(g, buffers, name, first);
  std::vector<std::int64_t> grid;
  for (std::size_t i = 0; i < outer; ++i) grid.push_back(loops[i].extent);
  w.loops(grid, inner);
  for (std::size_t i = 0; i < outer; ++i) w.place({&loops[i], 1}, w.grid_variable(i));
  w.place(std::span(loops).subspan(outer), w.inner_variable());
  w.begin_phase(0);
  for (kernel_output const& o : g.outputs) w.store(o);
  w.end_phase(inner);
  std::vector<lowered_kernel> result;
  result.push_back(w.take());
  return result;
}

// Register tiling along a loop of the grid that is not the lanes'.
void set_tile(kernel& k, kernel_group const& g, std::vector<axis_loop> const& kept) {
  if (g.tile_axis < 0 || k.lanes != lanes_along::grid) return;
  for (std::size_t i = 0; i + 1 < kept.size(); ++i) {
    if (kept[i].variables.back() != static_cast<std::uint32_t>(g.tile_axis)) continue;
    for (std::int64_t tile : {8, 4, 2})
      if (kept[i].extent % tile == 0) {
        k.tile_loop = static_cast<std::uint32_t>(i);
        k.tile = tile;
        return;
      }
  }
}

std::vector<lowered_kernel> lower_rows(kernel_group const& g, buffer_table& buffers, std::string const& name,
                                       std::vector<buffer_id> const& first) {
  constexpr std::int64_t short_row = 64, long_grid = 8;
  loop_nest const nest = nest_of(g);
  std::int64_t const inner = points(nest.reduced);
  std::vector<std::int64_t> grid;
  for (axis_loop const& l : nest.kept) grid.push_back(l.extent);

  jit::order order = g.contract ? jit::order::contract : g.order();
  bool const wide_grid = !grid.empty() && grid.back() >= long_grid;
  if (order == jit::order::lanes && inner <= short_row && wide_grid && order_free(g))
    order = jit::order::runs;
  bool const along_grid = order != jit::order::lanes && !grid.empty();

  kernel_writer w(g, buffers, name, first);
  w.loops(grid, std::max<std::int64_t>(inner, 1));
  for (std::size_t i = 0; i < nest.kept.size(); ++i) w.place({&nest.kept[i], 1}, w.grid_variable(i));
  if (inner != 0) w.place(nest.reduced, w.inner_variable());
  w.code().lanes = along_grid ? lanes_along::grid : lanes_along::inner;
  set_tile(w.code(), g, nest.kept);

  bool const empty = g.row_elements() == 0;
  int last = 0;
  std::vector<point> const& all = g.space->points();
  for (kernel_reduction const& r : g.reductions)
    last = std::max({last, all[r.value].level, r.factor == no_point ? 0 : all[r.factor].level});
  bool rows = false;
  for (kernel_output const& o : g.outputs) {
    if (o.row) rows = true;
    else last = std::max(last, all[o.value].level);
  }
  if (!along_grid && !empty) w.keep_in_locals(last + 1, inner);
  for (int p = 0; p <= last; ++p) {
    w.begin_phase(p);
    for (kernel_reduction const& r : g.reductions) {
      int const level = std::max(all[r.value].level, r.factor == no_point ? 0 : all[r.factor].level);
      if (level == p) w.reduce(r, order, empty);
    }
    for (kernel_output const& o : g.outputs) {
      if (o.row || all[o.value].level != p) continue;
      if (!empty) w.store(o);
      else
        for (buffer_id b : buffers.written(o.node)) w.slot(b, true);
    }
    w.end_phase(empty ? 0 : inner);
  }
  if (rows) {
    w.begin_phase(last + 1);
    for (kernel_output const& o : g.outputs)
      if (o.row) w.store(o);
    w.end_phase(1);
  }
  std::vector<lowered_kernel> result;
  result.push_back(w.take());
  return result;
}

// Few long rows: a kernel that reduces blocks (or runs), and one for the tree over what it leaves. The same
// bits as one kernel, because a block's tree is the whole order within it.
std::vector<lowered_kernel> lower_split(kernel_group const& g, buffer_table& buffers,
                                        std::string const& name) {
  loop_nest const nest = nest_of(g);
  jit::order const order = g.order();
  bool const lanes = order == jit::order::lanes;
  std::int64_t const n = g.row_elements(), block = lanes ? lanes_block : run_length,
                     blocks = (n + block - 1) / block;
  std::int64_t const rows = g.rows();

  std::vector<std::int64_t> kept;
  for (axis_loop const& l : nest.kept) kept.push_back(l.extent);
  // where the partial results of block b lie: blocks vary fastest for lanes, rows for runs
  auto const partial_index = [&](kernel_writer& w, index_id row, index_id b) {
    index_arena& a = w.code().index;
    return lanes ? a.add(a.mul(row, blocks), b) : a.add(a.mul(b, rows), row);
  };
  std::vector<buffer_id> partial;

  kernel_writer a(g, buffers, name + "_blocks", {});
  std::vector<std::int64_t> grid = kept;
  grid.insert(lanes ? grid.end() : grid.begin(), blocks);
  std::size_t const first = lanes ? 0 : 1, block_loop = lanes ? kept.size() : 0;
  a.loops(grid, block);
  for (std::size_t i = 0; i < nest.kept.size(); ++i) a.place({&nest.kept[i], 1}, a.grid_variable(first + i));
  index_arena& arena = a.code().index;
  index_id const element = arena.add(arena.mul(a.grid_variable(block_loop), block), a.inner_variable());
  a.place(nest.reduced, element);
  if (n % block != 0) a.limit(element, n - 1);
  a.code().lanes = lanes || kept.empty() ? lanes_along::inner : lanes_along::grid;
  a.begin_phase(0);
  for (kernel_reduction const& r : g.reductions) a.reduce(r, order, false);
  for (kernel_output const& o : g.outputs)
    if (!o.row) a.store(o);
  a.end_phase(block);
  a.begin_phase(1);
  index_id const row_a = a.map()(store_index(g, true));
  for (kernel_reduction const& r : g.reductions) {
    partial.push_back(buffers.temporary(accumulator(g.space->program(), r.node), rows * blocks));
    a.store_row(r.node, partial.back(), partial_index(a, row_a, a.grid_variable(block_loop)));
  }
  a.end_phase(1);

  kernel_writer b(g, buffers, name + "_tree", {});
  b.loops(kept, blocks);
  for (std::size_t i = 0; i < nest.kept.size(); ++i) b.place({&nest.kept[i], 1}, b.grid_variable(i));
  b.place(nest.reduced, b.code().index.constant(0));  // what is left uses rows only
  b.code().lanes = a.code().lanes;
  b.begin_phase(0);
  index_id const row_b = b.map()(store_index(g, true));
  for (std::size_t i = 0; i < partial.size(); ++i)
    b.reduce_again(g.reductions[i].node, partial[i], partial_index(b, row_b, b.inner_variable()));
  b.end_phase(blocks);
  b.begin_phase(1);
  for (kernel_output const& o : g.outputs)
    if (o.row) b.store(o);
  b.end_phase(1);

  std::vector<lowered_kernel> result;
  result.push_back(a.take());
  result.push_back(b.take());
  return result;
}

}  // namespace

std::int64_t kernel_group::rows() const {
  std::int64_t n = 1;
  for (int i = 0; i < space->axes().rank(); ++i)
    if (!is_reduced(i)) n *= space->axes()[i];
  return n;
}

std::int64_t kernel_group::row_elements() const {
  std::int64_t n = 1;
  for (int i = 0; i < space->axes().rank(); ++i)
    if (is_reduced(i)) n *= space->axes()[i];
  return n;
}

jit::order kernel_group::order() const {
  return is_reduced(space->axes().rank() - 1) ? jit::order::lanes : jit::order::runs;
}

bool kernel_group::split() const {
  constexpr std::int64_t few_rows = 64, few_columns = 512;
  if (reduced == 0 || contract || row_elements() <= longest_row) return false;
  if (rows() == 0 || rows() >= (order() == jit::order::lanes ? few_rows : few_columns)) return false;
  return std::none_of(reductions.begin(), reductions.end(), [&](kernel_reduction const& r) {
    return ir::info(space->program().nodes[r.node].code).kind == ir::category::arg_reduction;
  });
}

coordinates row_coordinates(kernel_group const& g) {
  coordinates c;
  for (int i = 0; i < g.space->axes().rank(); ++i)
    if (!g.is_reduced(i))
      c.at[static_cast<std::size_t>(c.rank++)] = g.space->identity().at[static_cast<std::size_t>(i)];
  return c;
}

reprise::shape row_shape(kernel_group const& g) {
  reprise::shape s;
  for (int i = 0; i < g.space->axes().rank(); ++i)
    if (!g.is_reduced(i)) s.push_back(g.space->axes()[i]);
  return s;
}

index_id store_index(kernel_group const& g, bool row) {
  return row ? g.space->flat(row_coordinates(g), row_shape(g))
             : g.space->flat(g.space->identity(), g.space->axes());
}

std::vector<lowered_kernel> lower(kernel_group const& g, buffer_table& buffers, std::string const& name,
                                  std::vector<buffer_id> const& first) {
  if (g.rows() == 0 || (g.reduced == 0 && g.space->axes().size() == 0))
    return lower_empty(g, buffers, name, first);
  if (g.reduced == 0 && !g.contract) return lower_elementwise(g, buffers, name, first);
  if (g.split()) return lower_split(g, buffers, name);
  return lower_rows(g, buffers, name, first);
}

}  // namespace reprise::jit
