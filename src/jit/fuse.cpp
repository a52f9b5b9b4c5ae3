#include "jit/fuse.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace reprise::jit {
namespace {

using ir::category;
using ir::node_id;
using ir::op;

constexpr std::uint32_t nowhere = 0xffffffffu;
constexpr int cheap_twice = 6;        // a node this long may be computed at several maps of one kernel
constexpr int cheap_again = 10;       // ... in several kernels
constexpr int costly_broadcast = 20;  // ... and from this on not for each row again
constexpr int most_cone = 1 << 24;
constexpr int deepest_runs = 3;  // phases after the first, where nothing can be kept in local arrays
constexpr std::int64_t few_rows = 64, small_space = 65536;
constexpr int rounds = 12;
constexpr std::size_t most_outputs = 32;  // of a kernel
constexpr std::size_t neighbours = 8;     // groups of a space that are tried for shared loads

bool is_source(op code) { return code == op::parameter || code == op::constant; }

bool is_reduction(ir::program const& p, node_id n) {
  category const k = ir::info(p.nodes[n].code).kind;
  return k == category::reduction || k == category::arg_reduction;
}

std::uint32_t axes_of(ir::program const& p, node_id n) {
  std::uint32_t mask = 0;
  if (ir::info(p.nodes[n].code).kind == category::arg_reduction) return 1u << p.int_of(n, "axis");
  for (std::int64_t a : p.ints_of(n, "axes")) mask |= 1u << a;
  return mask;
}

class fuser;

// One attempt to compute a node in a group: decides by what is known, and remembers what would follow.
class attempt : public point_policy {
 public:
  attempt(fuser& f, std::uint32_t group, node_id placing, bool fresh);
  access at(node_id n, coordinates const& c) override;
  bool made(node_id n, coordinates const& c, point_id p) override;
  void commit();
  ~attempt() override;

  std::vector<node_id> loads;

 private:
  bool aligned(node_id n, coordinates const& c) const;
  bool needs_home(node_id n, coordinates const& c);

  fuser& f_;
  std::uint32_t group_;
  node_id placing_;
  bool fresh_;
  std::int64_t base_;
  std::unordered_map<node_id, std::vector<coordinates>> went_through_;
  std::vector<std::pair<node_id, char const*>> marks_;
  bool committed_ = false;
};

class fuser {
 public:
  fuser(ir::program const& p, compile_options const& o) : p_(p), options_(o), uses_(count_uses(p)) {
    calls_ = find_library_calls(p, uses_, o.fuse);
    forced_.resize(p.nodes.size());
  }

  fusion run() {
    for (int round = 0;; ++round) {
      may_mark_ = round + 1 < rounds && options_.fuse;
      if (pass()) break;
    }
    return finished();
  }

 private:
  friend class attempt;

  struct state {
    fused_group out;
    std::unordered_map<node_id, std::vector<coordinates>> maps;  // of what was gone through
  };

  // One round; false when something turned out to need a home.
  bool pass() {
    std::size_t const n = p_.nodes.size();
    groups_.clear();
    by_size_.clear();
    root_.assign(n, 0);
    stored_.assign(n, 0);
    home_.assign(n, nowhere);
    went_through_in_.assign(n, nowhere);
    marked_.assign(n, 0);
    seen_.assign(n, 0);
    stamp_ = 0;
    dirty_ = false;
    find_roots();
    find_cones();
    for (node_id i = 0; i < n; ++i) {
      if (call_of_[i] >= 0) place_call(i);
      else if (root_[i] && is_reduction(p_, i)) place_reduction(i);
      else if (root_[i]) place_elementwise(i);
    }
    if (!dirty_) return true;
    for (std::size_t i = 0; i < n; ++i) forced_[i] = forced_[i] || marked_[i];
    return false;
  }

  void find_roots() {
    call_of_.assign(p_.nodes.size(), -1);
    auto const make_root = [&](node_id n) {
      n = without_reshapes(p_, n);
      if (p_.nodes[n].code == op::parameter && !lifted(n)) return;
      root_[n] = stored_[n] = 1;
    };
    for (node_id n = 0; n < p_.nodes.size(); ++n) {
      if (uses_[n] == 0) continue;
      bool const unfused = !options_.fuse && !is_source(p_.nodes[n].code) && p_.nodes[n].code != op::reshape;
      if (is_reduction(p_, n) || forced_[n] || unfused) root_[n] = 1;
    }
    for (ir::result const& r : p_.results) make_root(r.value);
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      library_call const& c = calls_[i];
      for (node_id n : c.absorbed) root_[n] = 0;
      call_of_[c.result] = static_cast<std::int64_t>(i);
      root_[c.result] = 1;
      for (node_id o : c.operands) make_root(o);
    }
  }

  bool lifted(node_id n) const {
    return p_.parameters[static_cast<std::size_t>(p_.int_of(n, "index"))].role == ir::parameter_role::lifted;
  }

  // What it costs to go through a node, down to what is loaded.
  void find_cones() {
    cone_.assign(p_.nodes.size(), 0);
    for (node_id n = 0; n < p_.nodes.size(); ++n) {
      if (p_.nodes[n].code == op::constant) continue;
      int c = own_cost(p_, n);
      if (p_.nodes[n].code == op::parameter) c = 1;
      for (node_id o : p_.operands_of(n)) c = std::min(most_cone, c + (root_[o] ? 1 : cone_[o]));
      cone_[n] = c;
    }
  }

  // The homes of what n is made of, the latest first.
  std::vector<std::uint32_t> frontier(node_id n) {
    std::vector<std::uint32_t> found;
    std::vector<node_id> todo;
    ++stamp_;
    auto const look = [&](node_id o) {
      if (std::exchange(seen_[o], stamp_) == stamp_) return;
      if (root_[o] && home_[o] != nowhere) found.push_back(home_[o]);
      else if (!root_[o]) todo.push_back(o);
    };
    for (node_id o : p_.operands_of(n)) look(o);
    while (!todo.empty()) {
      node_id const at = todo.back();
      todo.pop_back();
      for (node_id o : p_.operands_of(at)) look(o);
    }
    std::sort(found.rbegin(), found.rend());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  // Groups worth trying for n: those it depends on, then the latest over a space of the same size.
  std::vector<std::pair<std::uint32_t, bool>> candidates(node_id n, std::int64_t size) {
    std::vector<std::pair<std::uint32_t, bool>> all;
    if (!options_.fuse || size == 0) return all;
    std::vector<std::uint32_t> const depends = frontier(n);
    for (std::uint32_t g : depends)
      if (groups_[g].out.call < 0) all.emplace_back(g, true);
    auto const& same = by_size_[size];
    for (std::size_t i = same.size(), tried = 0; i-- > 0 && tried < neighbours; ++tried)
      if (std::find(depends.begin(), depends.end(), same[i]) == depends.end())
        all.emplace_back(same[i], false);
    return all;
  }

  bool depends_on(std::uint32_t from, std::uint32_t on) const {
    if (from == on) return true;
    std::vector<char> seen(groups_.size());
    std::vector<std::uint32_t> todo{from};
    while (!todo.empty()) {
      std::uint32_t const g = todo.back();
      todo.pop_back();
      for (std::uint32_t next : groups_[g].out.needs) {
        if (next == on) return true;
        if (!std::exchange(seen[next], 1)) todo.push_back(next);
      }
    }
    return false;
  }

  bool acyclic(attempt const& a, std::uint32_t group) const {
    return std::none_of(a.loads.begin(), a.loads.end(),
                        [&](node_id n) { return depends_on(home_[n], group); });
  }

  // Elementwise work beside a reduction of few rows would wait for the few that run it.
  static bool parallel_enough(kernel_group const& g) {
    return g.rows() >= few_rows || g.space->axes().size() <= small_space || g.row_elements() > longest_row;
  }

  static bool too_deep(kernel_group const& g, int level) {
    if (level == 0) return false;
    return g.row_elements() > longest_row || (g.order() == order::runs && level > deepest_runs);
  }

  std::uint32_t open_group(reprise::shape const& axes, std::uint32_t reduced) {
    auto const id = static_cast<std::uint32_t>(groups_.size());
    groups_.emplace_back();
    kernel_group& g = groups_.back().out.kernel;
    g.space = std::make_unique<point_space>(p_, axes);
    g.reduced = reduced;
    by_size_[axes.size()].push_back(id);
    return id;
  }

  void place_call(node_id n) {
    auto const id = static_cast<std::uint32_t>(groups_.size());
    groups_.emplace_back();
    fused_group& g = groups_.back().out;
    g.call = call_of_[n];
    for (node_id o : calls_[static_cast<std::size_t>(g.call)].operands)
      if (root_[o]) need(id, o);
    home_[n] = id;
  }

  void need(std::uint32_t group, node_id n) {
    stored_[n] = 1;
    if (home_[n] == nowhere) return;  // marked in this round, which is void
    auto& needs = groups_[group].out.needs;
    if (std::find(needs.begin(), needs.end(), home_[n]) == needs.end()) needs.push_back(home_[n]);
  }

  void place_reduction(node_id n) {
    node_id const of = p_.operands_of(n)[0];
    reprise::shape const& s = p_.nodes[of].shape;
    std::uint32_t const mask = axes_of(p_, n);
    for (auto const& [g, depends] : candidates(n, s.size()))
      if (join_reduction(g, n, of, mask, depends)) return;
    std::uint32_t const id = open_group(s, mask);
    kernel_group& k = groups_[id].out.kernel;
    attempt a(*this, id, n, true);
    point_id const value = *k.space->pull(of, k.space->identity(), a);
    add_reduction(id, n, value, a);
  }

  void add_reduction(std::uint32_t id, node_id n, point_id value, attempt& a) {
    kernel_group& k = groups_[id].out.kernel;
    a.commit();
    k.space->set_row_level(n, k.space->points()[value].level);
    k.reductions.push_back({.node = n, .value = value});
    home_[n] = id;
  }

  bool join_reduction(std::uint32_t id, node_id n, node_id of, std::uint32_t mask, bool depends) {
    kernel_group& k = groups_[id].out.kernel;
    if (!(k.space->axes() == p_.nodes[of].shape) || (k.reduced != 0 && k.reduced != mask)) return false;
    std::uint32_t const before = std::exchange(k.reduced, mask);
    point_space::marker const m = k.space->mark();
    attempt a(*this, id, n, false);
    bool ok = before != 0 || parallel_enough(k);
    if (k.row_elements() > longest_row) {
      auto const arg = [&](node_id r) { return ir::info(p_.nodes[r].code).kind == category::arg_reduction; };
      ok = ok && !arg(n) &&
           std::none_of(k.reductions.begin(), k.reductions.end(), [&](auto const& r) { return arg(r.node); });
    }
    std::optional<point_id> value;
    if (ok) value = k.space->pull(of, k.space->identity(), a);
    ok = value && (depends || k.space->shared_a_load()) && k.space->cost() <= kernel_budget &&
         !too_deep(k, k.space->points()[*value].level) && acyclic(a, id);
    if (!ok) {
      k.space->rollback(m);
      k.reduced = before;
      return false;
    }
    add_reduction(id, n, *value, a);
    return true;
  }

  void place_elementwise(node_id n) {
    reprise::shape const& s = p_.nodes[n].shape;
    for (auto const& [g, depends] : candidates(n, s.size()))
      if (join_elementwise(g, n, depends)) return;
    std::uint32_t const id = open_group(s, 0);
    kernel_group& k = groups_[id].out.kernel;
    attempt a(*this, id, n, true);
    point_id const value = *k.space->pull(n, k.space->identity(), a);
    add_output(id, {n, value, false}, a);
  }

  void add_output(std::uint32_t id, kernel_output o, attempt& a) {
    a.commit();
    groups_[id].out.kernel.outputs.push_back(o);
    home_[o.node] = id;
  }

  bool join_elementwise(std::uint32_t id, node_id n, bool depends) {
    kernel_group& k = groups_[id].out.kernel;
    reprise::shape const& s = p_.nodes[n].shape;
    bool const whole = s.size() == k.space->axes().size();
    if (!whole && (k.reduced == 0 || s.size() != k.rows() || !depends)) return false;
    point_space::marker const m = k.space->mark();
    attempt a(*this, id, n, false);
    coordinates const c = output_coordinates(k, s, !whole);
    bool const room = k.outputs.size() + k.reductions.size() < most_outputs || depends;
    std::optional<point_id> const value = room ? k.space->pull(n, c, a) : std::nullopt;
    bool ok = value && k.space->cost() <= kernel_budget;
    if (ok) {
      int const level = k.space->points()[*value].level;
      if (whole)
        ok = (depends || k.space->shared_a_load()) && !too_deep(k, level) &&
             (k.reduced == 0 || level > 0 || parallel_enough(k));
      else ok = level > 0;
    }
    if (!ok || !acyclic(a, id)) {
      k.space->rollback(m);
      return false;
    }
    add_output(id, {n, *value, !whole}, a);
    return true;
  }

  static coordinates output_coordinates(kernel_group const& k, reprise::shape const& s, bool row) {
    if (row) return k.space->reshaped(row_coordinates(k), row_shape(k), s);
    if (s == k.space->axes()) return k.space->identity();
    return k.space->reshaped(k.space->identity(), k.space->axes(), s);
  }

  fusion finished() {
    fusion result;
    for (std::uint32_t id = 0; id < groups_.size(); ++id) {
      kernel_group& k = groups_[id].out.kernel;
      if (groups_[id].out.call >= 0) continue;
      std::erase_if(k.outputs, [&](kernel_output const& o) { return !stored_[o.node]; });
      for (kernel_reduction const& r : k.reductions) {
        if (!stored_[r.node]) continue;
        attempt a(*this, id, ir::no_node, false);
        point_id const row = *k.space->pull(r.node, output_coordinates(k, p_.nodes[r.node].shape, true), a);
        k.outputs.push_back({r.node, row, true});
      }
      std::sort(k.outputs.begin(), k.outputs.end(),
                [](kernel_output const& a, kernel_output const& b) { return a.node < b.node; });
    }
    for (std::uint32_t id : order_of_groups()) result.groups.push_back(std::move(groups_[id].out));
    result.calls = std::move(calls_);
    for (auto const& [n, why] : reasons_)
      result.notes.push_back(
          fmt::format("{} (node {}) is stored: {}", ir::info(p_.nodes[n].code).name, n, why));
    return result;
  }

  std::vector<std::uint32_t> order_of_groups() {
    std::vector<std::uint32_t> waits(groups_.size()), order, place(groups_.size());
    std::vector<std::vector<std::uint32_t>> then(groups_.size());
    for (std::uint32_t id = 0; id < groups_.size(); ++id)
      for (std::uint32_t on : groups_[id].out.needs) {
        ++waits[id];
        then[on].push_back(id);
      }
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
    for (std::uint32_t id = 0; id < groups_.size(); ++id)
      if (waits[id] == 0) ready.push(id);
    while (!ready.empty()) {
      std::uint32_t const id = ready.top();
      ready.pop();
      place[id] = static_cast<std::uint32_t>(order.size());
      order.push_back(id);
      for (std::uint32_t next : then[id])
        if (--waits[next] == 0) ready.push(next);
    }
    if (order.size() != groups_.size()) throw compile_error("fusion: groups depend on each other");
    for (state& s : groups_)
      for (std::uint32_t& on : s.out.needs) on = place[on];
    return order;
  }

  ir::program const& p_;
  compile_options options_;
  std::vector<std::uint32_t> uses_;
  std::vector<library_call> calls_;
  std::vector<char> forced_;  // over all rounds
  std::map<node_id, char const*> reasons_;
  bool may_mark_ = false;

  // of one round
  std::vector<state> groups_;
  std::unordered_map<std::int64_t, std::vector<std::uint32_t>> by_size_;
  std::vector<std::int64_t> call_of_;
  std::vector<char> root_, stored_, marked_;
  std::vector<int> cone_;
  std::vector<std::uint32_t> home_, went_through_in_, seen_;
  std::uint32_t stamp_ = 0;
  bool dirty_ = false;
};

attempt::attempt(fuser& f, std::uint32_t group, node_id placing, bool fresh)
    : f_(f),
      group_(group),
      placing_(placing),
      fresh_(fresh),
      base_(f.groups_[group].out.kernel.space->cost()) {}

access attempt::at(node_id n, coordinates const& c) {
  if (n == placing_) return access::through;
  if (f_.root_[n]) {
    if (f_.home_[n] != group_) {
      loads.push_back(n);
      return access::load;
    }
    if (!aligned(n, c)) return access::refuse;
    return is_reduction(f_.p_, n) ? access::row : access::through;
  }
  if (f_.marked_[n]) return access::load;
  if (f_.may_mark_ && own_cost(f_.p_, n) > 0 && needs_home(n, c)) return access::load;
  return access::through;
}

// Is this where the group itself computes n?
bool attempt::aligned(node_id n, coordinates const& c) const {
  kernel_group const& k = f_.groups_[group_].out.kernel;
  reprise::shape const& s = f_.p_.nodes[n].shape;
  bool row = true;
  if (!is_reduction(f_.p_, n)) {
    auto const o =
        std::find_if(k.outputs.begin(), k.outputs.end(), [&](kernel_output const& x) { return x.node == n; });
    row = o->row;
  }
  coordinates const own = fuser::output_coordinates(k, s, row);
  for (int i = 0; i < s.rank(); ++i)
    if (s[i] != 1 && own.at[static_cast<std::size_t>(i)] != c.at[static_cast<std::size_t>(i)]) return false;
  return true;
}

// Long work that several places would do again is done once, and stored.
bool attempt::needs_home(node_id n, coordinates const& c) {
  int const cost = f_.cone_[n];
  if (cost <= cheap_twice) return false;
  auto const marked = [&](char const* why) {
    f_.marked_[n] = 1;
    marks_.emplace_back(n, why);
    return true;
  };
  std::uint32_t const elsewhere = f_.went_through_in_[n];
  if (cost > cheap_again && elsewhere != nowhere && elsewhere != group_)
    return marked("more than one kernel would compute it");

  kernel_group const& k = f_.groups_[group_].out.kernel;
  index_arena const& arena = k.space->arena();
  reprise::shape const& axes = k.space->axes();
  std::int64_t const size = f_.p_.nodes[n].shape.size();
  if (size <= 1) return false;
  int last = axes.rank() - 1;
  while (last > 0 && axes[last] == 1) --last;
  auto const evaluations = [&](coordinates const& at) {
    bool inner = false;
    for (int v = 0; v < axes.rank(); ++v)
      if (k.reduced != 0 ? k.is_reduced(v) : v == last)
        for (int i = 0; i < at.rank; ++i)
          inner = inner || arena.depends(at.at[static_cast<std::size_t>(i)], static_cast<std::uint32_t>(v));
    if (inner || axes.rank() == 0) return axes.size();
    return k.reduced != 0 ? k.rows() : axes.size() / std::max<std::int64_t>(axes[last], 1);
  };
  std::int64_t total = evaluations(c), maps = 1;
  bool known = false;
  auto const count = [&](coordinates const& other) {
    if (other == c) known = true;
    else total += evaluations(other), ++maps;
  };
  auto const& maps_of = f_.groups_[group_].maps;
  if (auto const at = maps_of.find(n); at != maps_of.end())
    for (coordinates const& other : at->second) count(other);
  if (auto const at = went_through_.find(n); at != went_through_.end())
    for (coordinates const& other : at->second) count(other);
  if (known) return false;
  if (maps > 1 && 2 * total > 3 * size) return marked("one kernel would compute it at several places");
  if (cost >= costly_broadcast && total >= 4 * size) return marked("it would be computed again for each row");
  return false;
}

bool attempt::made(node_id n, coordinates const& c, point_id) {
  if (own_cost(f_.p_, n) == 0) return false;
  went_through_[n].push_back(c);
  std::int64_t const now = f_.groups_[group_].out.kernel.space->cost();
  if (!fresh_ || !f_.may_mark_ || n == placing_ || now - base_ <= kernel_budget) return false;
  base_ = now;
  f_.marked_[n] = 1;
  marks_.emplace_back(n, "a kernel would be too long");
  return true;
}

attempt::~attempt() {
  if (committed_) return;
  for (auto const& [n, why] : marks_) f_.marked_[n] = 0;
}

void attempt::commit() {
  committed_ = true;
  for (node_id n : loads) f_.need(group_, n);
  auto& maps = f_.groups_[group_].maps;
  for (auto const& [n, all] : went_through_) {
    auto& known = maps[n];
    for (coordinates const& c : all)
      if (std::find(known.begin(), known.end(), c) == known.end()) known.push_back(c);
    f_.went_through_in_[n] = group_;
  }
  for (auto const& [n, why] : marks_) {
    f_.dirty_ = true;
    f_.reasons_.emplace(n, why);
  }
}

}  // namespace

std::vector<std::uint32_t> count_uses(ir::program const& p) {
  std::vector<std::uint32_t> uses(p.nodes.size());
  for (ir::result const& r : p.results) ++uses[r.value];
  for (std::size_t n = p.nodes.size(); n-- > 0;)
    if (uses[n] != 0)
      for (node_id o : p.operands_of(static_cast<node_id>(n))) ++uses[o];
  return uses;
}

fusion fuse(ir::program const& p, compile_options const& o) { return fuser(p, o).run(); }

}  // namespace reprise::jit
