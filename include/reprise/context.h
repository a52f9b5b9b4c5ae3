// cuda::context: where arrays live and programs run. A shared handle to one device's memory, caches and
// counters; the first one alive is the process's default. `use` makes one current on a thread;
// `require_device` turns silent fallbacks into exceptions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <reprise/array.h>

namespace reprise::inline v1 {

enum class device : std::uint8_t { best, cpu, gpu };

namespace detail {
class context_state;
REPRISE_API bool holds(context_state& c, handle const& x);
}  // namespace detail

// What the last call did, or what all calls did (totals). Counts come from where the work is done.
struct REPRISE_API report {
  std::string device;
  std::uint64_t recorded = 0;  // bodies run and recorded
  std::uint64_t replayed = 0;  // programs run that were compiled or loaded before
  std::uint64_t signature_hits = 0, content_hits = 0, disk_hits = 0, lifted = 0;
  std::uint64_t kernels_compiled = 0, nvrtc_calls = 0, llvm_compiles = 0, heuristic_queries = 0,
                graphs_instantiated = 0, graph_nodes = 0, graph_launches = 0, kernel_launches = 0,
                library_calls = 0, bytes_to_device = 0, bytes_to_host = 0, device_allocations = 0,
                fallbacks = 0;
  struct reason {
    std::string what;  // "recorded", "compiled"
    std::string why;
  };
  std::vector<reason> reasons;  // of every recording and compilation; totals keep the last 1000
  std::string json() const;
};

// Settings of a context. What is given here wins over the environment; docs/environment.md lists its
// variables.
struct context_options {
  reprise::device device = reprise::device::best;
  int threads = 0;  // of a CPU; 0: REPRISE_THREADS, else all cores
  // Empty: $REPRISE_CACHE_DIR, else $XDG_CACHE_HOME/reprise, else ~/.cache/reprise. A folder given here that
  // may not be used (another user's, writable by others) throws argument_error; of the others it is said in
  // the log.
  std::string cache_directory;
  bool disk_cache = true;
  std::uint64_t memory_cap = 1ull << 30;  // bytes of programs and executables kept in memory
};

class REPRISE_API context {
 public:
  context();                            // the best device here: a GPU, else this CPU
  explicit context(reprise::device d);  // throws device_error when there is no such device
  explicit context(context_options const& o);
  explicit context(std::shared_ptr<detail::context_state> s) : state_(std::move(s)) {}

  std::string description() const;  // "cpu: x86-64 ..., 2 threads"
  reprise::device device() const;
  // Is the value of x in this context's memory? Finishes the work on x and asks the device.
  template <element T>
  bool holds(array<T> const& x) const {
    return detail::holds(*state_, x.reference());
  }
  reprise::report report() const;  // of the last call on this thread's behalf
  reprise::report totals() const;
  void dump(std::string const& directory) const;  // every program compiled so far: program.json, stages, key
  void flush() const;                             // waits until the disk cache has everything
  void wait() const;                              // waits until all work is done
  void trim() const;                              // gives unused memory back

  // The block form: this work, now, in this context.
  template <class F, class... A>
  auto run(F&& f, A&&... a) const;

  std::shared_ptr<detail::context_state> const& state() const { return state_; }

 private:
  std::shared_ptr<detail::context_state> state_;
};

// Makes a context current on this thread for a scope. Arrays given as arguments outrank it.
class REPRISE_API use {
 public:
  [[nodiscard]] explicit use(context const& c);
  ~use();
  use(use const&) = delete;
  use& operator=(use const&) = delete;

 private:
  std::shared_ptr<detail::context_state> state_, before_;
};

// In its scope nothing of this context may run elsewhere or fall back, on any thread: it throws
// forbidden_error instead.
class REPRISE_API require_device {
 public:
  require_device() = delete;
  [[nodiscard]] require_device(context const& c,
                               reprise::device d);  // throws device_error when c is another device
  ~require_device();
  require_device(require_device const&) = delete;
  require_device& operator=(require_device const&) = delete;

 private:
  std::shared_ptr<detail::context_state> state_;
};

}  // namespace reprise::inline v1
