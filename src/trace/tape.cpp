#include "trace/tape.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

namespace reprise::record {

namespace {

// A long unread recording is cut where it comes back to the operation that it began with, so that a loop's
// pieces are one program; without such a place, at the second bound.
constexpr std::size_t cut_at_repeat = 512, cut_anyway = 8192;

struct thread_tapes {
  std::vector<std::shared_ptr<tape>> traces;
  std::vector<std::shared_ptr<tape>> ambient;  // one for each context that this thread uses
};
thread_tapes& mine() {
  thread_local thread_tapes t;
  return t;
}

}  // namespace

tape::tape(std::shared_ptr<session> s, bool traced) : home(std::move(s)), traced(traced) {}

ir::node_id tape::node_of_input(handle const& ready) {
  auto const [place, fresh] = known_values.try_emplace(ready.get(), ir::no_node);
  if (!fresh) return place->second;
  value const& v = of(ready);
  std::int64_t const index = static_cast<std::int64_t>(inputs.size());
  program.parameters.push_back({v.tensor(), ir::parameter_role::captured, {}});
  inputs.push_back({ready, 0, 0});
  place->second = program.append_typed(ir::op::parameter, v.tensor(), {&index, 1});
  owners.push_back(nullptr);
  if (traced) captured = true;
  return place->second;
}

ir::node_id tape::node_of_scalar(std::uint64_t id, dtype type, std::uint64_t bits) {
  auto const [place, fresh] = known_scalars.try_emplace(id, ir::no_node);
  if (!fresh) return place->second;
  std::int64_t const index = static_cast<std::int64_t>(inputs.size());
  program.parameters.push_back({{type, {}}, ir::parameter_role::lifted, {}});
  inputs.push_back({handle(), id, bits});
  place->second = program.append_typed(ir::op::parameter, {type, {}}, {&index, 1});
  owners.push_back(nullptr);
  if (traced) captured = true;
  return place->second;
}

std::uint32_t tape::line(location at) {
  if (!at.file || !*at.file) return 0;
  auto const slot = (reinterpret_cast<std::uintptr_t>(at.file) >> 3 ^ static_cast<unsigned>(at.line) * 7u) %
                    std::size(sites_);
  site& s = sites_[slot];
  if (s.file != at.file || s.line != at.line) s = {at.file, at.line, program.add_line(at.file, at.line)};
  return s.index;
}

void tape::clear() {
  program = {};
  owners.clear();
  inputs.clear();
  known_values.clear();
  known_scalars.clear();
  for (site& s : sites_) s = {};
}

namespace {

// Copies the nodes that are marked in `needed` into a new program, in their order. Nodes with an entry in
// `as_input` become parameters. `where` receives the new numbers.
struct extraction {
  ir::program program;
  std::vector<input> inputs;
  std::vector<ir::node_id> where;
};

ir::node_id add_input(extraction& e, ir::tensor_type const& type, ir::parameter const& like, input in) {
  std::int64_t const index = static_cast<std::int64_t>(e.inputs.size());
  ir::parameter p = like;
  p.type = type;
  e.program.parameters.push_back(p);
  e.inputs.push_back(std::move(in));
  return e.program.append_typed(ir::op::parameter, type, {&index, 1});
}

extraction extract(tape const& t, std::vector<char> const& needed, std::vector<value*> const& as_input,
                   bool keep_all_parameters) {
  extraction e;
  e.where.assign(t.program.nodes.size(), ir::no_node);
  if (keep_all_parameters)
    for (std::size_t i = 0; i < t.arguments; ++i) {
      e.program.parameters.push_back(t.program.parameters[i]);
      e.inputs.push_back(t.inputs[i]);
    }
  std::vector<ir::node_id> operands;
  for (ir::node_id n = 0; n < t.program.nodes.size(); ++n) {
    if (!needed[n]) continue;
    ir::node const& node = t.program.nodes[n];
    if (!as_input.empty() && as_input[n]) {
      as_input[n]->references.fetch_add(1, std::memory_order_relaxed);
      e.where[n] = add_input(e, t.program.type_of(n), {{}, ir::parameter_role::captured, {}},
                             {handle(as_input[n]), 0, 0});
      continue;
    }
    auto const attributes = t.program.attributes_of(n);
    if (node.code == ir::op::parameter) {
      auto const index = static_cast<std::size_t>(attributes[0]);
      if (keep_all_parameters && index < t.arguments) {
        e.where[n] = e.program.append_typed(ir::op::parameter, t.program.type_of(n), attributes);
      } else {
        e.where[n] = add_input(e, t.program.type_of(n), t.program.parameters[index], t.inputs[index]);
      }
      continue;
    }
    operands.clear();
    for (ir::node_id o : t.program.operands_of(n)) operands.push_back(e.where[o]);
    auto const& source = t.program.lines[node.line];
    std::uint32_t const line = node.line ? e.program.add_line(source.file, source.line) : 0;
    if (node.code == ir::op::constant)
      e.where[n] = e.program.append_typed(ir::op::constant, t.program.type_of(n), attributes, line);
    else e.where[n] = e.program.append(node.code, operands, attributes, line);
  }
  return e;
}

void mark_ancestors(ir::program const& p, std::vector<char>& marked, std::vector<value*> const& stop_at) {
  for (ir::node_id n = static_cast<ir::node_id>(p.nodes.size()); n-- > 0;)
    if (marked[n] && (stop_at.empty() || !stop_at[n]))
      for (ir::node_id o : p.operands_of(n)) marked[o] = 1;
}

// A reference to a value that may be dying on another thread: fails once its count is 0.
bool retain(value* v) {
  std::uint32_t n = v->references.load(std::memory_order_relaxed);
  while (n != 0)
    if (v->references.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel)) return true;
  return false;
}

// The nodes with a value in `out`: those of `first` in that order, then the others.
std::vector<ir::node_id> in_order(std::vector<value*> const& out, std::span<value_base const* const> first) {
  std::vector<ir::node_id> order;
  std::unordered_map<value_base const*, std::size_t> rank;
  for (value_base const* v : first) rank.emplace(v, rank.size());
  for (ir::node_id n = 0; n < out.size(); ++n)
    if (out[n]) order.push_back(n);
  if (rank.empty()) return order;
  std::stable_sort(order.begin(), order.end(), [&](ir::node_id a, ir::node_id b) {
    auto const of_a = rank.find(out[a]), of_b = rank.find(out[b]);
    return (of_a == rank.end() ? rank.size() : of_a->second) <
           (of_b == rank.end() ? rank.size() : of_b->second);
  });
  return order;
}

// Renumbers the parameters from `fixed` on in the order in which the canonical program needs them, for the
// same reason.
void order_parameters(ir::program& p, std::vector<input>& inputs, std::size_t fixed) {
  std::vector<std::size_t> order(fixed);  // the old number of each new one
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<char> placed(inputs.size(), 0);
  for (ir::node const& node : p.nodes) {
    if (node.code != ir::op::parameter) continue;
    std::int64_t& index = p.attributes[node.first_attribute];
    auto const old = static_cast<std::size_t>(index);
    if (old < fixed) continue;
    if (!placed[old]) {
      placed[old] = 1;
      index = static_cast<std::int64_t>(order.size());
      order.push_back(old);
    } else {
      index = std::find(order.begin(), order.end(), old) - order.begin();
    }
  }
  for (std::size_t i = fixed; i < inputs.size(); ++i)
    if (!placed[i]) order.push_back(i);
  std::vector<input> moved;
  std::vector<ir::parameter> parameters;
  for (std::size_t const old : order) {
    moved.push_back(std::move(inputs[old]));
    parameters.push_back(std::move(p.parameters[old]));
  }
  inputs = std::move(moved);
  p.parameters = std::move(parameters);
}

}  // namespace

bool depart(tape& t, std::span<value* const> wanted, departure& d, std::span<value_base const* const> first) {
  std::vector<handle> dropped;  // handles die after the lock: a destructor takes it
  std::unique_lock hold(t.lock);
  std::size_t const count = t.program.nodes.size();
  std::vector<char> needed(count, 0);
  if (wanted.empty()) {
    for (ir::node_id n = 0; n < count; ++n) needed[n] = t.owners[n] != nullptr;
  } else {
    if (t.traced) t.read = true;  // also when another thread needs a value while the body runs
    bool any = false;
    for (value* v : wanted)
      if (v->node < count && t.owners[v->node] == v) needed[v->node] = 1, any = true;
    if (!any) return false;
  }
  mark_ancestors(t.program, needed, {});

  d.home = t.home;
  d.in = std::make_shared<flight>();
  std::vector<value*> out(count, nullptr);
  for (ir::node_id n = 0; n < count; ++n)
    if (needed[n] && t.owners[n] && retain(t.owners[n])) out[n] = t.owners[n];
  extraction e = extract(t, needed, {}, t.traced);
  std::size_t const fixed = t.traced ? t.arguments : 0;
  for (ir::node_id const n : in_order(out, first)) {
    d.outputs.emplace_back(out[n]);
    e.program.results.push_back({e.where[n], ir::result_role::returned, 0, {}});
    std::shared_ptr<tape> self;
    guarded g(*out[n]);
    self.swap(out[n]->on);
    out[n]->in = d.in;
    out[n]->state.store(value_state::running, std::memory_order_release);
  }
  if (d.outputs.empty() && !t.traced) {
    t.clear();
    return false;
  }

  // What is still named and did not leave stays, on top of what left as inputs.
  std::vector<char> rest(count, 0);
  bool any = false;
  for (ir::node_id n = 0; n < count; ++n)
    if (t.owners[n] && !out[n]) rest[n] = 1, any = true;
  if (any) {
    mark_ancestors(t.program, rest, out);
    extraction remaining = extract(t, rest, out, t.traced);
    std::vector<value*> owners(remaining.program.nodes.size(), nullptr);
    for (ir::node_id n = 0; n < count; ++n)
      if (rest[n] && t.owners[n] && !out[n]) {
        t.owners[n]->node = remaining.where[n];
        owners[remaining.where[n]] = t.owners[n];
      }
    for (input& i : t.inputs) dropped.push_back(std::move(i.array));
    t.clear();
    t.program = std::move(remaining.program);
    t.inputs = std::move(remaining.inputs);
    t.owners = std::move(owners);
  } else {
    std::vector<input> kept;
    std::vector<ir::parameter> parameters;
    for (std::size_t i = 0; i < t.inputs.size(); ++i) {
      if (t.traced && i < t.arguments) {
        kept.push_back(t.inputs[i]);
        parameters.push_back(t.program.parameters[i]);
      }
      dropped.push_back(std::move(t.inputs[i].array));
    }
    t.clear();
    t.inputs = std::move(kept);
    t.program.parameters = std::move(parameters);
  }
  for (std::size_t n = 0; n < t.program.nodes.size(); ++n) {
    ir::node const& node = t.program.nodes[n];
    if (node.code != ir::op::parameter) continue;
    input const& i =
        t.inputs[static_cast<std::size_t>(t.program.attributes_of(static_cast<ir::node_id>(n))[0])];
    if (i.array) t.known_values[i.array.get()] = static_cast<ir::node_id>(n);
    else t.known_scalars[i.scalar_id] = static_cast<ir::node_id>(n);
  }
  for (std::size_t i = 0; i < t.inputs.size(); ++i) {  // kept arguments without a node yet get one
    bool const known = t.inputs[i].array ? t.known_values.contains(t.inputs[i].array.get())
                                         : t.known_scalars.contains(t.inputs[i].scalar_id);
    if (known) continue;
    std::int64_t const index = static_cast<std::int64_t>(i);
    ir::node_id const n =
        t.program.append_typed(ir::op::parameter, t.program.parameters[i].type, {&index, 1});
    t.owners.push_back(nullptr);
    if (t.inputs[i].array) t.known_values[t.inputs[i].array.get()] = n;
    else t.known_scalars[t.inputs[i].scalar_id] = n;
  }
  hold.unlock();

  d.inputs = std::move(e.inputs);
  d.program = ir::canonical(e.program, ir::constants::apart);
  order_parameters(d.program, d.inputs, fixed);
  // Several values may be one node once duplicates are merged: it is computed and stored once.
  std::vector<ir::result> unique;
  for (ir::result const& r : d.program.results) {
    auto const same =
        std::find_if(unique.begin(), unique.end(), [&](ir::result const& u) { return u.value == r.value; });
    d.result_of_output.push_back(static_cast<std::uint32_t>(same - unique.begin()));
    if (same == unique.end()) unique.push_back(r);
  }
  for (std::size_t i = 0; i < unique.size(); ++i) unique[i].name = std::to_string(i);
  d.program.results = std::move(unique);
  return true;
}

arrival run(departure& d, tally& count, std::vector<std::string>& compile_reasons) {
  arrival a;
  try {
    d.home->check_alive();
    std::vector<void*> parameters(d.inputs.size(), nullptr), results;
    std::vector<std::uint64_t> scalars(d.inputs.size(), 0);
    for (std::size_t i = 0; i < d.inputs.size(); ++i) {
      if (d.inputs[i].array) {
        make_ready(d.inputs[i].array);  // a value that another thread is running
        parameters[i] = of(d.inputs[i].array).storage->data();
      } else {
        scalars[i] = d.inputs[i].bits;
      }
    }
    a.program = std::make_shared<ir::program const>(d.program);
    std::vector<std::shared_ptr<buffer>> memory;
    if (!d.program.results.empty()) {
      a.code = d.home->engine().prepare(d.program, count, compile_reasons);
      d.home->check_required(a.code);
      for (ir::result const& r : d.program.results) {
        memory.push_back(std::make_shared<buffer>(d.home, bytes_of(d.program.type_of(r.value))));
        results.push_back(memory.back()->data());
      }
      d.home->engine().run(a.code, parameters, results, scalars, count);
    }
    for (std::size_t i = 0; i < d.outputs.size(); ++i)
      complete(of(d.outputs[i]), memory[d.result_of_output[i]]);
  } catch (std::exception const& e) {
    for (handle const& h : d.outputs) lose(of(h), e.what());
    d.in->land();
    throw;
  }
  d.in->land();
  return a;
}

tape* current_trace() {
  auto const& t = mine().traces;
  return t.empty() ? nullptr : t.back().get();
}
void push_trace(std::shared_ptr<tape> t) { mine().traces.push_back(std::move(t)); }
std::shared_ptr<tape> pop_trace() {
  auto& t = mine().traces;
  std::shared_ptr<tape> top = std::move(t.back());
  t.pop_back();
  return top;
}

std::shared_ptr<tape> tape_for(std::shared_ptr<session> const& s) {
  thread_tapes& m = mine();
  if (!m.traces.empty()) return m.traces.back();
  for (auto const& t : m.ambient)
    if (t->home == s) return t;
  // A context that has gone is known here only by its tape: let go of those that nobody else has.
  std::erase_if(m.ambient, [](std::shared_ptr<tape> const& t) {
    return t.use_count() == 1 && t->home.use_count() == 1;
  });
  m.ambient.push_back(std::make_shared<tape>(s, false));
  return m.ambient.back();
}

std::string message(std::string_view operation, std::string_view why, location at) {
  std::string text =
      why.substr(0, operation.size()) == operation ? std::string(why) : fmt::format("{}: {}", operation, why);
  if (at.file && *at.file) text += fmt::format(" ({}:{})", at.file, at.line);
  return text;
}

editor::editor(std::span<handle const* const> operands, char const* operation, location at)
    : operation_(operation), at_(at) {
  std::shared_ptr<session> home;
  tape* const trace = current_trace();
  for (handle const* h : operands) {
    if (!*h) fail("an operand is an empty or moved-from array");
    value& v = of(*h);
    if (home && v.home != home) fail("operands live in different contexts");
    home = v.home;
  }
  if (!home) home = trace ? trace->home : current_session();
  if (trace && trace->home != home)
    fail("an operand lives in another context than the arguments of the traced call");
  home->check_alive();
  tape_ = tape_for(home);
  for (handle const* h : operands) {
    value& v = of(*h);
    if (v.state.load(std::memory_order_acquire) == value_state::ready) continue;
    bool elsewhere;
    {
      guarded g(v);
      elsewhere = v.state.load(std::memory_order_relaxed) != value_state::pending || v.on != tape_;
    }
    if (elsewhere) {
      try {
        make_ready(*h);
      } catch (error const& e) { fail(e.what()); }
    }
  }
  hold_ = std::unique_lock(tape_->lock);
  line_ = tape_->line(at);
}

void editor::fail(std::string const& why) const { throw argument_error(message(operation_, why, at_)); }

ir::node_id editor::in(handle const& h) {
  value& v = of(h);
  if (v.state.load(std::memory_order_acquire) == value_state::ready) return tape_->node_of_input(h);
  {
    guarded g(v);
    if (v.state.load(std::memory_order_relaxed) == value_state::pending && v.on == tape_) return v.node;
  }
  // Another thread flushed this tape in between: wait for it without the lock.
  hold_.unlock();
  make_ready(h);
  hold_.lock();
  return tape_->node_of_input(h);
}

ir::node_id editor::scalar(std::uint64_t id, dtype type, std::uint64_t bits) {
  return tape_->node_of_scalar(id, type, bits);
}

ir::node_id editor::constant(dtype type, std::uint64_t bits) {
  std::int64_t const word = static_cast<std::int64_t>(bits);
  ir::node_id const n = tape_->program.append_typed(ir::op::constant, {type, {}}, {&word, 1}, line_);
  tape_->owners.push_back(nullptr);
  return n;
}

ir::node_id editor::add(ir::op code, std::span<ir::node_id const> operands, ir::words attributes) {
  try {
    ir::node_id const n = tape_->program.append(code, operands, attributes, line_);
    tape_->owners.push_back(nullptr);
    return n;
  } catch (argument_error const& e) { fail(e.what()); }
}

ir::node_id editor::add(ir::op code, std::initializer_list<ir::node_id> operands,
                        std::initializer_list<std::int64_t> attributes) {
  return add(code, std::span(operands.begin(), operands.size()),
             ir::words(attributes.begin(), attributes.size()));
}

ir::node_id editor::cast(ir::node_id n, dtype to) {
  if (type_of(n).type == to) return n;
  return add(ir::op::cast, {n}, {static_cast<std::int64_t>(to)});
}

ir::node_id editor::reshape(ir::node_id n, shape const& to) {
  if (type_of(n).shape == to) return n;
  std::int64_t words[max_rank + 1] = {to.rank()};
  std::copy(to.begin(), to.end(), words + 1);
  ir::node_id const one[] = {n};
  return add(ir::op::reshape, one, {words, static_cast<std::size_t>(to.rank()) + 1});
}

ir::node_id editor::broadcast(ir::node_id n, shape const& to) {
  if (type_of(n).shape == to) return n;
  std::int64_t words[max_rank + 1] = {to.rank()};
  std::copy(to.begin(), to.end(), words + 1);
  ir::node_id const one[] = {n};
  return add(ir::op::broadcast_to, one, {words, static_cast<std::size_t>(to.rank()) + 1});
}

handle editor::finish(ir::node_id n) {
  tape& t = *tape_;
  ir::node const& node = t.program.nodes[n];
  if (value* owner = t.owners[n]) {  // an operation that changed nothing
    if (retain(owner)) return handle(owner);
  } else if (node.code == ir::op::parameter) {
    input const& i = t.inputs[static_cast<std::size_t>(t.program.attributes_of(n)[0])];
    if (i.array) return i.array;
    ir::node_id const same[] = {n};  // a run-time number as an array: a node of its own
    std::int64_t const none[] = {0};
    n = add(ir::op::reshape, same, {none, 1});
  }
  auto* v = new value;
  v->type = t.program.nodes[n].type;
  v->extents = t.program.nodes[n].shape;
  v->home = t.home;
  v->on = tape_;
  v->node = n;
  t.owners[n] = v;
  handle h(v);
  if (!t.traced && n >= cut_at_repeat) {
    ir::node const& first = *std::find_if(
        t.program.nodes.begin(), t.program.nodes.end(),
        [](ir::node const& x) { return x.code != ir::op::parameter && x.code != ir::op::constant; });
    bool const repeats =
        first.line == t.program.nodes[n].line && first.line != 0 && first.code == t.program.nodes[n].code;
    if (repeats || n >= cut_anyway) {
      // The operation just recorded begins the next piece, so it is flushed with this one only past the
      // second bound.
      hold_.unlock();
      std::vector<value*> none;
      departure d;
      tally count;
      std::vector<std::string> compiled;
      if (depart(t, none, d)) {
        run(d, count, compiled);
        std::vector<report::reason> reasons;
        for (auto& c : compiled) reasons.push_back({"compiled", std::move(c)});
        t.home->publish(count, std::move(reasons));
      }
    }
  }
  return h;
}

}  // namespace reprise::record
