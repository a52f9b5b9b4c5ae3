// Three parts. `lanes` covers the steps by chains, so that whether one step happens before another is one
// comparison; a limit on the number of chains is how edges are added. `in_place` merges a kernel's result
// with an operand that dies there. `placement` gives offsets: first in the order of the steps, into the gap
// that fits best, from both ends of what a sequential run needs; where that does not reach the bound, by
// other orders, and by moving the buffer that lies highest to the front.
#include "jit/memory_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "jit/schedule.h"

namespace reprise::jit {
namespace {

constexpr std::uint32_t none = 0xffffffffu;
// A kernel that runs in several steps is compiled once more to save this much.
constexpr std::int64_t bytes_worth_a_kernel = std::int64_t{1} << 20;
// Comparisons of two buffers that looking for better offsets may cost: some milliseconds.
constexpr std::int64_t search_budget = 4'000'000;
constexpr std::size_t most_buffers_searched = 2048;
// So many attempts without a gain end it: with independent branches the bound of a sequential run is mostly
// out of reach.
constexpr int patience = 200;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

// The steps as chains. A clock counts, for each chain, the steps of it that happen before a step or are that
// step.
class lanes {
 public:
  lanes(std::size_t steps, std::vector<edge> const& edges, std::size_t limit) : place_(steps), clock_(steps) {
    std::vector<std::vector<step_id>> before(steps);
    for (edge e : edges) before[e.to].push_back(e.from);
    for (step_id i = 0; i < steps; ++i) {
      std::vector<std::uint32_t>& clock = clock_[i];
      clock.assign(tails_.size(), 0);
      for (step_id b : before[i]) merge(clock, clock_[b]);
      std::size_t lane = free_lane(clock);
      if (lane == tails_.size() && lane == limit) {
        // The chain that was idle for longest goes on here.
        lane = static_cast<std::size_t>(std::min_element(tails_.begin(), tails_.end()) - tails_.begin());
        added_.push_back({tails_[lane], i});
        merge(clock, clock_[tails_[lane]]);
      } else if (lane == tails_.size()) {
        tails_.push_back(i);
        length_.push_back(0);
        clock.push_back(0);
      }
      tails_[lane] = i;
      place_[i] = {static_cast<std::uint32_t>(lane), length_[lane]};
      clock[lane] = ++length_[lane];
    }
  }

  bool before(step_id a, step_id b) const {
    auto const [lane, at] = place_[a];
    return a != b && lane < clock_[b].size() && clock_[b][lane] > at;
  }
  std::uint32_t lane_of(step_id i) const { return place_[i].lane; }
  std::size_t count() const { return tails_.size(); }
  std::vector<edge> const& added() const { return added_; }

 private:
  struct position {
    std::uint32_t lane = 0, at = 0;
  };
  static void merge(std::vector<std::uint32_t>& clock, std::vector<std::uint32_t> const& other) {
    for (std::size_t l = 0; l < other.size(); ++l) clock[l] = std::max(clock[l], other[l]);
  }
  // A chain all of which happens before the step: the one that ended last.
  std::size_t free_lane(std::vector<std::uint32_t> const& clock) const {
    std::size_t best = tails_.size();
    for (std::size_t l = 0; l < tails_.size(); ++l)
      if (clock[l] == length_[l] && (best == tails_.size() || tails_[l] > tails_[best])) best = l;
    return best;
  }

  std::vector<position> place_;
  std::vector<std::vector<std::uint32_t>> clock_;
  std::vector<step_id> tails_;         // the last step of each chain so far
  std::vector<std::uint32_t> length_;  // of each chain so far
  std::vector<edge> added_;
};

std::size_t most_lanes(std::size_t steps) {
  return std::clamp<std::size_t>((std::size_t{1} << 22) / std::max<std::size_t>(steps, 1), 16, 4096);
}

using use_list = std::vector<std::vector<step_id>>;

// The steps that use each buffer, ascending.
use_list uses_of(plan const& p) {
  use_list uses(p.buffers.size());
  for (step_id i = 0; i < p.steps.size(); ++i)
    for (auto const* list : {&p.steps[i].operands, &p.steps[i].written})
      for (buffer_id b : *list)
        if (uses[b].empty() || uses[b].back() != i) uses[b].push_back(i);
  return uses;
}

class in_place {
 public:
  in_place(plan& p, lanes const& along) : p_(p), along_(along), uses_(uses_of(p)), runs_(p.kernels.size()) {
    for (step const& s : p.steps) {
      if (auto const* k = std::get_if<kernel_step>(&s.work)) ++runs_[k->kernel];
      if (s.alternative >= 0) ++runs_[static_cast<std::size_t>(s.alternative)];
    }
  }

  void run() {
    for (step_id i = 0; i < p_.steps.size(); ++i)
      while (merge_one(i)) {}
  }

 private:
  bool merge_one(step_id i) {
    step& s = p_.steps[i];
    auto const* work = std::get_if<kernel_step>(&s.work);
    if (work == nullptr) return false;
    kernel const& k = p_.kernels[work->kernel];
    for (std::uint32_t written = 0; written < s.arguments.size(); ++written) {
      if (!k.buffers[written].written || !begins_at(s.arguments[written], i)) continue;
      for (std::uint32_t read = 0; read < s.arguments.size(); ++read) {
        if (k.buffers[read].written || !ends_at(s.arguments[read], i)) continue;
        if (!same_size(s.arguments[read], s.arguments[written])) continue;
        if (std::count(s.arguments.begin(), s.arguments.end(), s.arguments[read]) != 1) continue;
        if (runs_[work->kernel] > 1 && p_.buffers[s.arguments[read]].bytes() < bytes_worth_a_kernel) continue;
        if (!can_run_in_place(k, read, written)) continue;
        merge(i, read, written);
        return true;
      }
    }
    return false;
  }

  bool begins_at(buffer_id b, step_id i) const {
    return p_.buffers[b].place == buffer_place::temporary && uses_[b].front() == i &&
           p_.buffers[b].elements > 0;
  }
  bool ends_at(buffer_id b, step_id i) const {
    if (p_.buffers[b].place != buffer_place::temporary) return false;
    return std::all_of(uses_[b].begin(), uses_[b].end(),
                       [&](step_id u) { return u == i || along_.before(u, i); });
  }
  bool same_size(buffer_id a, buffer_id b) const {
    return p_.buffers[a].type == p_.buffers[b].type && p_.buffers[a].elements == p_.buffers[b].elements;
  }

  void merge(step_id i, std::uint32_t read, std::uint32_t written) {
    step& s = p_.steps[i];
    kernel_step& work = std::get<kernel_step>(s.work);
    kernel made = run_in_place(p_.kernels[work.kernel], read, written);
    if (runs_[work.kernel] == 1) {
      p_.kernels[work.kernel] = std::move(made);
    } else {
      made.name = free_name(made.name + "_in_place");
      --runs_[work.kernel];
      work.kernel = static_cast<std::uint32_t>(p_.kernels.size());
      p_.kernels.push_back(std::move(made));
      runs_.push_back(1);
    }
    buffer_id const keep = s.arguments[read], gone = s.arguments[written];
    s.arguments.erase(s.arguments.begin() + written);
    std::erase(s.operands, keep);
    for (step_id u : uses_[gone]) {
      step& user = p_.steps[u];
      for (auto* list : {&user.operands, &user.written, &user.arguments})
        std::replace(list->begin(), list->end(), gone, keep);
    }
    uses_[keep].insert(uses_[keep].end(), uses_[gone].begin() + 1, uses_[gone].end());
    uses_[gone].clear();
  }

  std::string free_name(std::string const& wanted) const {
    auto const taken = [&](std::string const& name) {
      return std::any_of(p_.kernels.begin(), p_.kernels.end(),
                         [&](kernel const& k) { return k.name == name; });
    };
    std::string name = wanted;
    for (int i = 2; taken(name); ++i) name = wanted + std::to_string(i);
    return name;
  }

  plan& p_;
  lanes const& along_;
  use_list uses_;
  std::vector<std::size_t> runs_;  // how many steps name each kernel
};

// Temporaries that no step uses go; the others keep their order.
void drop_unused(plan& p) {
  use_list const uses = uses_of(p);
  std::vector<buffer_id> number(p.buffers.size(), none);
  std::vector<plan_buffer> kept;
  for (buffer_id b = 0; b < p.buffers.size(); ++b) {
    if (uses[b].empty() && p.buffers[b].place == buffer_place::temporary) continue;
    number[b] = static_cast<buffer_id>(kept.size());
    kept.push_back(p.buffers[b]);
  }
  p.buffers = std::move(kept);
  for (step& s : p.steps)
    for (auto* list : {&s.operands, &s.written, &s.arguments})
      for (buffer_id& b : *list) b = number[b];
  for (buffer_id& b : p.results) b = number[b];
}

// What is to be placed: temporaries that are not empty, in the order of their first use; larger ones first
// among equals.
struct block {
  buffer_id buffer;
  std::int64_t bytes;          // aligned
  step_id first, last;         // in the order of the steps
  std::vector<step_id> final;  // the last use in each chain: all others happen before one of them
};

std::vector<block> blocks_of(plan const& p, use_list const& uses, lanes const& along) {
  std::vector<block> blocks;
  for (buffer_id b = 0; b < p.buffers.size(); ++b) {
    plan_buffer const& x = p.buffers[b];
    if (x.place != buffer_place::temporary || x.elements == 0) continue;
    block made{b, aligned(x.bytes()), uses[b].front(), uses[b].back(), {}};
    std::map<std::uint32_t, step_id> last;
    for (step_id u : uses[b]) last[along.lane_of(u)] = u;
    for (auto const& [lane, step] : last) made.final.push_back(step);
    blocks.push_back(std::move(made));
  }
  std::stable_sort(blocks.begin(), blocks.end(), [](block const& a, block const& b) {
    return a.first != b.first ? a.first < b.first : a.bytes > b.bytes;
  });
  return blocks;
}

bool all_before(lanes const& along, block const& a, step_id i) {
  return a.last < i &&
         std::all_of(a.final.begin(), a.final.end(), [&](step_id u) { return along.before(u, i); });
}

std::int64_t sequential_bytes(std::vector<block> const& blocks, std::size_t steps) {
  std::vector<std::int64_t> change(steps + 1);
  for (block const& b : blocks) {
    change[b.first] += b.bytes;
    change[b.last + 1] -= b.bytes;
  }
  std::int64_t now = 0, most = 0;
  for (std::int64_t c : change) most = std::max(most, now += c);
  return most;
}

struct layout {
  std::vector<std::int64_t> offsets;  // of each block
  std::int64_t bytes = 0;
};

// In the order of the steps. Every stretch of the arena has the block that it belonged to last; a block may
// have it when that one is done with. Of the gaps the smallest that fits is taken, from its outer end, so
// that two blocks that take turns lie at the two ends and nothing is ever caught between them.
class sweep {
 public:
  sweep(std::vector<block> const& blocks, lanes const& along, std::int64_t budget)
      : blocks_(blocks), along_(along), owner_{{0, none}}, end_(budget) {}

  layout run() {
    layout made;
    for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
      std::int64_t const at = choose(blocks_[b]);
      made.offsets.push_back(at);
      made.bytes = std::max(made.bytes, at + blocks_[b].bytes);
      take(at, at + blocks_[b].bytes, b);
    }
    return made;
  }

 private:
  std::int64_t choose(block const& b) {
    std::int64_t best = -1, best_size = std::numeric_limits<std::int64_t>::max(), gap = 0, top = end_;
    bool open = false;
    auto const close = [&](std::int64_t end) {
      if (open && end - gap >= b.bytes && end - gap < best_size) {
        best_size = end - gap;
        best = gap + end <= end_ ? gap : end - b.bytes;  // the centre of the gap is in the lower half
        if (end == end_ && gap != 0) best = end - b.bytes;
      }
      open = false;
    };
    for (auto s = owner_.begin(); s != owner_.end(); ++s) {
      bool const free = s->second == none || all_before(along_, blocks_[s->second], b.first);
      if (free && !open) gap = s->first;
      if (!free) close(s->first);
      open = free;
    }
    if (open) top = gap;  // the gap at the end can grow
    close(end_);
    if (best >= 0) return best;
    end_ = top + b.bytes;
    return top;
  }

  void take(std::int64_t low, std::int64_t high, std::uint32_t b) {
    auto after = std::prev(owner_.upper_bound(high));
    std::uint32_t const behind = after->second;
    owner_.erase(owner_.lower_bound(low), owner_.upper_bound(high));
    owner_[low] = b;
    if (high < end_) owner_[high] = behind;
  }

  std::vector<block> const& blocks_;
  lanes const& along_;
  std::map<std::int64_t, std::uint32_t> owner_;  // by first byte
  std::int64_t end_;
};

// Orders of the blocks, each block put as low as those before it allow.
class search {
 public:
  search(std::vector<block> const& blocks, lanes const& along, std::int64_t bound)
      : blocks_(blocks), bound_(bound), conflicts_(blocks.size()) {
    for (std::uint32_t b = 0; b < blocks.size(); ++b)
      for (std::uint32_t a = 0; a < b; ++a)
        if (!all_before(along, blocks[a], blocks[b].first)) {
          conflicts_[a].push_back(b);
          conflicts_[b].push_back(a);
        }
    for (auto const& c : conflicts_) cost_ += static_cast<std::int64_t>(c.size()) + 1;
  }

  void improve(layout& best) {
    using id = std::uint32_t;
    std::vector<id> order(blocks_.size());
    for (id b = 0; b < order.size(); ++b) order[b] = b;
    auto const life = [&](id b) { return blocks_[b].last - blocks_[b].first; };
    auto const by = [&](auto&& less) {
      std::vector<id> sorted = order;
      std::stable_sort(sorted.begin(), sorted.end(), less);
      attempt(std::move(sorted), best);
    };
    by([&](id a, id b) { return blocks_[a].bytes > blocks_[b].bytes; });
    by([&](id a, id b) { return life(a) > life(b); });
    by([&](id a, id b) { return blocks_[a].bytes * (life(a) + 1) > blocks_[b].bytes * (life(b) + 1); });
    by([&](id a, id b) { return blocks_[a].first % 2 < blocks_[b].first % 2; });
    climb(best);
  }

 private:
  bool done(layout const& best) const {
    return best.bytes <= bound_ || spent_ > search_budget || vain_ > patience;
  }

  layout place(std::vector<std::uint32_t> const& order) {
    spent_ += cost_;
    layout made{std::vector<std::int64_t>(blocks_.size(), -1), 0};
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (std::uint32_t b : order) {
      taken.clear();
      for (std::uint32_t c : conflicts_[b])
        if (made.offsets[c] >= 0) taken.emplace_back(made.offsets[c], made.offsets[c] + blocks_[c].bytes);
      std::sort(taken.begin(), taken.end());
      std::int64_t at = 0;
      for (auto const& [low, high] : taken) {
        if (low - at >= blocks_[b].bytes) break;
        at = std::max(at, high);
      }
      made.offsets[b] = at;
      made.bytes = std::max(made.bytes, at + blocks_[b].bytes);
    }
    return made;
  }

  void attempt(std::vector<std::uint32_t> order, layout& best) {
    if (done(best)) return;
    layout made = place(order);
    if (best_order_.empty() || made.bytes <= ordered_bytes_) {
      best_order_ = std::move(order);
      ordered_bytes_ = made.bytes;
      ordered_ = made;
    }
    ++vain_;
    if (made.bytes >= best.bytes) return;
    best = std::move(made);
    vain_ = 0;
  }

  // Moves a block that reaches the top, or one that conflicts with it, to an earlier place in the order.
  void climb(layout& best) {
    std::mt19937 random(1);  // the same plan every time
    auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    while (!done(best) && !best_order_.empty()) {
      std::vector<std::uint32_t> high;
      for (std::uint32_t b = 0; b < blocks_.size(); ++b)
        if (ordered_.offsets[b] + blocks_[b].bytes == ordered_bytes_) high.push_back(b);
      std::uint32_t moved = high[below(high.size())];
      if (random() % 3 == 0 && !conflicts_[moved].empty())
        moved = conflicts_[moved][below(conflicts_[moved].size())];
      std::vector<std::uint32_t> order = best_order_;
      auto const from = std::find(order.begin(), order.end(), moved);
      std::size_t const to = below(static_cast<std::size_t>(from - order.begin()) + 1);
      order.erase(from);
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), moved);
      attempt(std::move(order), best);
    }
  }

  std::vector<block> const& blocks_;
  std::int64_t bound_;
  std::vector<std::vector<std::uint32_t>> conflicts_;
  std::int64_t cost_ = 0, spent_ = 0;
  int vain_ = 0;
  std::vector<std::uint32_t> best_order_;
  std::int64_t ordered_bytes_ = 0;
  layout ordered_;
};

}  // namespace

void plan_memory(plan& p) {
  std::size_t const most = most_lanes(p.steps.size());
  std::vector<edge> const edges = p.edges;
  std::optional<lanes> along(std::in_place, p.steps.size(), edges, most);
  in_place(p, *along).run();
  drop_unused(p);

  use_list const uses = uses_of(p);
  for (;;) {
    std::vector<block> const blocks = blocks_of(p, uses, *along);
    std::int64_t const bound = sequential_bytes(blocks, p.steps.size());
    layout made = sweep(blocks, *along, bound).run();
    if (made.bytes > bound && blocks.size() <= most_buffers_searched)
      search(blocks, *along, bound).improve(made);
    if (made.bytes <= std::max(2 * bound, spare_arena_bytes) || along->count() <= 1) {
      for (plan_buffer& b : p.buffers) b.offset = b.place == buffer_place::temporary ? 0 : -1;
      for (std::size_t b = 0; b < blocks.size(); ++b) p.buffers[blocks[b].buffer].offset = made.offsets[b];
      p.arena_bytes = made.bytes;
      break;
    }
    along.emplace(p.steps.size(), edges, along->count() / 2);
  }
  if (along->added().empty()) return;
  p.edges.insert(p.edges.end(), along->added().begin(), along->added().end());
  p.edges = reduced(std::move(p.edges), p.steps.size());
}

}  // namespace reprise::jit
