// What a row keeps. A value that several phases of a row need is loaded or computed again in each where that
// is cheap, and otherwise computed in the first of them, stored in a local array, and loaded by the others.
// Local arrays whose times do not overlap share memory.
#include <algorithm>

#include "jit/lower_writer.h"

namespace reprise::jit {
namespace {

constexpr std::int64_t most_local_bytes = std::int64_t{1} << 20;
constexpr int cheap = 3;  // a load and two simple operations
constexpr int most_cost = 1 << 20;

dtype type_of(ir::program const& p, point const& at) {
  return at.kind == point_kind::index || at.kind == point_kind::philox ? dtype::i64 : p.nodes[at.node].type;
}

struct interval {
  point_id value = no_point;
  int first = 0, last = 0;
};

class locals_plan {
 public:
  locals_plan(kernel_group const& g, int phases) : g_(g), points_(g.space->points()), phases_(phases) {
    find_varying();
    find_crossing();
  }

  std::vector<interval> keep(int threshold) const {
    std::vector<int> const cost = costs(threshold);
    std::vector<std::vector<char>> needs(points_.size());
    auto const need = [&](point_id p, int phase) {
      if (needs[p].empty()) needs[p].resize(static_cast<std::size_t>(phases_));
      needs[p][static_cast<std::size_t>(phase)] = 1;
    };
    for (kernel_reduction const& r : g_.reductions) need(r.value, points_[r.value].level);
    for (kernel_output const& o : g_.outputs)
      if (!o.row) need(o.value, points_[o.value].level);
    std::vector<interval> kept;
    for (std::size_t i = points_.size(); i-- > 0;) {
      if (needs[i].empty()) continue;
      auto const first = std::find(needs[i].begin(), needs[i].end(), 1);
      auto const last = std::find(needs[i].rbegin(), needs[i].rend(), 1).base() - 1;
      bool const keeps = crosses_[i] && cost[i] > threshold && first != last;
      if (keeps)
        kept.push_back({static_cast<point_id>(i), static_cast<int>(first - needs[i].begin()),
                        static_cast<int>(last - needs[i].begin())});
      for (point_id o : points_[i].operand) {
        if (o == no_point || !varies_[o]) continue;
        for (auto at = first; at <= (keeps ? first : last); ++at)
          if (*at) need(o, static_cast<int>(at - needs[i].begin()));
      }
    }
    std::sort(kept.begin(), kept.end(), [](interval const& a, interval const& b) {
      return a.first != b.first ? a.first < b.first : a.value < b.value;
    });
    return kept;
  }

 private:
  void find_varying() {
    index_arena const& arena = g_.space->arena();
    auto const moves = [&](index_id e) {
      for (std::uint32_t v = 0; v < arena.variables(); ++v)
        if (g_.is_reduced(static_cast<int>(v)) && arena.depends(e, v)) return true;
      return false;
    };
    varies_.resize(points_.size());
    for (std::size_t i = 0; i < points_.size(); ++i) {
      point const& p = points_[i];
      bool v = false;
      if (p.kind == point_kind::load || p.kind == point_kind::index || p.kind == point_kind::philox)
        v = moves(p.index);
      for (guard_id t = p.guard; t != no_guard && !v; t = g_.space->guards()[t].parent)
        v = moves(g_.space->guards()[t].expression);
      for (point_id o : p.operand) v = v || (o != no_point && varies_[o]);
      varies_[i] = v;
    }
  }

  void find_crossing() {
    crosses_.resize(points_.size());
    for (point const& p : points_)
      for (point_id o : p.operand)
        if (o != no_point && varies_[o] && points_[o].level < p.level) crosses_[o] = 1;
  }

  // Of computing a value anew in a phase, given what is kept.
  std::vector<int> costs(int threshold) const {
    std::vector<int> cost(points_.size());
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (!varies_[i]) continue;  // once a row
      point const& p = points_[i];
      int c = 1;
      if (p.kind == point_kind::apply || p.kind == point_kind::philox)
        c = own_cost(g_.space->program(), p.node);
      if (p.kind == point_kind::choose) c = 2;
      for (point_id o : p.operand)
        if (o != no_point) c = std::min(most_cost, c + (crosses_[o] && cost[o] > threshold ? 1 : cost[o]));
      cost[i] = c;
    }
    return cost;
  }

  kernel_group const& g_;
  std::vector<point> const& points_;
  int phases_;
  std::vector<char> varies_, crosses_;
};

}  // namespace

void kernel_writer::keep_in_locals(int phases, std::int64_t elements) {
  if (phases < 2) return;
  locals_plan const plan(group_, phases);
  for (int threshold = cheap; threshold < most_cost; threshold *= 4) {
    kept_.clear();
    code_.locals.clear();
    std::vector<int> busy;  // the last phase that uses a local array
    std::int64_t bytes = 0;
    for (interval const& i : plan.keep(threshold)) {
      dtype const t = type_of(program(), group_.space->points()[i.value]);
      std::size_t at = 0;
      while (at < busy.size() && !(busy[at] < i.first && code_.locals[at].type == t)) ++at;
      if (at == busy.size()) {
        busy.push_back(0);
        code_.locals.push_back({t, elements});
        bytes += elements * size_of(t);
      }
      busy[at] = i.last;
      kept_.emplace(i.value, kept_value{i.first, static_cast<std::uint32_t>(at)});
    }
    if (bytes <= most_local_bytes) return;
  }
  kept_.clear();
  code_.locals.clear();
}

}  // namespace reprise::jit
