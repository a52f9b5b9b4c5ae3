// cuda::context, use, require_device: handles to a session.
#include <reprise/context.h>

#include <cstdlib>
#include <mutex>

#include "api/devices.h"
#include "trace/tape.h"

namespace reprise::inline v1 {

namespace {

std::shared_ptr<detail::context_state> make_session(context_options const& o) {
  auto s = std::make_shared<detail::context_state>(api::make_engine(o), o.memory_cap);
  record::announce_session(s);
  return s;
}

// The default context made on demand has no handle of the user's: it lives until exit, and is released before
// static destructors, so that the disk cache gets what it has queued.
std::shared_ptr<detail::context_state>& on_demand() {
  static auto* s = new std::shared_ptr<detail::context_state>;
  return *s;
}
std::shared_ptr<detail::context_state> default_session() {
  static std::mutex lock;
  std::lock_guard hold(lock);
  auto& s = on_demand();
  if (!s) {
    s = make_session({});
    std::atexit([] { on_demand().reset(); });
  }
  return s;
}
[[maybe_unused]] bool const registered = (record::set_session_factory(default_session), true);

device device_of(detail::context_state const& s) {
  return s.engine().device() == "gpu" ? device::gpu : device::cpu;
}

}  // namespace

context::context() : context(context_options{}) {}
context::context(reprise::device d) : context(context_options{.device = d, .cache_directory = {}}) {}
context::context(context_options const& o) : state_(make_session(o)) {}

std::string context::description() const {
  return state_->engine().device() + ": " + state_->engine().description();
}
device context::device() const { return device_of(*state_); }
report context::report() const { return state_->last_report(); }
report context::totals() const { return state_->total_report(); }
void context::dump(std::string const& directory) const { state_->engine().dump(directory); }
void context::flush() const { state_->engine().flush(); }
void context::wait() const { state_->engine().wait(); }
void context::trim() const { state_->engine().trim(); }

namespace detail {

bool holds(context_state& c, handle const& x) {
  if (!x) throw_empty({});
  record::make_ready(x);
  record::value const& v = record::of(x);
  return v.home.get() == &c && c.engine().owns(v.storage->data());
}

}  // namespace detail

use::use(context const& c) : state_(c.state()), before_(record::this_threads_session()) {
  state_->check_alive();
  record::set_current_session(state_);
}
use::~use() { record::set_current_session(std::move(before_)); }

require_device::require_device(context const& c, device d) : state_(c.state()) {
  device const is = device_of(*state_);
  if (d != device::best && d != is)
    throw device_error(std::string("require_device: the context is on the ") +
                       (is == device::gpu ? "GPU" : "CPU") + ", not on the " +
                       (d == device::gpu ? "GPU" : "CPU"));
  state_->required.fetch_add(1);
}
require_device::~require_device() { state_->required.fetch_sub(1); }

}  // namespace reprise::inline v1
