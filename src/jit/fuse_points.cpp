// The walk from a node to its points keeps its own stack, so that a program of any depth is no deeper in
// ours.
#include "jit/fuse_points.h"

#include <algorithm>

#include <reprise/error.h>

namespace reprise::jit {
namespace {

using ir::category;
using ir::node_id;
using ir::op;

constexpr std::int64_t cost_of_array = 8;  // a kernel's arguments are few

std::size_t mix(std::size_t h, std::uint64_t v) {
  h = (h ^ static_cast<std::size_t>(v)) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

bool is_view(op code) {
  return code == op::reshape || code == op::transpose || code == op::broadcast_to || code == op::slice ||
         code == op::sliding_window;
}

// Elementary functions by the length of their expansion in f32.
int elementwise_cost(op code) {
  switch (code) {
    case op::div: return 4;
    case op::sqrt: return 4;
    case op::floor_divide:
    case op::mod:
    case op::fmod: return 16;
    case op::rsqrt: return 8;
    case op::exp:
    case op::sigmoid: return 18;
    case op::expm1:
    case op::log:
    case op::log1p:
    case op::tanh: return 26;
    case op::erf:
    case op::gelu:
    case op::gelu_tanh:
    case op::sin:
    case op::cos: return 40;
    case op::pow: return 70;
    default: return 1;  // one instruction or a few: the table of operations grows without this one
  }
}

}  // namespace

int own_cost(ir::program const& p, node_id n) {
  ir::node const& at = p.nodes[n];
  switch (ir::info(at.code).kind) {
    case category::elementwise: return elementwise_cost(at.code) + (is_half(at.type) ? 2 : 0);
    case category::select:
    case category::cast: return 1;
    case category::reduction:
    case category::arg_reduction: return 1;
    case category::movement:
      if (is_view(at.code)) return 0;
      return at.code == op::concatenate ? 2 * static_cast<int>(at.operand_count) : 3;
    case category::source: return at.code == op::philox ? 120 : at.code == op::iota ? 1 : 0;
    case category::library:
    case category::region: return 0;
  }
  return 0;
}

node_id without_reshapes(ir::program const& p, node_id n) {
  while (p.nodes[n].code == op::reshape) n = p.operands_of(n)[0];
  return n;
}

struct point_space::frame {
  key what;
  std::vector<request> children;
  std::vector<guard_id> conditions;  // of a choice: child i where condition i holds, else the next
  std::vector<point_id> values;
};

std::size_t point_space::key_hash::operator()(key const& k) const {
  std::size_t h = mix(mix(7, k.node), k.guard);
  for (int i = 0; i < k.c.rank; ++i) h = mix(h, k.c.at[static_cast<std::size_t>(i)]);
  return h;
}
std::size_t point_space::point_hash::operator()(point const& p) const {
  std::size_t h = mix(mix(mix(static_cast<std::size_t>(p.kind) + 1, p.node), p.index), p.guard);
  for (point_id o : p.operand) h = mix(h, o);
  return h;
}
bool point_space::point_equal::operator()(point const& a, point const& b) const {
  return a.kind == b.kind && a.node == b.node && a.index == b.index && a.guard == b.guard &&
         a.operand == b.operand;
}
std::size_t point_space::guard_hash::operator()(guard_test const& t) const {
  return mix(mix(mix(mix(3, t.parent), t.expression), static_cast<std::uint64_t>(t.low)),
             static_cast<std::uint64_t>(t.high));
}
bool point_space::guard_equal::operator()(guard_test const& a, guard_test const& b) const {
  return a.parent == b.parent && a.expression == b.expression && a.low == b.low && a.high == b.high;
}

point_space::point_space(ir::program const& p, reprise::shape const& axes) : program_(&p), axes_(axes) {
  identity_.rank = axes.rank();
  for (int i = 0; i < axes.rank(); ++i)
    identity_.at[static_cast<std::size_t>(i)] = arena_.variable(arena_.add_variable(axes[i]));
}

void point_space::rollback(marker m) {
  while (points_.size() > m.points) {
    if (points_.back().kind == point_kind::load) --loads_of_[points_.back().node];
    known_.erase(points_.back());
    points_.pop_back();
  }
  while (made_order_.size() > m.made) {
    made_.erase(made_order_.back());
    made_order_.pop_back();
  }
  cost_ = m.cost;
}

point_id point_space::intern(point p) {
  for (point_id o : p.operand)
    if (o != no_point) p.level = std::max(p.level, points_[o].level);
  auto const [at, fresh] = known_.try_emplace(p, static_cast<point_id>(points_.size()));
  if (!fresh) {
    if (p.kind == point_kind::load && at->second < old_points_) shared_ = true;
    return at->second;
  }
  switch (p.kind) {
    case point_kind::load: cost_ += loads_of_[p.node]++ == 0 ? cost_of_array : 1; break;
    case point_kind::index: cost_ += 1; break;
    case point_kind::choose: cost_ += 2; break;
    case point_kind::philox:
    case point_kind::apply: cost_ += own_cost(*program_, p.node); break;
    case point_kind::scalar:
    case point_kind::constant:
    case point_kind::row: break;
  }
  points_.push_back(p);
  return at->second;
}

std::optional<guard_id> point_space::guarded(guard_id parent, index_id e, std::int64_t low,
                                             std::int64_t high) {
  range const r = arena_.bounds(e);
  if (low > high || r.low > high || r.high < low) return std::nullopt;
  if (r.low >= low && r.high <= high) return parent;
  for (guard_id g = parent; g != no_guard; g = guards_[g].parent) {
    guard_test const& t = guards_[g];
    if (t.expression == e && t.low >= low && t.high <= high) return parent;
  }
  guard_test const test{parent, e, low, high};
  auto const [at, fresh] = known_guards_.try_emplace(test, static_cast<guard_id>(guards_.size()));
  if (fresh) guards_.push_back(test);
  return at->second;
}

guard_id point_space::within(guard_id parent, index_id e, std::int64_t low, std::int64_t high) {
  if (auto const g = guarded(parent, e, low, high)) return *g;
  guards_.push_back({parent, e, low, high});  // never true, and said so by a test
  return static_cast<guard_id>(guards_.size() - 1);
}

index_id point_space::flat(coordinates const& c, reprise::shape const& s) {
  index_id at = arena_.constant(0);
  for (int i = 0; i < s.rank(); ++i) at = arena_.add(arena_.mul(at, s[i]), c.at[static_cast<std::size_t>(i)]);
  return at;
}

// Runs of axes with equal products are taken one by one, so that an axis that only moved stays as it is.
coordinates point_space::reshaped(coordinates const& c, reprise::shape const& from,
                                  reprise::shape const& to) {
  coordinates result;
  result.rank = to.rank();
  index_id const zero = arena_.constant(0);
  for (int i = 0; i < to.rank(); ++i) result.at[static_cast<std::size_t>(i)] = zero;
  if (from.size() == 0) return result;
  int a = 0, b = 0;
  for (;;) {
    while (a < from.rank() && from[a] == 1) ++a;
    while (b < to.rank() && to[b] == 1) ++b;
    if (a == from.rank() || b == to.rank()) return result;
    int const first = b;
    std::int64_t have = from[a], want = to[b];
    index_id at = c.at[static_cast<std::size_t>(a)];
    ++a, ++b;
    while (have != want) {
      if (have < want) {
        at = arena_.add(arena_.mul(at, from[a]), c.at[static_cast<std::size_t>(a)]);
        have *= from[a++];
      } else {
        want *= to[b++];
      }
    }
    for (int i = b - 1; i > first; --i) {
      result.at[static_cast<std::size_t>(i)] = arena_.modulo(at, to[i]);
      at = arena_.divide(at, to[i]);
    }
    result.at[static_cast<std::size_t>(first)] = at;
  }
}

// A guard is needed only where the element could lie outside of the array, or where it has to be 0 outside.
point_id point_space::load(node_id n, coordinates const& c, guard_id g) {
  ir::node const& at = program_->nodes[n];
  point p{.kind = point_kind::load, .node = without_reshapes(*program_, n), .index = flat(c, at.shape)};
  range const r = arena_.bounds(p.index);
  if (zero_outside_ || r.low < 0 || r.high >= at.shape.size()) p.guard = g;
  return intern(p);
}

coordinates point_space::through_view(node_id n, coordinates const& c) {
  ir::program const& p = *program_;
  reprise::shape const& from = p.nodes[n].shape;
  reprise::shape const& to = p.nodes[p.operands_of(n)[0]].shape;
  coordinates result;
  result.rank = to.rank();
  switch (p.nodes[n].code) {
    case op::reshape: return reshaped(c, from, to);
    case op::transpose: {
      ir::words const axes = p.ints_of(n, "axes");
      for (std::size_t i = 0; i < axes.size(); ++i) result.at[static_cast<std::size_t>(axes[i])] = c.at[i];
      return result;
    }
    case op::broadcast_to: {
      int const lead = from.rank() - to.rank();
      for (int i = 0; i < to.rank(); ++i)
        result.at[static_cast<std::size_t>(i)] =
            to[i] == 1 ? arena_.constant(0) : c.at[static_cast<std::size_t>(i + lead)];
      return result;
    }
    case op::slice: {
      ir::words const start = p.ints_of(n, "start"), step = p.ints_of(n, "step");
      for (std::size_t i = 0; i < start.size(); ++i)
        result.at[i] = arena_.add(arena_.mul(c.at[i], step[i]), start[i]);
      return result;
    }
    case op::sliding_window: {
      ir::words const axes = p.ints_of(n, "axes"), stride = p.ints_of(n, "stride"),
                      dilation = p.ints_of(n, "dilation");
      for (int i = 0; i < to.rank(); ++i)
        result.at[static_cast<std::size_t>(i)] = c.at[static_cast<std::size_t>(i)];
      for (std::size_t i = 0; i < axes.size(); ++i) {
        auto const axis = static_cast<std::size_t>(axes[i]), window = static_cast<std::size_t>(to.rank()) + i;
        result.at[axis] =
            arena_.add(arena_.mul(result.at[axis], stride[i]), arena_.mul(c.at[window], dilation[i]));
      }
      return result;
    }
    default: throw compile_error("fusion: not a view");
  }
}

std::optional<point_id> point_space::enter(request r, point_policy& policy, std::vector<frame>& stack) {
  ir::program const& p = *program_;
  for (;;) {
    ir::node const& n = p.nodes[r.node];
    if (n.code == op::constant) return intern({.kind = point_kind::constant, .node = r.node});
    key const k{r.node, r.guard, r.c};
    if (auto const known = made_.find(k); known != made_.end()) {
      if (known->second < old_points_ && points_[known->second].kind != point_kind::constant) shared_ = true;
      return known->second;
    }
    bool const parameter = n.code == op::parameter;
    if (parameter &&
        p.parameters[static_cast<std::size_t>(p.int_of(r.node, "index"))].role == ir::parameter_role::lifted)
      return intern({.kind = point_kind::scalar, .node = r.node});
    access const how = parameter ? access::load : policy.at(r.node, r.c);
    switch (how) {
      case access::refuse: refused_ = true; return no_point;
      case access::load: return load(r.node, r.c, r.guard);
      case access::row:
        return intern({.kind = point_kind::row, .node = r.node, .level = row_level_.at(r.node) + 1});
      case access::through: break;
    }
    if (is_view(n.code)) {
      r.c = through_view(r.node, r.c);
      r.node = p.operands_of(r.node)[0];
      continue;
    }
    if (n.code == op::iota)
      return intern({.kind = point_kind::index,
                     .node = r.node,
                     .index = r.c.at[static_cast<std::size_t>(p.int_of(r.node, "axis"))]});
    stack.push_back({k, {}, {}, {}});
    expand(stack.back());
    return std::nullopt;
  }
}

void point_space::expand(frame& f) {
  ir::program const& p = *program_;
  node_id const n = f.what.node;
  switch (ir::info(p.nodes[n].code).kind) {
    case category::elementwise:
    case category::select:
    case category::cast:
      for (node_id o : p.operands_of(n))
        f.children.push_back({o, p.nodes[o].shape.rank() == 0 ? coordinates{} : f.what.c, f.what.guard});
      return;
    case category::movement:
      if (p.nodes[n].code == op::pad) return expand_pad(f);
      if (p.nodes[n].code == op::concatenate) return expand_concatenate(f);
      if (p.nodes[n].code == op::slice_update) return expand_slice_update(f);
      break;
    case category::source:
      if (p.nodes[n].code == op::philox) {
        f.children.push_back({p.operands_of(n)[0], {}, f.what.guard});
        return;
      }
      break;
    case category::reduction:
    case category::arg_reduction:
    case category::library:
    case category::region: break;
  }
  throw compile_error(std::string("fusion: ") + ir::info(p.nodes[n].code).name +
                      " has no value at coordinates");
}

void point_space::expand_pad(frame& f) {
  ir::program const& p = *program_;
  node_id const n = f.what.node, inner = p.operands_of(n)[0];
  ir::words const low = p.ints_of(n, "low");
  reprise::shape const& s = p.nodes[inner].shape;
  coordinates c = f.what.c;
  std::optional<guard_id> condition = no_guard, full = f.what.guard;
  for (std::size_t i = 0; i < low.size() && condition && full; ++i) {
    std::int64_t const extent = s[static_cast<int>(i)];
    c.at[i] = arena_.add(c.at[i], -low[i]);
    condition = guarded(*condition, c.at[i], 0, extent - 1);
    full = guarded(*full, c.at[i], 0, extent - 1);
  }
  request const fill{p.operands_of(n)[1], {}, f.what.guard};
  if (!condition || !full) {
    f.children = {fill};
  } else if (*condition == no_guard) {
    f.children = {{inner, c, *full}};
  } else {
    f.children = {{inner, c, *full}, fill};
    f.conditions = {*condition};
  }
}

void point_space::expand_concatenate(frame& f) {
  ir::program const& p = *program_;
  node_id const n = f.what.node;
  int const axis = static_cast<int>(p.int_of(n, "axis"));
  std::int64_t offset = 0;
  for (node_id o : p.operands_of(n)) {
    std::int64_t const extent = p.nodes[o].shape[axis];
    coordinates c = f.what.c;
    index_id& at = c.at[static_cast<std::size_t>(axis)];
    at = arena_.add(at, -offset);
    offset += extent;
    auto const full = guarded(f.what.guard, at, 0, extent - 1);
    if (!full) continue;
    // those before have been tried: only the end counts
    auto const condition = guarded(no_guard, at, arena_.bounds(at).low, extent - 1);
    f.children.push_back({o, c, *full});
    if (*condition == no_guard) return;
    f.conditions.push_back(*condition);
  }
  if (f.children.empty()) {  // guarded away everywhere: any value does
    f.children.push_back({p.operands_of(n)[0], f.what.c, f.what.guard});
    f.conditions.clear();
  } else {
    f.conditions.pop_back();
  }
}

void point_space::expand_slice_update(frame& f) {
  ir::program const& p = *program_;
  node_id const n = f.what.node, base = p.operands_of(n)[0], update = p.operands_of(n)[1];
  ir::words const start = p.ints_of(n, "start"), step = p.ints_of(n, "step");
  reprise::shape const& taken = p.nodes[update].shape;
  coordinates c = f.what.c;
  std::optional<guard_id> condition = no_guard, full = f.what.guard;
  for (std::size_t i = 0; i < start.size() && condition && full; ++i) {
    std::int64_t const count = taken[static_cast<int>(i)], by = step[i] < 0 ? -step[i] : step[i],
                       first = step[i] < 0 ? start[i] + (count - 1) * step[i] : start[i];
    if (count == 0) {
      condition.reset();
      break;
    }
    index_id const away = arena_.add(c.at[i], -first);
    auto const both = [&](index_id e, std::int64_t high) {
      if (condition) condition = guarded(*condition, e, 0, high);
      if (full) full = guarded(*full, e, 0, high);
    };
    both(away, (count - 1) * by);
    both(arena_.modulo(away, by), 0);
    index_id const k = arena_.divide(away, by);
    c.at[i] = step[i] < 0 ? arena_.add(arena_.mul(k, -1), count - 1) : k;
  }
  request const old{base, f.what.c, f.what.guard};
  if (!condition || !full) {
    f.children = {old};
  } else if (*condition == no_guard) {
    f.children = {{update, c, *full}};
  } else {
    f.children = {{update, c, *full}, old};
    f.conditions = {*condition};
  }
}

point_id point_space::finish(frame const& f) {
  node_id const n = f.what.node;
  ir::node const& at = program_->nodes[n];
  if (ir::info(at.code).kind == category::movement) {
    point_id value = f.values.back();
    for (std::size_t i = f.conditions.size(); i-- > 0;) {
      if (f.values[i] == value) continue;
      value = intern({.kind = point_kind::choose,
                      .node = n,
                      .guard = f.conditions[i],
                      .operand = {f.values[i], value, no_point}});
    }
    return value;
  }
  point p{.kind = point_kind::apply, .node = n};
  std::copy(f.values.begin(), f.values.end(), p.operand.begin());
  if (at.code == op::philox) {
    p.kind = point_kind::philox;
    p.index = flat(f.what.c, at.shape);
  }
  return intern(p);
}

std::optional<point_id> point_space::pull(node_id n, coordinates const& c, point_policy& policy,
                                          guard_id guard) {
  marker const before = mark();
  old_points_ = points_.size();
  shared_ = refused_ = false;
  zero_outside_ = guard != no_guard;
  std::vector<frame> stack;
  std::optional<point_id> value = enter({n, c, guard}, policy, stack);
  while (!refused_ && (!stack.empty() || !value)) {
    frame& f = stack.back();
    if (value) {
      f.values.push_back(*value);
      value.reset();
    }
    if (f.values.size() < f.children.size()) {
      request const next = f.children[f.values.size()];
      value = enter(next, policy, stack);
      continue;
    }
    point_id done = finish(f);
    if (policy.made(f.what.node, f.what.c, done)) done = load(f.what.node, f.what.c, f.what.guard);
    made_.emplace(f.what, done);
    made_order_.push_back(f.what);
    stack.pop_back();
    value = done;
  }
  if (refused_) {
    rollback(before);
    return std::nullopt;
  }
  return value;
}

}  // namespace reprise::jit
