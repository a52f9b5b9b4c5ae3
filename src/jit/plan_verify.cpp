// The proof that a plan may run, made from the plan alone and by other means than the planner's. The rules:
//
// L1 Each buffer is a parameter, a result or a temporary of the program: slots in range, dtype and size those
// of the program, no
//    two buffers for one slot, none for a lifted parameter.
// L2 Result i of the program is its result buffer or a parameter of the same type.
// L3 Steps fit what they run: a kernel's buffers have the dtypes of the arguments and no more elements, what
// it writes are the
//    step's written buffers, scalars are lifted parameters of its dtypes; a library's matrices and images lie
//    inside their buffers; a generated alternative takes the operands and then the written buffer. Kernels
//    are legal, names differ.
// L4 Parameters are never written, each result by one step, and what is read was written by an earlier step.
// L5 Edges lead to later steps and none follows from the others.
// L6 Two steps that use one buffer, one of them writing it, are ordered along edges.
// L7 Temporaries lie in the arena, aligned, and share bytes only if every access of one happens before every
// access of the
//    other along edges.
//
// L6 and L7 ask for few of all pairs. "Every access before every access" is transitive, so when the buffers
// are taken in the order of their first use, it is enough to compare each with those whose bytes it takes
// over directly.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <reprise/error.h>

#include "jit/memory_plan.h"
#include "jit/plan.h"
#include "jit/schedule.h"

namespace reprise::jit {
namespace {

__extension__ typedef __int128 wide;

template <class... T>
[[noreturn]] void refuse(int rule, fmt::format_string<T...> what, T&&... values) {
  throw compile_error(fmt::format("plan: L{}: {}", rule, fmt::format(what, std::forward<T>(values)...)));
}

void check_buffers(plan const& p, ir::program const& of) {
  std::vector<bool> parameter_seen(of.parameters.size()), result_seen(of.results.size());
  for (buffer_id b = 0; b < p.buffers.size(); ++b) {
    plan_buffer const& x = p.buffers[b];
    if (x.elements < 0 || static_cast<wide>(x.elements) * size_of(x.type) > INT64_MAX - arena_alignment)
      refuse(1, "buffer {} has {} elements", b, x.elements);
    ir::tensor_type want{x.type, {}};
    std::vector<bool>* seen = nullptr;
    switch (x.place) {
      case buffer_place::temporary: continue;
      case buffer_place::parameter:
        if (x.slot >= of.parameters.size())
          refuse(1, "buffer {} is parameter {}, of {}", b, x.slot, of.parameters.size());
        if (of.parameters[x.slot].role == ir::parameter_role::lifted)
          refuse(1, "buffer {} is the lifted parameter {}", b, x.slot);
        want = of.parameters[x.slot].type;
        seen = &parameter_seen;
        break;
      case buffer_place::result:
        if (x.slot >= of.results.size())
          refuse(1, "buffer {} is result {}, of {}", b, x.slot, of.results.size());
        want = of.type_of(of.results[x.slot].value);
        seen = &result_seen;
        break;
    }
    if ((*seen)[x.slot]) refuse(1, "buffer {} is there a second time", b);
    (*seen)[x.slot] = true;
    if (x.type != want.type || x.elements != want.shape.size())
      refuse(1, "buffer {} is {}[{}] and stands for {}", b, name_of(x.type), x.elements, ir::str(want));
  }
}

void check_results(plan const& p, ir::program const& of) {
  if (p.results.size() != of.results.size())
    refuse(2, "{} results, the program has {}", p.results.size(), of.results.size());
  for (std::size_t r = 0; r < p.results.size(); ++r) {
    if (p.results[r] >= p.buffers.size())
      refuse(2, "result {} is in buffer {}, of {}", r, p.results[r], p.buffers.size());
    plan_buffer const& x = p.buffers[p.results[r]];
    ir::tensor_type const want = of.type_of(of.results[r].value);
    bool const own = x.place == buffer_place::result && x.slot == r;
    bool const given =
        x.place == buffer_place::parameter && x.type == want.type && x.elements == want.shape.size();
    if (!own && !given) refuse(2, "result {} is in buffer {}, which is another array", r, p.results[r]);
  }
}

std::set<buffer_id> set_of(std::vector<buffer_id> const& v) { return {v.begin(), v.end()}; }

class step_checker {
 public:
  step_checker(plan const& p, ir::program const& of) : p_(p), of_(of) {}

  void check(step_id i) {
    step const& s = p_.steps[i];
    at_ = i;
    for (auto const* list : {&s.operands, &s.written, &s.arguments})
      for (buffer_id b : *list)
        if (b >= p_.buffers.size()) refuse(3, "step {} uses buffer {}, of {}", i, b, p_.buffers.size());
    if (set_of(s.written).size() != s.written.size()) refuse(3, "step {} writes a buffer twice", i);
    std::visit([&](auto const& work) { check(s, work); }, s.work);
    if (s.alternative < 0) {
      if (s.chosen == choice::generated) refuse(3, "step {} has no generated alternative to choose", i);
      return;
    }
    if (std::holds_alternative<kernel_step>(s.work) || std::holds_alternative<copy_step>(s.work))
      refuse(3, "step {} is no library call and has an alternative", i);
    std::vector<buffer_id> arguments = s.operands;
    arguments.insert(arguments.end(), s.written.begin(), s.written.end());
    kernel const& k = kernel_at(static_cast<std::uint64_t>(s.alternative));
    check_arguments(s, k, arguments);
    if (!k.scalars.empty()) refuse(3, "step {}: the alternative takes scalars", i);
  }

 private:
  kernel const& kernel_at(std::uint64_t k) {
    if (k >= p_.kernels.size()) refuse(3, "step {} runs kernel {}, of {}", at_, k, p_.kernels.size());
    return p_.kernels[static_cast<std::size_t>(k)];
  }

  void check_arguments(step const& s, kernel const& k, std::vector<buffer_id> const& arguments) {
    if (arguments.size() != k.buffers.size())
      refuse(3, "step {}: {} has {} buffers and is given {}", at_, k.name, k.buffers.size(),
             arguments.size());
    std::set<buffer_id> read, written;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      plan_buffer const& b = p_.buffers[arguments[i]];
      kernel_buffer const& want = k.buffers[i];
      if (b.type != want.type || b.elements < want.elements)
        refuse(3, "step {}: buffer {} of {} is {}[{}] and is given {}[{}]", at_, i, k.name,
               name_of(want.type), want.elements, name_of(b.type), b.elements);
      bool const fresh = (want.written ? written : read).insert(arguments[i]).second;
      if (want.written && !fresh)
        refuse(3, "step {}: {} is given buffer {} twice to write", at_, k.name, arguments[i]);
    }
    for (buffer_id b : read)
      if (written.contains(b))
        refuse(3, "step {}: {} is given buffer {} to read and to write", at_, k.name, b);
    if (read != set_of(s.operands)) refuse(3, "step {}: the operands are not what {} reads", at_, k.name);
    if (written != set_of(s.written))
      refuse(3, "step {}: the written buffers are not those of {}", at_, k.name);
  }

  void check(step const& s, kernel_step const& w) {
    kernel const& k = kernel_at(w.kernel);
    check_arguments(s, k, s.arguments);
    if (w.scalars.size() != k.scalars.size())
      refuse(3, "step {}: {} takes {} scalars and is given {}", at_, k.name, k.scalars.size(),
             w.scalars.size());
    for (std::size_t i = 0; i < w.scalars.size(); ++i) {
      std::uint32_t const parameter = w.scalars[i];
      if (parameter >= of_.parameters.size() || of_.parameters[parameter].role != ir::parameter_role::lifted)
        refuse(3, "step {}: scalar {} of {} is parameter {}, which is not lifted", at_, i, k.name, parameter);
      if (of_.parameters[parameter].type.type != k.scalars[i])
        refuse(3, "step {}: scalar {} of {} is {}, the lifted parameter {}", at_, i, k.name,
               name_of(k.scalars[i]), name_of(of_.parameters[parameter].type.type));
    }
  }

  // A library step's buffers: each with the least number of elements that it must have.
  void check_library(step const& s, dtype type, bool bias, std::array<wide, 3> reads, wide writes,
                     char const* name) {
    std::size_t const operands = bias ? 3 : 2;
    if (s.operands.size() != operands || s.written.size() != 1 || !s.arguments.empty())
      refuse(3, "step {}: {} reads {} arrays and writes one", at_, name, operands);
    for (std::size_t i = 0; i < operands; ++i) check_size(s.operands[i], type, reads[i], name);
    check_size(s.written[0], type, writes, name);
    if (set_of(s.operands).contains(s.written[0])) refuse(3, "step {}: {} writes what it reads", at_, name);
  }
  void check_size(buffer_id b, dtype type, wide elements, char const* name) {
    plan_buffer const& x = p_.buffers[b];
    if (x.type != type || x.elements < elements)
      refuse(3, "step {}: {} needs {} {} in buffer {}, which is {}[{}]", at_, name,
             static_cast<std::int64_t>(elements), name_of(type), b, name_of(x.type), x.elements);
  }
  // Numbers below 2^31 times a number below 2^62 stay in a `wide`.
  void in_range(std::initializer_list<std::int64_t> numbers, std::int64_t low, char const* name) {
    for (std::int64_t v : numbers)
      if (v < low || v > std::int64_t{1} << 40) refuse(3, "step {}: {} has the number {}", at_, name, v);
  }

  void check(step const& s, matmul_step const& w) {
    in_range({w.batch, w.m, w.n, w.k, w.stride_a, w.stride_b, w.stride_c}, 0, "matmul");
    auto const reach = [&](std::int64_t stride, std::int64_t rows, std::int64_t columns) {
      wide const matrix = static_cast<wide>(rows) * columns;
      return w.batch == 0 || matrix == 0 ? wide{0} : static_cast<wide>(w.batch - 1) * stride + matrix;
    };
    if (w.batch > 1 && static_cast<wide>(w.m) * w.n > w.stride_c)
      refuse(3, "step {}: the matrices that matmul writes overlap", at_);
    check_library(s, w.type, w.bias, {reach(w.stride_a, w.m, w.k), reach(w.stride_b, w.k, w.n), w.n},
                  reach(w.stride_c, w.m, w.n), "matmul");
  }

  void check(step const& s, conv2d_step const& w) {
    in_range({w.n, w.c, w.h, w.w, w.o, w.kh, w.kw, w.pad_top, w.pad_left, w.pad_bottom, w.pad_right}, 0,
             "conv2d");
    in_range({w.stride_h, w.stride_w, w.dilation_h, w.dilation_w, w.groups}, 1, "conv2d");
    if (w.c % w.groups != 0 || w.o % w.groups != 0)
      refuse(3, "step {}: conv2d has {} groups of {} to {} channels", at_, w.groups, w.c, w.o);
    auto const extent = [&](std::int64_t in, std::int64_t low, std::int64_t high, std::int64_t window,
                            std::int64_t dilation, std::int64_t stride) {
      wide const room = static_cast<wide>(in) + low + high - (static_cast<wide>(dilation) * (window - 1) + 1);
      if (room < 0) refuse(3, "step {}: conv2d has a window larger than the image", at_);
      return room / stride + 1;
    };
    wide const oh = extent(w.h, w.pad_top, w.pad_bottom, w.kh, w.dilation_h, w.stride_h);
    wide const ow = extent(w.w, w.pad_left, w.pad_right, w.kw, w.dilation_w, w.stride_w);
    check_library(s, w.type, w.bias,
                  {product({w.n, w.c, w.h, w.w}), product({w.o, w.c / w.groups, w.kh, w.kw}), w.o},
                  product({w.n, w.o, oh, ow}), "conv2d");
  }
  // Saturates above every possible size.
  static wide product(std::initializer_list<wide> factors) {
    constexpr wide most = static_cast<wide>(1) << 63;
    wide n = 1;
    for (wide f : factors)
      if (f == 0) return 0;
    for (wide f : factors) n = std::min(n * f, most);
    return n;
  }

  void check(step const& s, copy_step const&) {
    if (s.operands.size() != 1 || s.written.size() != 1 || !s.arguments.empty() || s.operands == s.written)
      refuse(3, "step {}: a copy reads one array and writes another", at_);
    plan_buffer const &from = p_.buffers[s.operands[0]], &to = p_.buffers[s.written[0]];
    if (from.type != to.type || from.elements != to.elements)
      refuse(3, "step {}: a copy of {}[{}] to {}[{}]", at_, name_of(from.type), from.elements,
             name_of(to.type), to.elements);
  }

  plan const& p_;
  ir::program const& of_;
  step_id at_ = 0;
};

void check_steps(plan const& p, ir::program const& of) {
  std::set<std::string_view> names;
  for (kernel const& k : p.kernels) {
    verify(k);
    if (!names.insert(k.name).second) refuse(3, "two kernels have the name {}", k.name);
  }
  step_checker checker(p, of);
  for (step_id i = 0; i < p.steps.size(); ++i) checker.check(i);
}

void check_writes(plan const& p) {
  std::vector<int> writers(p.buffers.size());
  for (step_id i = 0; i < p.steps.size(); ++i) {
    for (buffer_id b : p.steps[i].operands) {
      plan_buffer const& x = p.buffers[b];
      if (x.place != buffer_place::parameter && x.elements != 0 && writers[b] == 0)
        refuse(4, "step {} reads buffer {}, which nothing has written", i, b);
    }
    for (buffer_id b : p.steps[i].written) {
      if (p.buffers[b].place == buffer_place::parameter)
        refuse(4, "step {} writes buffer {}, a parameter", i, b);
      ++writers[b];
    }
  }
  for (buffer_id b = 0; b < p.buffers.size(); ++b) {
    plan_buffer const& x = p.buffers[b];
    if (x.place != buffer_place::result) continue;
    if (writers[b] > 1) refuse(4, "result {} is written by {} steps", x.slot, writers[b]);
    if (writers[b] == 0 && x.elements != 0) refuse(4, "result {} is never written", x.slot);
  }
}

// Which steps happen before which, along edges: 512 earlier steps at a time, as sets of bits carried along
// the edges.
class reach {
 public:
  explicit reach(plan const& p) : before_(p.steps.size()), reached_(p.steps.size()) {
    for (edge e : p.edges) before_[e.to].push_back(e.from);
  }

  static constexpr std::size_t block = 512;
  using bits = std::array<std::uint64_t, block / 64>;

  std::vector<step_id> const& before(std::size_t i) const { return before_[i]; }
  // From now on has() answers for the steps [first, first + block).
  void carry(std::size_t first) {
    first_ = first;
    for (std::size_t i = first; i < before_.size(); ++i) {
      reached_[i].fill(0);
      if (covers(i)) reached_[i][(i - first) / 64] |= mask(i);
      for (step_id from : before_[i]) unite(from, reached_[i]);
    }
  }
  bool covers(std::size_t i) const { return i >= first_ && i - first_ < block; }
  // All that happens before step i, and i itself, added to a set.
  void unite(step_id i, bits& set) const {
    if (i < first_) return;
    for (std::size_t w = 0; w < block / 64; ++w) set[w] |= reached_[i][w];
  }
  bool in(step_id i, bits const& set) const { return (set[(i - first_) / 64] & mask(i)) != 0; }
  // Does `from` happen before `to`, or is it the same step?
  bool has(step_id from, step_id to) const { return to >= first_ && in(from, reached_[to]); }

 private:
  std::uint64_t mask(std::size_t i) const { return std::uint64_t{1} << (i - first_) % 64; }

  std::vector<std::vector<step_id>> before_;
  std::vector<bits> reached_;
  std::size_t first_ = 0;
};

// A claim that one step happens before another; `why` is what the caller knows it by.
struct claim {
  step_id from, to;
  std::size_t why;
};

// The smallest `why` of the claims that are false.
std::optional<std::size_t> first_false(plan const& p, std::vector<claim> claims) {
  std::sort(claims.begin(), claims.end(), [](claim const& a, claim const& b) { return a.from < b.from; });
  std::optional<std::size_t> result;
  reach along(p);
  for (std::size_t i = 0; i < claims.size(); ++i) {
    auto const [from, to, why] = claims[i];
    if (i == 0 || !along.covers(from)) along.carry(from);
    if ((from >= to || !along.has(from, to)) && (!result || why < *result)) result = why;
  }
  return result;
}

void check_edges(plan const& p) {
  std::set<std::pair<step_id, step_id>> seen;
  for (edge e : p.edges) {
    if (e.from >= p.steps.size() || e.to >= p.steps.size())
      refuse(5, "an edge from step {} to step {}, of {}", e.from, e.to, p.steps.size());
    if (e.from >= e.to) refuse(5, "the edge from step {} to step {} leads back", e.from, e.to);
    if (!seen.insert({e.from, e.to}).second)
      refuse(5, "the edge from step {} to step {} is there twice", e.from, e.to);
  }
}

// An edge a -> c follows from others when another edge b -> c comes from a step that a happens before.
void check_reduced(plan const& p) {
  reach along(p);
  for (std::size_t first = 0; first < p.steps.size(); first += reach::block) {
    along.carry(first);
    for (step_id to = 0; to < p.steps.size(); ++to) {
      auto const& before = along.before(to);
      if (before.size() < 2) continue;
      // has(a, b) for all pairs would be quadratic where thousands of steps meet: what b's own edges bring is
      // enough
      reach::bits brought{};
      for (step_id b : before)
        for (step_id from : along.before(b)) along.unite(from, brought);
      for (step_id a : before)
        if (along.covers(a) && along.in(a, brought))
          refuse(5, "the edge from step {} to step {} follows from others", a, to);
    }
  }
}

struct use {
  step_id step;
  bool writes;
};
// The uses of each buffer, in the order of the steps; a step that reads and writes one counts as writing.
std::vector<std::vector<use>> uses_of(plan const& p) {
  std::vector<std::vector<use>> uses(p.buffers.size());
  for (step_id i = 0; i < p.steps.size(); ++i) {
    auto const note = [&](buffer_id b, bool writes) {
      if (uses[b].empty() || uses[b].back().step != i) uses[b].push_back({i, writes});
      uses[b].back().writes |= writes;
    };
    for (buffer_id b : p.steps[i].operands) note(b, false);
    for (buffer_id b : p.steps[i].written) note(b, true);
  }
  return uses;
}

void check_order(plan const& p) {
  std::vector<claim> claims;
  std::vector<buffer_id> told;
  auto const claim_for = [&](buffer_id b, step_id from, step_id to) {
    claims.push_back({from, to, told.size()});
    told.push_back(b);
  };
  auto const uses = uses_of(p);
  for (buffer_id b = 0; b < uses.size(); ++b) {
    std::size_t last_write = uses[b].size();
    for (std::size_t i = 0; i < uses[b].size(); ++i) {
      if (last_write < i) claim_for(b, uses[b][last_write].step, uses[b][i].step);
      if (!uses[b][i].writes) continue;
      for (std::size_t read = last_write < i ? last_write + 1 : 0; read < i; ++read)
        claim_for(b, uses[b][read].step, uses[b][i].step);
      last_write = i;
    }
  }
  if (auto const wrong = first_false(p, claims))
    refuse(6, "steps {} and {} both use buffer {}, and no edges order them", claims[*wrong].from,
           claims[*wrong].to, told[*wrong]);
}

void check_memory(plan const& p) {
  auto const uses = uses_of(p);
  std::vector<buffer_id> order;
  for (buffer_id b = 0; b < p.buffers.size(); ++b) {
    plan_buffer const& x = p.buffers[b];
    if (x.place != buffer_place::temporary) {
      if (x.offset != -1) refuse(7, "buffer {} is not a temporary and has the offset {}", b, x.offset);
      continue;
    }
    if (x.offset < 0 || x.offset % arena_alignment != 0 || x.offset > p.arena_bytes - x.bytes())
      refuse(7, "buffer {} of {} bytes lies at {}, the arena has {} bytes", b, x.bytes(), x.offset,
             p.arena_bytes);
    if (x.bytes() > 0 && !uses[b].empty()) order.push_back(b);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](buffer_id a, buffer_id b) { return uses[a].front().step < uses[b].front().step; });

  std::vector<claim> claims;
  struct pair {
    buffer_id before, after;
  };
  std::vector<pair> told;
  // By L4 and L6 all uses of a temporary follow the first, which writes it.
  auto const claim_for = [&](buffer_id a, buffer_id b) {
    for (use const& x : uses[a]) claims.push_back({x.step, uses[b].front().step, told.size()});
    told.push_back({a, b});
  };
  struct stretch {
    std::int64_t end;
    buffer_id owner;
  };
  std::map<std::int64_t, stretch> owned;  // by first byte; stretches do not overlap
  for (buffer_id b : order) {
    std::int64_t const low = p.buffers[b].offset, high = low + p.buffers[b].bytes();
    auto at = owned.upper_bound(low);
    if (at != owned.begin() && std::prev(at)->second.end > low) --at;
    std::set<buffer_id> taken;
    while (at != owned.end() && at->first < high) {
      auto const [first, old] = *at;
      taken.insert(old.owner);
      at = owned.erase(at);
      if (first < low) owned.emplace(first, stretch{low, old.owner});
      if (old.end > high) at = owned.emplace(high, stretch{old.end, old.owner}).first;
    }
    for (buffer_id a : taken) claim_for(a, b);
    owned.emplace(low, stretch{high, b});
  }
  if (auto const wrong = first_false(p, claims))
    refuse(7,
           "buffers {} and {} share bytes, and edges do not put every use of the first before every use of "
           "the second",
           told[*wrong].before, told[*wrong].after);
}

}  // namespace

void verify_steps(plan const& p, ir::program const& of) {
  check_buffers(p, of);
  check_results(p, of);
  check_steps(p, of);
  check_writes(p);
}

void verify_schedule(plan const& p, ir::program const& of) {
  verify_steps(p, of);
  check_edges(p);
  check_reduced(p);
  check_order(p);
}

void verify(plan const& p, ir::program const& of) {
  verify_schedule(p, of);
  check_memory(p);
}

}  // namespace reprise::jit
