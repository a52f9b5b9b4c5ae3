#include "jit/cpu/parallel.h"

#include <fenv.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <string>

#include "reprise/error.h"

namespace reprise::cpu {
namespace {

// Long enough to bridge the gap between the steps of a program, short enough to cost an idle process nothing.
constexpr std::int64_t spin_nanoseconds = 50'000;

// More chunks than threads, where the grain allows it, so that the threads end at about the same time.
constexpr std::int64_t chunks_per_thread = 4;

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  static_assert(sizeof(word) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word, int count) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `done()` or for a bounded time; says whether it is done.
template <class Done>
bool spin(std::int64_t nanoseconds, Done done) noexcept {
  if (nanoseconds == 0) return done();
  auto const start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() - start < std::chrono::nanoseconds(nanoseconds));
  return false;
}

int usable_cores() noexcept {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

// First index of part `part` when [0, n) is cut into `parts`: the first n % parts are one longer.
std::int64_t cut(std::int64_t n, std::int64_t parts, std::int64_t part) noexcept {
  return n / parts * part + std::min(part, n % parts);
}

struct plain_loop {
  loop_body fn;
  void* context;
};

void run_plain(void* context, int, std::int64_t begin, std::int64_t end) {
  auto const& loop = *static_cast<plain_loop const*>(context);
  loop.fn(loop.context, begin, end);
}

}  // namespace

pool::pool(int threads) : threads_(threads), pid_(getpid()) {
  if (threads < 1 || threads > max_threads)
    throw argument_error("thread pool: the number of threads must be in [1, " + std::to_string(max_threads) +
                         "], not " + std::to_string(threads));
  // With fewer cores than threads, who spins takes the core of the one it waits for.
  spin_ns_ = usable_cores() >= threads ? spin_nanoseconds : 0;
  ranges_ = std::make_unique<home_range[]>(static_cast<std::size_t>(threads));
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  // The application's signals are for its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = 0;
  for (int slot = 1; slot < threads && failure == 0; ++slot) {
    worker& w = workers_.emplace_back(worker{this, slot, pthread_t{}});
    failure = pthread_create(&w.thread, nullptr, worker_main, &w);
    if (failure != 0) workers_.pop_back();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure != 0) {
    std::size_t const made = workers_.size();
    stop();
    throw device_error("thread pool: the system made only " + std::to_string(made) + " of " +
                       std::to_string(threads - 1) + " worker threads: " + std::strerror(failure));
  }
}

pool::~pool() { stop(); }

void pool::stop() noexcept {
  if (getpid() != pid_) return;  // a fork copies no threads: there is nobody to join
  stopping_.store(true);
  gate_.fetch_add(epoch_one);
  wake(gate_, INT_MAX);
  for (worker& w : workers_) pthread_join(w.thread, nullptr);
  workers_.clear();
}

void* pool::worker_main(void* argument) {
  worker const& w = *static_cast<worker const*>(argument);
  pthread_setname_np(pthread_self(), "reprise-cpu");
  fesetenv(FE_DFL_ENV);  // not the mode of the thread that happened to make the pool
  w.owner->work(w.slot);
  return nullptr;
}

void pool::work(int slot) noexcept {
  std::uint32_t seen = 0;
  while (true) {
    std::uint32_t gate = gate_.load();
    if (stopping_.load()) return;
    if ((gate & open_bit) != 0 && (gate & epoch_mask) != seen) {
      if (!gate_.compare_exchange_weak(gate, gate + inside_one)) continue;
      seen = gate & epoch_mask;
      share(slot);
      std::uint32_t const left = gate_.fetch_sub(inside_one) - inside_one;
      if ((left & caller_sleeps_bit) != 0 && (left & inside_mask) == 0) wake(gate_, INT_MAX);
      continue;
    }
    std::uint32_t const idle_epoch = gate & epoch_mask;
    if (spin(spin_ns_, [&] { return (gate_.load(std::memory_order_relaxed) & epoch_mask) != idle_epoch; }))
      continue;
    asleep_.fetch_add(1);
    gate = gate_.load();
    if ((gate & epoch_mask) == idle_epoch && !stopping_.load()) sleep_while(gate_, gate);
    asleep_.fetch_sub(1);
  }
}

void pool::share(int slot) noexcept {
  for (int i = 0; i < homes_; ++i) {
    int const home = slot + i < homes_ ? slot + i : (slot + i) % homes_;
    home_range& range = ranges_[static_cast<std::size_t>(home)];
    while (range.next.load(std::memory_order_relaxed) < range.end) {
      std::int64_t const chunk = range.next.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= range.end) break;
      body_(context_, slot, cut(n_, chunks_, chunk), cut(n_, chunks_, chunk + 1));
    }
  }
}

// Waits until every worker that entered has left; their writes are then visible here.
void pool::finish() noexcept {
  gate_.fetch_and(~open_bit);
  auto const empty = [this] { return (gate_.load() & inside_mask) == 0; };
  if (!spin(spin_ns_, empty)) {
    std::uint32_t gate = gate_.fetch_or(caller_sleeps_bit) | caller_sleeps_bit;
    while ((gate & inside_mask) != 0) {
      sleep_while(gate_, gate);
      gate = gate_.load();
    }
    gate_.fetch_and(~caller_sleeps_bit);
  }
}

void pool::run(std::int64_t n, std::int64_t grain, slotted_body fn, void* context) noexcept {
  if (n <= 0) return;
  std::int64_t const most = n / std::max<std::int64_t>(grain, 1);
  if (most < 2 || threads_ == 1 || getpid() != pid_ || busy_.exchange(true, std::memory_order_acquire)) {
    fn(context, 0, 0, n);
    return;
  }
  body_ = fn;
  context_ = context;
  n_ = n;
  homes_ = static_cast<int>(std::min<std::int64_t>(threads_, most));
  // A whole number of chunks a thread, or static halves become uneven.
  chunks_ = homes_ * std::min(chunks_per_thread, most / homes_);
  for (int home = 0; home < homes_; ++home) {
    home_range& range = ranges_[static_cast<std::size_t>(home)];
    range.next.store(cut(chunks_, homes_, home), std::memory_order_relaxed);
    range.end = cut(chunks_, homes_, home + 1);
  }
  std::uint32_t const gate = gate_.load(std::memory_order_relaxed);
  gate_.store(((gate & epoch_mask) + epoch_one) | open_bit);
  if (asleep_.load() != 0) wake(gate_, homes_ - 1);
  share(0);
  finish();
  busy_.store(false, std::memory_order_release);
}

void pool::run(std::int64_t n, std::int64_t grain, loop_body fn, void* context) noexcept {
  plain_loop loop{fn, context};
  run(n, grain, run_plain, &loop);
}

}  // namespace reprise::cpu
