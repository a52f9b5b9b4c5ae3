#include "trace/storage.h"

#include "trace/tape.h"

namespace reprise::record {

buffer::buffer(std::shared_ptr<session> s, std::size_t bytes)
    : session_(std::move(s)),
      data_(session_->engine().allocate(bytes ? bytes : 1)),
      bytes_(bytes),
      borrowed_(false) {}
buffer::buffer(std::shared_ptr<session> s, void* borrowed, std::size_t bytes)
    : session_(std::move(s)), data_(borrowed), bytes_(bytes), borrowed_(true) {}
buffer::~buffer() {
  if (!borrowed_) session_->engine().deallocate(data_, bytes_ ? bytes_ : 1);
}

std::size_t bytes_of(ir::tensor_type const& t) {
  return static_cast<std::size_t>(t.shape.size()) * static_cast<std::size_t>(size_of(t.type));
}

handle make_ready(std::shared_ptr<session> s, ir::tensor_type const& t, std::shared_ptr<buffer> memory) {
  auto* v = new value;
  v->type = t.type;
  v->extents = t.shape;
  v->home = std::move(s);
  v->storage = std::move(memory);
  v->state.store(value_state::ready, std::memory_order_release);
  return handle(v);
}

void complete(value& v, std::shared_ptr<buffer> memory) {
  std::shared_ptr<flight> in;
  guarded g(v);
  v.storage = std::move(memory);
  in.swap(v.in);
  v.state.store(value_state::ready, std::memory_order_release);
}

void lose(value& v, std::string reason) {
  std::shared_ptr<flight> in;
  std::shared_ptr<tape> on;
  guarded g(v);
  v.reason = std::move(reason);
  in.swap(v.in);
  on.swap(v.on);
  v.state.store(value_state::lost, std::memory_order_release);
}

void make_ready(handle const& h) {
  value& v = of(h);
  for (;;) {
    std::shared_ptr<tape> on;
    std::shared_ptr<flight> in;
    {
      if (v.state.load(std::memory_order_acquire) == value_state::ready) return;
      guarded g(v);
      switch (v.state.load(std::memory_order_relaxed)) {
        case value_state::ready: return;
        case value_state::lost: throw error("this array has no value: " + v.reason);
        case value_state::pending: on = v.on; break;
        case value_state::running: in = v.in; break;
      }
    }
    if (in) {
      in->wait();
      continue;
    }
    on->home->check_alive();
    value* const wanted[] = {&v};
    departure d;
    if (!depart(*on, wanted, d)) continue;  // another thread was faster
    tally count;
    std::vector<std::string> compiled;
    run(d, count, compiled);
    std::vector<report::reason> reasons;
    for (auto& c : compiled) reasons.push_back({"compiled", std::move(c)});
    on->home->publish(count, std::move(reasons));
  }
}

}  // namespace reprise::record

namespace reprise::inline v1::detail {

void destroy(value_base* base) noexcept {
  auto* v = static_cast<record::value*>(base);
  std::shared_ptr<record::tape> on;
  {
    record::guarded g(*v);
    on = v->on;
  }
  if (on) {
    std::lock_guard hold(on->lock);
    // Between the two locks the node may have left the tape: then on->owners no longer names this value.
    if (v->node < on->owners.size() && on->owners[v->node] == v) on->owners[v->node] = nullptr;
  }
  delete v;
}

}  // namespace reprise::inline v1::detail
