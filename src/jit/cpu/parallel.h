// The thread pool of the CPU side: a loop over [0, n) is cut into chunks that the calling thread and the
// pool's workers claim. Each thread has a home range of chunks, the same one for the same loop every time, so
// what it wrote last is still in its cache; who is done early takes chunks from the ranges of others, so a
// core that is busy elsewhere delays nothing but the chunk it is in. The caller never waits for a worker that
// has not begun: correctness needs no worker.
//
// One pool is made for the process, shared by its contexts and passed along; there is no global one.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::cpu {

// Writes the results of [begin, end). Must not throw.
using loop_body = void (*)(void* context, std::int64_t begin, std::int64_t end);

// The same, told which of the loop's threads it is on, in [0, pool::threads()): two bodies of one loop that
// run at the same time have different slots, so a loop can give each its own scratch memory.
using slotted_body = void (*)(void* context, int slot, std::int64_t begin, std::int64_t end);

class pool {
 public:
  // `threads` counts the caller: pool(2) has one worker. Throws argument_error unless it is in [1,
  // max_threads], and device_error when the system gives no thread.
  explicit pool(int threads);
  ~pool();
  pool(pool const&) = delete;
  pool& operator=(pool const&) = delete;

  int threads() const noexcept { return threads_; }

  // Calls fn over [0, n), each index exactly once, in chunks of at least `grain` indices, and returns when
  // all are done. Runs inline on the calling thread, as one chunk, when n < 2 * grain, when there are no
  // workers, when the pool is busy with another loop (so nested loops and loops of other threads never wait),
  // and in a forked child.
  void run(std::int64_t n, std::int64_t grain, loop_body fn, void* context) noexcept;
  void run(std::int64_t n, std::int64_t grain, slotted_body fn, void* context) noexcept;

  static constexpr int max_threads = 512;

 private:
  // The chunks [next, end) of one thread that nobody has claimed.
  struct alignas(64) home_range {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  static void* worker_main(void* argument);
  void work(int slot) noexcept;
  void share(int slot) noexcept;
  void finish() noexcept;
  void stop() noexcept;

  // All that a worker needs to know, in one word that it can sleep on: how many workers are inside the loop,
  // whether they may still enter, whether the caller sleeps until they have left, and a count of loops. The
  // fields below are written only while no worker is inside and none may enter. Nothing breaks when the count
  // wraps: a worker that mistakes a new loop for an old one stays asleep, and the caller does its share.
  static constexpr std::uint32_t inside_one = 1, inside_mask = 0x3ff;
  static constexpr std::uint32_t open_bit = 0x400, caller_sleeps_bit = 0x800, epoch_one = 0x1000;
  static constexpr std::uint32_t epoch_mask = ~(epoch_one - 1);
  alignas(64) std::atomic<std::uint32_t> gate_{0};
  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<bool> stopping_{false};

  alignas(64) std::atomic<bool> busy_{false};
  slotted_body body_ = nullptr;
  void* context_ = nullptr;
  std::int64_t n_ = 0, chunks_ = 0;
  int homes_ = 0;

  struct worker {
    pool* owner;
    int slot;
    pthread_t thread;
  };
  int threads_;
  std::int64_t spin_ns_;
  pid_t pid_;
  std::unique_ptr<home_range[]> ranges_;
  std::vector<worker> workers_;
};

}  // namespace reprise::cpu
