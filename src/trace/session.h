// The state behind a context: its engine, what it counted, the signatures that it has seen. Shared by every
// array that lives in it.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <sys/types.h>

#include <reprise/context.h>

#include "trace/engine.h"
#include "trace/signature.h"

namespace reprise::inline v1::detail {

class context_state : public std::enable_shared_from_this<context_state> {
 public:
  context_state(std::unique_ptr<record::engine> e, std::uint64_t memory_cap);
  ~context_state();

  // Throws device_error when this context may not be used: forked, or lost.
  void check_alive() const;
  void lose(std::string reason);

  record::engine& engine() const { return *engine_; }
  record::signature_table& signatures() { return signatures_; }

  // One call's counts and reasons become the last report and part of the totals.
  void publish(record::tally const& t, std::vector<report::reason> reasons);
  void add_to_totals(record::tally const& t);
  report last_report() const;
  report total_report() const;

  std::atomic<int> required{0};  // require_device scopes alive
  // Throws forbidden_error where such a scope is open and the program would not run as intended.
  void check_required(record::prepared const& p) const;

 private:
  std::unique_ptr<record::engine> engine_;
  record::signature_table signatures_;
  pid_t owner_;
  std::atomic<bool> lost_{false};
  std::string lost_reason_;
  mutable std::mutex counts_;
  record::tally last_, total_;
  std::vector<report::reason> last_reasons_;
  std::deque<report::reason> reasons_;
};

}  // namespace reprise::inline v1::detail

namespace reprise::record {

using session = reprise::detail::context_state;

// The context of operations without arrays: the innermost `use` of this thread, else the process's default,
// which is the first context alive and is made on demand by the factory.
std::shared_ptr<session> current_session();
void set_current_session(std::shared_ptr<session> s);  // of this thread; null: none
std::shared_ptr<session> this_threads_session();
void announce_session(std::shared_ptr<session> const& s);           // becomes the default if none is alive
void for_each_session(std::function<void(session&)> const& visit);  // those announced and alive
void set_session_factory(std::function<std::shared_ptr<session>()> make);

}  // namespace reprise::record
