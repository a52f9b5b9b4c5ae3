#include "trace/session.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace reprise::inline v1 {

namespace detail {

context_state::context_state(std::unique_ptr<record::engine> e, std::uint64_t memory_cap)
    : engine_(std::move(e)), signatures_(memory_cap / 16), owner_(getpid()) {}
context_state::~context_state() = default;

void context_state::check_alive() const {
  if (owner_ != getpid())
    throw device_error("this context was made before a fork: a child process may not use it; make a new one");
  if (lost_.load(std::memory_order_acquire)) throw device_error("the context is lost: " + lost_reason_);
}

void context_state::check_required(record::prepared const& p) const {
  if (required.load(std::memory_order_acquire) == 0) return;
  if (std::string const& why = engine_->fallback(p); !why.empty())
    throw forbidden_error("require_device: the program would not run as intended: " + why);
}

void context_state::lose(std::string reason) {
  std::lock_guard hold(counts_);
  if (lost_) return;
  lost_reason_ = std::move(reason);
  lost_.store(true, std::memory_order_release);
}

void context_state::publish(record::tally const& t, std::vector<report::reason> reasons) {
  std::lock_guard hold(counts_);
  last_ = t;
  total_ += t;
  for (auto const& r : reasons) {
    reasons_.push_back(r);
    if (reasons_.size() > 1000) reasons_.pop_front();
  }
  last_reasons_ = std::move(reasons);
}

void context_state::add_to_totals(record::tally const& t) {
  std::lock_guard hold(counts_);
  total_ += t;
  last_.bytes_to_host += t.bytes_to_host;  // a read belongs to the call that made what it reads
  last_.bytes_to_device += t.bytes_to_device;
}

namespace {

report filled(record::tally const& t, std::string device) {
  report r;
  r.device = std::move(device);
#define X(name) r.name = t.name;
  REPRISE_COUNTERS(X)
#undef X
  return r;
}

}  // namespace

report context_state::last_report() const {
  std::lock_guard hold(counts_);
  report r = filled(last_, engine_->device());
  r.reasons = last_reasons_;
  return r;
}

report context_state::total_report() const {
  std::lock_guard hold(counts_);
  report r = filled(total_, engine_->device());
  r.reasons.assign(reasons_.begin(), reasons_.end());
  r.device_allocations = engine_->allocations();
  return r;
}

}  // namespace detail

std::string report::json() const {
  nlohmann::ordered_json j;
  j["device"] = device;
#define X(name) j[#name] = name;
  REPRISE_COUNTERS(X)
#undef X
  j["reasons"] = nlohmann::ordered_json::array();
  for (auto const& r : reasons) j["reasons"].push_back({{"what", r.what}, {"why", r.why}});
  return j.dump(2);
}

}  // namespace reprise::inline v1

namespace reprise::record {

namespace {

// The contexts of the process. Weak: the default is the first one alive, not one that is kept alive.
struct defaults {
  std::mutex lock;
  std::vector<std::weak_ptr<session>> alive;  // the first that still is, is the default
  std::function<std::shared_ptr<session>()> make;
};
defaults& process_defaults() {
  static auto& d = *new defaults;  // never destroyed: callables and contexts say goodbye at exit in any order
  return d;
}
std::shared_ptr<session>& thread_slot() {
  thread_local std::shared_ptr<session> s;
  return s;
}

}  // namespace

std::shared_ptr<session> this_threads_session() { return thread_slot(); }
void set_current_session(std::shared_ptr<session> s) { thread_slot() = std::move(s); }

void announce_session(std::shared_ptr<session> const& s) {
  auto& d = process_defaults();
  std::lock_guard hold(d.lock);
  std::erase_if(d.alive, [](std::weak_ptr<session> const& w) { return w.expired(); });
  d.alive.push_back(s);
}

void for_each_session(std::function<void(session&)> const& visit) {
  auto& d = process_defaults();
  std::vector<std::shared_ptr<session>> all;
  {
    std::lock_guard hold(d.lock);
    for (auto const& w : d.alive)
      if (auto s = w.lock()) all.push_back(std::move(s));
  }
  for (auto const& s : all) visit(*s);
}

void set_session_factory(std::function<std::shared_ptr<session>()> make) {
  auto& d = process_defaults();
  std::lock_guard hold(d.lock);
  d.make = std::move(make);
}

std::shared_ptr<session> current_session() {
  if (auto const& s = thread_slot()) return s;
  auto& d = process_defaults();
  {
    std::lock_guard hold(d.lock);
    for (auto const& w : d.alive)
      if (auto s = w.lock()) return s;
  }
  std::function<std::shared_ptr<session>()> make;
  {
    std::lock_guard hold(d.lock);
    make = d.make;
  }
  if (!make) throw device_error("no context is alive and none can be made");
  return make();  // announces itself
}

}  // namespace reprise::record
