// The thread pool: every index once, whoever calls, however deep, and in a forked child.
#include "jit/cpu/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "reprise/error.h"

namespace reprise::cpu {
namespace {

struct counts {
  explicit counts(std::int64_t n, std::int64_t grain = 1) : grain(grain), seen(static_cast<std::size_t>(n)) {}
  std::int64_t grain;
  std::vector<std::atomic<int>> seen;
  std::atomic<int> short_chunks{0};

  static void body(void* self, std::int64_t begin, std::int64_t end) {
    counts& c = *static_cast<counts*>(self);
    if (end - begin < std::min<std::int64_t>(c.grain, std::ssize(c.seen))) ++c.short_chunks;
    for (std::int64_t i = begin; i < end; ++i) ++c.seen[static_cast<std::size_t>(i)];
  }
  bool each_is(int expected) const {
    for (auto const& s : seen)
      if (s.load() != expected) return false;
    return true;
  }
};

TEST(pool, runs_every_index_once_in_chunks_of_at_least_the_grain) {
  for (int threads : {1, 2, 3, 4, 7}) {
    pool p(threads);
    EXPECT_EQ(p.threads(), threads);
    for (std::int64_t n : {0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, 4097}) {
      for (std::int64_t grain : {0, 1, 2, 3, 8, 64, 1000, 5000}) {
        counts c(n, grain);
        p.run(n, grain, counts::body, &c);
        EXPECT_TRUE(c.each_is(1)) << threads << " threads, n " << n << ", grain " << grain;
        EXPECT_EQ(c.short_chunks, 0) << threads << " threads, n " << n << ", grain " << grain;
      }
    }
  }
}

TEST(pool, refuses_a_senseless_number_of_threads) {
  EXPECT_THROW(pool(0), argument_error);
  EXPECT_THROW(pool(-1), argument_error);
  EXPECT_THROW(pool(pool::max_threads + 1), argument_error);
}

struct slots_of {
  std::vector<std::atomic<int>> inside = std::vector<std::atomic<int>>(8);
  std::atomic<int> collisions{0}, out_of_range{0};
  int threads = 0;

  static void body(void* self, int slot, std::int64_t begin, std::int64_t end) {
    slots_of& s = *static_cast<slots_of*>(self);
    if (slot < 0 || slot >= s.threads) return void(++s.out_of_range);
    if (s.inside[static_cast<std::size_t>(slot)].fetch_add(1) != 0) ++s.collisions;
    for (std::int64_t i = begin; i < end; ++i) std::this_thread::yield();
    s.inside[static_cast<std::size_t>(slot)].fetch_sub(1);
  }
};

TEST(pool, two_bodies_of_a_loop_never_have_one_slot) {
  pool p(4);
  slots_of s;
  s.threads = p.threads();
  for (int i = 0; i < 200; ++i) p.run(64, 1, slots_of::body, &s);
  EXPECT_EQ(s.collisions, 0);
  EXPECT_EQ(s.out_of_range, 0);
}

// Two bodies that wait for each other end only if two threads are in the loop.
TEST(pool, workers_take_part) {
  pool p(2);
  for (int round = 0; round < 20; ++round) {
    if (round % 5 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // long enough to fall asleep
    std::atomic<int> arrived{0};
    p.run(
        2, 1,
        [](void* context, std::int64_t, std::int64_t) {
          auto& count = *static_cast<std::atomic<int>*>(context);
          ++count;
          while (count.load() < 2) std::this_thread::yield();
        },
        &arrived);
    EXPECT_EQ(arrived, 2);
  }
}

// The caller does not wait for workers that have not begun, and takes over what a stuck worker has not.
TEST(pool, a_stuck_worker_delays_only_its_own_chunk) {
  pool p(2);
  struct shared {
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> by_caller{0}, total{0};
    std::atomic<bool> worker_stuck{false};
  } s;
  p.run(
      8, 1,
      [](void* context, std::int64_t begin, std::int64_t end) {
        shared& s = *static_cast<shared*>(context);
        if (std::this_thread::get_id() == s.caller) {
          while (!s.worker_stuck.load()) std::this_thread::yield();
          s.by_caller += static_cast<int>(end - begin);
        } else {
          s.worker_stuck = true;
          while (s.by_caller.load() < 7) std::this_thread::yield();
        }
        s.total += static_cast<int>(end - begin);
      },
      &s);
  EXPECT_EQ(s.by_caller, 7);
  EXPECT_EQ(s.total, 8);
}

struct nested {
  pool* p;
  counts* c;
  static void outer(void* self, std::int64_t begin, std::int64_t end) {
    nested& n = *static_cast<nested*>(self);
    for (std::int64_t i = begin; i < end; ++i) n.p->run(std::ssize(n.c->seen), 1, counts::body, n.c);
  }
};

TEST(pool, nested_loops_run) {
  pool p(3), other(2);
  counts c(100);
  nested same{&p, &c}, into_other{&other, &c};
  p.run(50, 1, nested::outer, &same);
  EXPECT_TRUE(c.each_is(50));
  p.run(50, 1, nested::outer, &into_other);
  EXPECT_TRUE(c.each_is(100));
}

TEST(pool, eight_application_threads_share_it) {
  pool p(3);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        counts c(100 + 13 * t + i);
        p.run(std::ssize(c.seen), 1 + i % 9, counts::body, &c);
        if (!c.each_is(1)) ++wrong;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(pool, results_of_workers_are_visible_to_the_caller) {
  pool p(2);
  std::vector<std::int64_t> plain(4096);  // no atomics: a race here is ThreadSanitizer's to find
  for (int i = 0; i < 200; ++i) {
    p.run(
        std::ssize(plain), 64,
        [](void* context, std::int64_t begin, std::int64_t end) {
          auto* values = static_cast<std::int64_t*>(context);
          for (std::int64_t j = begin; j < end; ++j) values[j] += j;
        },
        plain.data());
  }
  for (std::int64_t j = 0; j < std::ssize(plain); ++j) ASSERT_EQ(plain[static_cast<std::size_t>(j)], 200 * j);
}

TEST(pool, is_made_and_destroyed_at_any_time) {
  for (int i = 0; i < 50; ++i) {
    pool p(1 + i % 4);
    if (i % 3 == 0) continue;
    counts c(64);
    p.run(64, 1, counts::body, &c);
    EXPECT_TRUE(c.each_is(1));
  }
}

#if !defined(__SANITIZE_THREAD__)  // ThreadSanitizer does not follow a fork of a process with threads
TEST(pool, a_forked_child_runs_inline_and_may_destroy_its_copy) {
  auto p = std::make_unique<pool>(3);
  counts warm(64);
  p->run(64, 1, counts::body, &warm);

  // Fork in the middle of loops of another thread, so that the child inherits a busy pool.
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    counts c(64);
    while (!stop.load()) p->run(64, 1, counts::body, &c);
  });
  for (int i = 0; i < 10; ++i) {
    pid_t const child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      counts c(64);
      p->run(64, 1, counts::body, &c);
      bool const right = c.each_is(1);
      p.reset();
      pool own(2);
      own.run(64, 1, counts::body, &c);
      _exit(right && c.each_is(2) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
  stop = true;
  busy.join();
}
#endif

}  // namespace
}  // namespace reprise::cpu
