// Edges from buffers, their transitive reduction, and an order of the steps that frees memory early: of the
// steps that could be next, the one that frees most and takes least, the earlier one when two are equal.
#include "jit/schedule.h"

#include <algorithm>
#include <array>
#include <set>

namespace reprise::jit {
namespace {

constexpr step_id no_step = 0xffffffffu;

struct buffer_state {
  step_id writer = no_step;
  std::vector<step_id> readers;  // since the last write
};

// Sets of bits over a window of steps, carried along edges: for each step, those of the window that happen
// before it.
class window {
 public:
  explicit window(std::size_t steps) : sets_(steps) {}
  static constexpr std::size_t width = 1024;
  using bits = std::array<std::uint64_t, width / 64>;

  void move(std::size_t first) { first_ = first; }
  bool inside(std::size_t step) const { return step >= first_ && step - first_ < width; }
  bits& operator[](std::size_t step) { return sets_[step]; }
  bool in(bits const& set, std::size_t step) const {
    std::size_t const i = step - first_;
    return (set[i / 64] >> i % 64 & 1) != 0;
  }
  void insert(bits& set, std::size_t step) const {
    std::size_t const i = step - first_;
    set[i / 64] |= std::uint64_t{1} << i % 64;
  }
  static void unite(bits& set, bits const& with) {
    for (std::size_t w = 0; w < set.size(); ++w) set[w] |= with[w];
  }

 private:
  std::vector<bits> sets_;
  std::size_t first_ = 0;
};

std::vector<std::int64_t> temporary_bytes(plan const& p) {
  std::vector<std::int64_t> bytes(p.buffers.size());
  for (std::size_t b = 0; b < bytes.size(); ++b)
    if (p.buffers[b].place == buffer_place::temporary) bytes[b] = p.buffers[b].bytes();
  return bytes;
}

// The buffers that a step uses, each once.
std::vector<buffer_id> used_by(step const& s) {
  std::vector<buffer_id> used = s.operands;
  used.insert(used.end(), s.written.begin(), s.written.end());
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

// A buffer is alive from the first step that uses it to the last. Whichever step runs next, what it frees and
// takes follows from how many users of its buffers have run.
class greedy_order {
 public:
  explicit greedy_order(plan const& p)
      : bytes_(temporary_bytes(p)), users_(p.buffers.size()), left_(p.buffers.size()) {
    std::size_t const n = p.steps.size();
    for (step_id i = 0; i < n; ++i) {
      used_.push_back(used_by(p.steps[i]));
      for (buffer_id b : used_.back()) users_[b].push_back(i);
    }
    for (std::size_t b = 0; b < left_.size(); ++b) left_[b] = users_[b].size();
    waits_.resize(n);
    after_.resize(n);
    gain_.resize(n);
    done_.resize(n);
    for (edge e : p.edges) {
      ++waits_[e.to];
      after_[e.from].push_back(e.to);
    }
    for (step_id i = 0; i < n; ++i)
      for (buffer_id b : used_[i]) {
        if (left_[b] == 1) gain_[i] += bytes_[b];  // the last to use it
        gain_[i] -= bytes_[b];                     // the first
      }
  }

  std::vector<step_id> run() {
    std::vector<step_id> order;
    for (step_id i = 0; i < waits_.size(); ++i)
      if (waits_[i] == 0) ready_.insert(key(i));
    while (!ready_.empty()) {
      step_id const i = ready_.begin()->second;
      ready_.erase(ready_.begin());
      order.push_back(i);
      done_[i] = true;
      for (buffer_id b : used_[i]) leave(b);
      for (step_id next : after_[i])
        if (--waits_[next] == 0) ready_.insert(key(next));
    }
    return order;
  }

 private:
  std::pair<std::int64_t, step_id> key(step_id i) const { return {-gain_[i], i}; }

  void change(step_id i, std::int64_t by) {
    bool const waiting = ready_.erase(key(i)) != 0;
    gain_[i] += by;
    if (waiting) ready_.insert(key(i));
  }

  void leave(buffer_id b) {
    if (bytes_[b] == 0) return;
    bool const first = left_[b] == users_[b].size();
    --left_[b];
    if (!first && left_[b] != 1) return;
    for (step_id i : users_[b]) {
      if (done_[i]) continue;
      if (first) change(i, bytes_[b]);          // it is there already
      if (left_[b] == 1) change(i, bytes_[b]);  // only this one still needs it
    }
  }

  std::vector<std::int64_t> bytes_;
  std::vector<std::vector<step_id>> users_;
  std::vector<std::size_t> left_;
  std::vector<std::vector<buffer_id>> used_;
  std::vector<std::size_t> waits_;
  std::vector<std::vector<step_id>> after_;
  std::vector<std::int64_t> gain_;  // bytes freed less bytes taken
  std::vector<bool> done_;
  std::set<std::pair<std::int64_t, step_id>> ready_;
};

void sort_edges(std::vector<edge>& edges) {
  std::sort(edges.begin(), edges.end(),
            [](edge a, edge b) { return a.to != b.to ? a.to < b.to : a.from < b.from; });
}

}  // namespace

std::vector<edge> needed_edges(plan const& p) {
  std::vector<edge> edges;
  std::vector<buffer_state> state(p.buffers.size());
  auto const order = [&](step_id from, step_id to) {
    if (from != no_step && from != to) edges.push_back({from, to});
  };
  for (step_id i = 0; i < p.steps.size(); ++i) {
    for (buffer_id b : p.steps[i].operands) {
      order(state[b].writer, i);
      state[b].readers.push_back(i);
    }
    for (buffer_id b : p.steps[i].written) {
      order(state[b].writer, i);
      for (step_id reader : state[b].readers) order(reader, i);
      state[b] = {i, {}};
    }
  }
  return edges;
}

std::vector<edge> reduced(std::vector<edge> edges, std::size_t steps) {
  sort_edges(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::vector<std::size_t> first_edge(steps + 1);
  for (edge e : edges) ++first_edge[e.to + 1];
  for (std::size_t i = 0; i < steps; ++i) first_edge[i + 1] += first_edge[i];

  // An edge goes when its first step happens before another step that leads to the same one.
  std::vector<bool> gone(edges.size());
  window before(steps);
  for (std::size_t first = 0; first < steps; first += window::width) {
    before.move(first);
    for (std::size_t to = first; to < steps; ++to) {
      window::bits set{};
      for (std::size_t e = first_edge[to]; e < first_edge[to + 1]; ++e)
        if (edges[e].from >= first) window::unite(set, before[edges[e].from]);
      for (std::size_t e = first_edge[to]; e < first_edge[to + 1]; ++e)
        if (before.inside(edges[e].from) && before.in(set, edges[e].from)) gone[e] = true;
      for (std::size_t e = first_edge[to]; e < first_edge[to + 1]; ++e)
        if (before.inside(edges[e].from)) before.insert(set, edges[e].from);
      before[to] = set;
    }
  }
  std::size_t kept = 0;
  for (std::size_t e = 0; e < edges.size(); ++e)
    if (!gone[e]) edges[kept++] = edges[e];
  edges.resize(kept);
  return edges;
}

std::int64_t peak_bytes(plan const& p) {
  std::vector<std::int64_t> const bytes = temporary_bytes(p);
  std::vector<step_id> first(p.buffers.size(), no_step), last(p.buffers.size(), no_step);
  for (step_id i = 0; i < p.steps.size(); ++i)
    for (buffer_id b : used_by(p.steps[i])) {
      if (first[b] == no_step) first[b] = i;
      last[b] = i;
    }
  std::vector<std::int64_t> change(p.steps.size() + 1);
  for (std::size_t b = 0; b < bytes.size(); ++b) {
    if (first[b] == no_step) continue;
    change[first[b]] += bytes[b];
    change[last[b] + 1] -= bytes[b];
  }
  std::int64_t now = 0, most = 0;
  for (std::int64_t c : change) most = std::max(most, now += c);
  return most;
}

void schedule(plan& p) {
  p.edges = reduced(needed_edges(p), p.steps.size());
  std::vector<step_id> const order = greedy_order(p).run();
  plan moved;
  moved.buffers = p.buffers;
  std::vector<step_id> number(p.steps.size());
  for (step_id i : order) {
    number[i] = static_cast<step_id>(moved.steps.size());
    moved.steps.push_back(p.steps[i]);
  }
  if (peak_bytes(moved) >= peak_bytes(p)) return;
  p.steps = std::move(moved.steps);
  for (edge& e : p.edges) e = {number[e.from], number[e.to]};
  sort_edges(p.edges);
}

}  // namespace reprise::jit
