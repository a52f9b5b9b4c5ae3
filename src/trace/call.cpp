// One call of a traced callable: pack the arguments into a signature, replay the entry that it finds, or
// record the body and publish one. What makes a function's body run on every call is decided here, in one
// place: `replayable()`.
#include "trace/call.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace reprise::record {

namespace {

// The last program of each callable, for traced::json(). Bounded by the number of callables in the process.
struct last_programs {
  std::mutex lock;
  std::unordered_map<std::string, std::shared_ptr<ir::program const>> by_key;
};
last_programs& programs() {
  static auto& p = *new last_programs;  // never destroyed: callables say goodbye at exit in any order
  return p;
}
std::string callable_bytes(void const* key, std::uint64_t target) {
  std::string bytes(sizeof key + sizeof target, '\0');
  std::memcpy(bytes.data(), &key, sizeof key);
  std::memcpy(bytes.data() + sizeof key, &target, sizeof target);
  return bytes;
}

}  // namespace

void call_state::put(void const* p, std::size_t n) { signature.append(static_cast<char const*>(p), n); }

// Which context: that of the arrays given, else the current one. Borrowed memory then belongs to it.
void call_state::settle() {
  if (home) return;
  for (leaf const& l : leaves) {
    if (!l.array || is_borrowed(l.array)) continue;
    auto const& theirs = of(l.array).home;
    if (home && home != theirs) throw argument_error("trace: the arguments live in different contexts");
    home = theirs;
  }
  if (!home) home = current_session();
  home->check_alive();
  for (handle const& b : borrowed) {
    value& v = of(b);
    if (v.home == home && v.storage) continue;
    v.home = home;
    std::size_t const n = bytes_of(v.tensor());
    void* const host = const_cast<void*>(v.host_address);
    if (home->engine().host_visible()) {
      v.storage = std::make_shared<buffer>(home, host, n);
    } else {
      v.storage = std::make_shared<buffer>(home, n);
      if (n) home->engine().to_device(v.storage->data(), host, n);
      count.bytes_to_device += n;
    }
    v.state.store(value_state::ready, std::memory_order_release);
  }
}

bool call_state::is_borrowed(handle const& h) const {
  return std::find(borrowed.begin(), borrowed.end(), h) != borrowed.end();
}

void call_state::own(value& v) {
  if (!v.storage || !v.storage->borrowed()) return;
  auto mine = std::make_shared<buffer>(v.home, v.storage->bytes());
  if (v.storage->bytes()) std::memcpy(mine->data(), v.storage->data(), v.storage->bytes());
  v.storage = std::move(mine);
}

// A borrowed buffer must not outlive the call: whoever still names the value gets memory of its own.
void call_state::return_borrowed() {
  // What this call itself holds is nobody's interest any more: other references are handles that got away.
  leaves.clear();
  after.clear();
  outputs.clear();
  recording.reset();
  for (handle& b : borrowed) {
    value& v = of(b);
    if (v.references.load(std::memory_order_acquire) > 1) own(v);
  }
  borrowed.clear();
}

handle call_state::fresh_output(ir::tensor_type const& t) {
  return make_ready(home, t, std::make_shared<buffer>(home, bytes_of(t)));
}

bool call_state::replay_entry() {
  signature_entry const& e = *entry;
  if (!e.outputs.empty()) home->check_required(e.program);
  parameter_pointers.assign(e.parameters.size(), nullptr);
  scalar_words.assign(e.parameters.size(), 0);
  for (std::size_t i = 0; i < e.parameters.size(); ++i) {
    parameter_source const& s = e.parameters[i];
    if (s.scalar) scalar_words[i] = scalars[s.leaf].bits;
    else parameter_pointers[i] = of(leaves[s.leaf].array).storage->data();
  }
  result_pointers.clear();
  for (ir::tensor_type const& t : e.outputs) {
    outputs.push_back(fresh_output(t));
    result_pointers.push_back(of(outputs.back()).storage->data());
  }
  if (!e.outputs.empty())
    home->engine().run(e.program, parameter_pointers, result_pointers, scalar_words, count);
  return true;
}

handle call_state::value_of(outcome const& o) {
  switch (o.kind) {
    case outcome_kind::output: return outputs[o.index];
    case outcome_kind::leaf: return leaves[o.index].array;
    case outcome_kind::unchanged:
    case outcome_kind::empty: return handle();
  }
  return handle();
}

// Why the recording just made may not stand for the next call of the same signature; empty if it may.
std::string call_state::reason_to_record_again(tape const& t, bool result_copies,
                                               std::size_t outliving) const {
  if (!stateless) return "the callable has state";
  if (t.read) return "its body reads a value";
  if (t.captured) return "its body reaches what is not an argument";
  if (outliving) return "an array made in its body outlives it";
  if (after.size() != leaves.size() || after_bytes != before_bytes || after_scalars != scalar_ids())
    return "its body changes an argument that is not an array";
  if (!result_copies) return "its result cannot be copied";
  return {};
}

std::vector<std::uint64_t> call_state::scalar_ids() const {
  std::vector<std::uint64_t> ids;
  for (scalar_leaf const& n : scalars) ids.push_back(n.id);
  return ids;
}

std::vector<value_base const*> call_state::values_in_order() const {
  std::vector<value_base const*> all;
  for (handle const* r : results) all.push_back(r->get());
  for (handle const& h : after) all.push_back(h.get());
  return all;
}

void call_state::start_recording() {
  call_state& s = *this;
  auto t = std::make_shared<tape>(s.home, true);
  std::lock_guard hold(t->lock);
  for (std::size_t i = 0; i < s.leaves.size(); ++i) {
    handle const& h = s.leaves[i].array;
    if (!h || t->known_values.contains(h.get())) continue;
    t->node_of_input(h);
    t->program.parameters.back().role = ir::parameter_role::argument;
    t->program.parameters.back().name = s.leaf_names[i];
    s.sources.push_back({false, static_cast<std::uint32_t>(i)});
  }
  for (std::size_t i = 0; i < s.scalars.size(); ++i) {
    if (t->known_scalars.contains(s.scalars[i].id)) continue;
    t->node_of_scalar(s.scalars[i].id, s.scalars[i].type, s.scalars[i].bits);
    t->program.parameters.back().name = s.scalar_names[i];
    s.sources.push_back({true, static_cast<std::uint32_t>(i)});
  }
  t->arguments = t->inputs.size();
  t->captured = false;
  s.recording = t;
  push_trace(std::move(t));
}

// The arrays and numbers that a body reached without being given them, and where it first used each.
std::string reached(ir::program const& p) {
  std::string text;
  for (ir::node_id n = 0; n < p.nodes.size(); ++n) {
    if (p.nodes[n].code != ir::op::parameter) continue;
    ir::parameter const& q = p.parameters[static_cast<std::size_t>(p.attributes_of(n)[0])];
    if (!q.name.empty()) continue;  // arguments have names
    text += text.empty() ? ": " : ", ";
    text += q.role == ir::parameter_role::lifted ? "a number" : ir::str(q.type);
    for (ir::node_id user = n + 1; user < p.nodes.size(); ++user) {
      auto const operands = p.operands_of(user);
      if (std::find(operands.begin(), operands.end(), n) == operands.end()) continue;
      ir::source_line const& l = p.lines[p.nodes[user].line];
      text += fmt::format(" in {}", ir::info(p.nodes[user].code).name);
      if (!l.file.empty()) text += fmt::format(" ({}:{})", l.file, l.line);
      break;
    }
  }
  return text;
}

// Where two recordings part, for people; empty when they are the same program.
std::string first_difference(ir::program const& a, ir::program const& b) {
  if (ir::key_bytes(a) == ir::key_bytes(b)) return {};
  auto const place = [](ir::program const& p, ir::node_id n) {
    ir::source_line const& l = p.lines[p.nodes[n].line];
    return l.file.empty() ? std::string() : fmt::format(" ({}:{})", l.file, l.line);
  };
  auto const text = [](ir::program const& p, ir::node_id n) {
    std::string t = fmt::format("{} {}", ir::info(p.nodes[n].code).name, ir::str(p.type_of(n)));
    if (p.nodes[n].code == ir::op::constant)
      t += fmt::format(" of bits {:#x}", static_cast<std::uint64_t>(p.attributes_of(n)[0]));
    return t;
  };
  std::size_t const common = std::min(a.nodes.size(), b.nodes.size());
  for (ir::node_id n = 0; n < common; ++n) {
    auto const oa = a.operands_of(n), ob = b.operands_of(n);
    auto const wa = a.attributes_of(n), wb = b.attributes_of(n);
    bool const same = a.nodes[n].code == b.nodes[n].code && a.type_of(n) == b.type_of(n) &&
                      std::equal(oa.begin(), oa.end(), ob.begin(), ob.end()) &&
                      std::equal(wa.begin(), wa.end(), wb.begin(), wb.end());
    if (!same) return fmt::format("{}{}, then {}{}", text(a, n), place(a, n), text(b, n), place(b, n));
  }
  return fmt::format("{} operations, then {}", a.nodes.size(), b.nodes.size());
}

}  // namespace reprise::record

namespace reprise::inline v1::detail {

using namespace record;

struct call::state : record::call_state {};

call::call(void const* key, std::uint64_t target, void const* types, bool stateless)
    : state_(nullptr), nested_(is_recording()) {
  state_ = new state;
  state_->stateless = stateless;
  state_->callable = callable_bytes(key, target);
  state_->put(state_->callable.data(), state_->callable.size());
  state_->put(&types, sizeof types);
}

call::~call() {
  if (!nested_) state_->return_borrowed();
  delete state_;
}

void call::add_bytes(void const* p, std::size_t n) {
  state_->put(p, n);
  state_->before_bytes.append(static_cast<char const*>(p), n);
}

void call::add_array(handle const& h, bool rebindable) {
  call_state& s = *state_;
  if (h && !s.is_borrowed(h)) make_ready(h);
  std::uint32_t same = static_cast<std::uint32_t>(s.leaves.size());
  for (std::uint32_t i = 0; i < s.leaves.size(); ++i)
    if (s.leaves[i].array == h) {
      same = i;
      break;
    }
  s.leaves.push_back({h, rebindable, same});
  // Kind, alias class, dtype, rank and extents: what two calls must share to be the same call.
  std::uint8_t const head[4] = {static_cast<std::uint8_t>(h ? 1 : 2),
                                static_cast<std::uint8_t>(h ? h.get()->type : dtype::f32),
                                static_cast<std::uint8_t>(h ? h.get()->extents.rank() : 0), rebindable};
  s.put(head, sizeof head);
  s.put(&same, sizeof same);
  if (h)
    s.put(h.get()->extents.begin(), sizeof(std::int64_t) * static_cast<std::size_t>(h.get()->extents.rank()));
}

void call::add_scalar(std::uint64_t id, dtype type, std::uint64_t bits) {
  call_state& s = *state_;
  std::uint32_t same = static_cast<std::uint32_t>(s.scalars.size());
  for (std::uint32_t i = 0; i < s.scalars.size(); ++i)
    if (s.scalars[i].id == id) {
      same = i;
      break;
    }
  s.scalars.push_back({id, type, bits});
  std::uint8_t const head[2] = {3, static_cast<std::uint8_t>(type)};
  s.put(head, sizeof head);
  s.put(&same, sizeof same);
}

void call::name_array(std::string name) { state_->leaf_names.push_back(std::move(name)); }
void call::name_scalar(std::string name) { state_->scalar_names.push_back(std::move(name)); }

handle call::borrow(dtype type, void const* data, std::int64_t size) {
  if (nested_) return from_host(type, data, shape{size}, {});
  for (handle const& b : state_->borrowed) {
    value const& v = of(b);
    if (v.host_address == data && v.type == type && v.extents.size() == size) return b;
  }
  auto* v = new value;
  v->type = type;
  v->extents = shape{size};
  v->host_address = data;
  handle h(v);
  state_->borrowed.push_back(h);
  return h;
}

void* call::shared_object(void const* address, void const* tag, void* mine) {
  for (auto const& o : state_->objects)
    if (o.address == address && o.tag == tag) return o.object;
  state_->objects.push_back({address, tag, mine});
  return mine;
}

bool call::replay() {
  call_state& s = *state_;
  s.settle();
  if (!s.stateless) return false;
  s.hash = hash64(s.signature);
  s.entry = s.home->signatures().find(s.signature, s.hash);
  if (!s.entry) return false;
  s.count.signature_hits = 1;
  s.count.replayed = 1;
  s.replay_entry();
  s.home->publish(s.count, {});
  return true;
}

void const* call::prototype() const { return state_->entry->prototype.get(); }

handle call::take_result() { return state_->value_of(state_->entry->results[state_->next_result++]); }

bool call::take_rebound(handle& h) {
  call_state& s = *state_;
  outcome const& o = s.entry->rebound[s.next_leaf++];
  if (o.kind == outcome_kind::unchanged) return false;
  h = s.value_of(o);
  return true;
}

void call::begin() {
  state_->settle();
  state_->start_recording();
}

void call::begin_check() {
  call_state& s = *state_;
  s.after.clear();
  s.after_bytes.clear();
  s.after_scalars.clear();
  s.results.clear();
  s.first_result_bytes = std::move(s.result_bytes);
  s.result_bytes.clear();
  s.sources.clear();
  s.start_recording();
}

void call::end_check() {
  call_state& s = *state_;
  std::shared_ptr<tape> const t = pop_trace();
  s.recording.reset();
  departure d;
  depart(*t, {}, d, s.values_in_order());
  std::string difference = first_difference(*s.first_recording, d.program);
  if (difference.empty() && s.result_bytes != s.first_result_bytes) difference = "a number in its result";
  for (handle const& h : d.outputs)
    lose(of(h), "it belongs to a recording that was made for comparison only");
  if (d.in) d.in->land();
  if (!difference.empty())
    throw error("trace: the body recorded something else when it ran a second time on the same arguments: " +
                difference +
                ". It depends on something that a trace cannot see (a static or global variable, a clock, a "
                "counter): pass that as an argument");
  s.home->signatures().publish(s.signature, s.hash, std::move(s.unchecked));
}

void call::abort() noexcept {
  call_state& s = *state_;
  if (!s.recording) return;
  if (current_trace() == s.recording.get()) pop_trace();
  std::vector<handle> dead;
  {
    std::lock_guard hold(s.recording->lock);
    for (value* v : s.recording->owners)
      if (v) {
        std::uint32_t n = v->references.load(std::memory_order_relaxed);
        while (n != 0 && !v->references.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel)) {}
        if (n != 0) dead.emplace_back(v);
      }
    s.recording->clear();
  }
  for (handle const& h : dead)
    if (of(h).state.load() == value_state::pending)
      lose(of(h), "the traced function that made it threw an exception");
  s.recording.reset();
}

void call::after_bytes(void const* p, std::size_t n) {
  state_->after_bytes.append(static_cast<char const*>(p), n);
}
void call::after_array(handle const& h) { state_->after.push_back(h); }
void call::after_scalar(std::uint64_t id) { state_->after_scalars.push_back(id); }
void call::add_result_bytes(void const* p, std::size_t n) {
  state_->result_bytes.append(static_cast<char const*>(p), n);
}

void call::own(handle const& h) {
  if (h && !nested_) state_->own(of(h));
}

void call::add_result(handle& h) { state_->results.push_back(&h); }

bool call::finish(std::shared_ptr<void const> prototype, bool replayable, bool check) {
  call_state& s = *state_;
  std::shared_ptr<tape> t = pop_trace();
  t->readable.clear();
  s.count.recorded = 1;
  std::vector<report::reason> reasons;
  reasons.push_back({"recorded", s.stateless ? "first call with this signature" : "the callable has state"});

  departure d;
  arrival a;
  std::vector<std::string> compiled;
  depart(*t, {}, d, s.values_in_order());
  if (check) s.first_recording = std::make_shared<ir::program const>(d.program);
  // What living values are neither results nor arguments: they outlived the body.
  std::size_t outliving = 0;
  for (handle const& o : d.outputs) {
    bool const known = std::any_of(s.results.begin(), s.results.end(), [&](handle* r) { return *r == o; }) ||
                       std::find(s.after.begin(), s.after.end(), o) != s.after.end();
    if (known) continue;
    ++outliving;
    d.program.results[d.result_of_output[static_cast<std::size_t>(&o - d.outputs.data())]].role =
        ir::result_role::handle;
  }
  for (std::size_t i = 0; i < s.after.size() && s.after.size() == s.leaves.size(); ++i) {
    if (s.after[i] == s.leaves[i].array) continue;
    for (std::size_t k = 0; k < d.outputs.size(); ++k) {
      if (!(d.outputs[k] == s.after[i])) continue;
      ir::result& r = d.program.results[d.result_of_output[k]];
      auto const parameter = std::find_if(s.sources.begin(), s.sources.end(), [&](parameter_source const& p) {
        return !p.scalar && p.leaf == s.leaves[i].same;
      });
      bool const taken =
          std::any_of(d.program.results.begin(), d.program.results.end(), [&](ir::result const& o) {
            return o.role == ir::result_role::in_out &&
                   o.parameter == static_cast<std::uint32_t>(parameter - s.sources.begin());
          });
      if (parameter != s.sources.end() && !taken && r.role == ir::result_role::returned &&
          s.leaves[i].array && of(s.leaves[i].array).tensor() == d.program.type_of(r.value)) {
        r.role = ir::result_role::in_out;
        r.parameter = static_cast<std::uint32_t>(parameter - s.sources.begin());
      }
    }
  }
  a = run(d, s.count, compiled);
  for (auto& c : compiled) reasons.push_back({"compiled", std::move(c)});
  if (a.program) {
    auto& p = programs();
    std::lock_guard hold(p.lock);
    p.by_key[s.callable] = a.program;
  }

  // A result, or what an argument is now, that is neither an argument nor made here was reached as well.
  auto const is_known = [&](handle const& h) {
    return !h || std::find(d.outputs.begin(), d.outputs.end(), h) != d.outputs.end() ||
           std::any_of(s.leaves.begin(), s.leaves.end(), [&](leaf const& l) { return l.array == h; });
  };
  for (handle* r : s.results) t->captured = t->captured || !is_known(*r);
  for (handle const& h : s.after) t->captured = t->captured || !is_known(h);
  std::string again = s.reason_to_record_again(*t, replayable, outliving);
  if (t->captured && !again.empty()) again += reached(d.program);
  if (again.empty()) {
    auto e = std::make_shared<signature_entry>();
    e->program = a.code;
    e->source = a.program;
    e->parameters = s.sources;
    e->prototype = std::move(prototype);
    for (ir::result const& r : d.program.results) e->outputs.push_back(d.program.type_of(r.value));
    auto const outcome_of = [&](handle const& h) -> outcome {
      if (!h) return {outcome_kind::empty, 0};
      for (std::size_t k = 0; k < d.outputs.size(); ++k)
        if (d.outputs[k] == h) return {outcome_kind::output, d.result_of_output[k]};
      for (std::uint32_t i = 0; i < s.leaves.size(); ++i)
        if (s.leaves[i].array == h) return {outcome_kind::leaf, i};
      throw argument_error("trace: a result is neither an argument nor made in the body");
    };
    for (handle* r : s.results) e->results.push_back(outcome_of(*r));
    for (std::size_t i = 0; i < s.leaves.size(); ++i)
      e->rebound.push_back(s.after[i] == s.leaves[i].array ? outcome{} : outcome_of(s.after[i]));
    if (check) s.unchecked = std::move(e);
    else s.home->signatures().publish(s.signature, s.hash, std::move(e));
  } else if (s.stateless) {
    reasons[0].why += "; it will be recorded on each call: " + again;
  }
  if (s.stateless || s.count.kernels_compiled)
    s.home->engine().note_recording(
        fmt::format("recorded {} operations: {}", d.program.nodes.size(), reasons[0].why));
  s.recording.reset();
  s.home->publish(s.count, std::move(reasons));
  return s.unchecked != nullptr;
}

std::string traced_json(void const* key, std::uint64_t target) {
  auto& p = programs();
  std::shared_ptr<ir::program const> found;
  {
    std::lock_guard hold(p.lock);
    if (auto const i = p.by_key.find(callable_bytes(key, target)); i != p.by_key.end()) found = i->second;
  }
  if (!found) throw argument_error("json: this callable has not been called yet");
  return ir::to_json(*found);
}

void forget_callable(void const* key) noexcept {
  try {
    auto& p = programs();
    std::lock_guard hold(p.lock);
    std::string const prefix(reinterpret_cast<char const*>(&key), sizeof key);
    std::erase_if(p.by_key,
                  [&](auto const& entry) { return entry.first.compare(0, prefix.size(), prefix) == 0; });
    for_each_session([&](session& s) { s.signatures().forget_callable(key); });
  } catch (...) {
    // At worst an entry stays that nothing can find again.
  }
}

}  // namespace reprise::inline v1::detail
