// Several processes and one folder: killed writers, races, locks, forks.
#include <sys/file.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "cache/support.h"

namespace reprise::jit {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

// Trap 27: whenever a writer is killed, what it left is its whole entry or none.
TEST(CacheProcesses, KilledWritersLeaveNoWrongEntry) {
  temporary_folder const folder;
  constexpr int keys = 6;
  std::vector<cache_entry> expected;
  for (int k = 0; k < keys; ++k) expected.push_back(entry_of(100000 + 1000 * k, k));
  std::mt19937 random(1);
  int found = 0, missed = 0;
  for (int round = 0; round < 200; ++round) {
    pid_t const child = start_child([&] {
      disk_cache cache(in(folder.path()));
      for (int k = 0; k < keys; ++k)
        cache.store(std::to_string(k), expected[k], cache.lock(std::to_string(k), 0ms));
      cache.flush();
      pause();
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    kill(child, SIGKILL);
    ASSERT_EQ(finish(child), 1000 + SIGKILL);
    disk_cache cache(in(folder.path()));
    for (int k = 0; k < keys; ++k) {
      auto const key = std::to_string(k);
      auto const result = cache.load(key);
      if (result.entry) {
        ++found;
        ASSERT_TRUE(*result.entry == expected[k]);
        std::filesystem::remove(entry_path(folder.path(), key));
      } else {
        ++missed;
        ASSERT_EQ(result.reason, miss::absent) << result.detail;
      }
      ASSERT_TRUE(cache.lock(key, 0ms).held()) << "a killed owner's lock is free";
    }
  }
  EXPECT_GT(found, 0);
  EXPECT_GT(missed, 0);
  RecordProperty("whole_entries", found);
  RecordProperty("left_temporaries", static_cast<int>(files_with(folder.path(), ".tmp").size()));
}

// Trap 27, the race: one wins, all read the winner's.
TEST(CacheProcesses, OneOfEightWritersWins) {
  temporary_folder const folder;
  starting_gun gun;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i)
    children.push_back(start_child([&] {
      gun.wait();
      disk_cache cache(in(folder / "cache"));
      cache.store("key", entry_of(50000, i));
      cache.flush();
      auto const counts = cache.counts();
      if (counts.stores + counts.already_there != 1) return 50;
      auto const found = cache.load("key");
      if (!found.entry) return 51;
      bool const mine = *found.entry == entry_of(50000, i);
      return mine == (counts.stores == 1) ? static_cast<int>(counts.stores) : 52;
    }));
  gun.fire();
  int winners = 0;
  for (auto const child : children) {
    int const code = finish(child);
    EXPECT_LE(code, 1);
    winners += code == 1;
  }
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(files_with(folder / "cache", ".entry").size(), 1u);
  EXPECT_TRUE(files_with(folder / "cache", ".tmp").empty());
}

// Trap 33: eight cold processes, one compile.
TEST(CacheProcesses, ColdProcessesCompileOnce) {
  temporary_folder const folder;
  auto const expected = entry_of(30000, 9);
  starting_gun gun;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i)
    children.push_back(start_child([&] {
      gun.wait();
      disk_cache cache(in(folder / "cache"));
      if (auto const found = cache.load("key"); found.entry) return *found.entry == expected ? 0 : 50;
      auto lock = cache.lock("key");
      if (!lock.held()) return 51;
      if (auto const found = cache.load("key"); found.entry) return *found.entry == expected ? 0 : 52;
      int const compiles =
          open((folder / "compiles").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      if (write(compiles, "x", 1) != 1) return 53;
      close(compiles);
      std::this_thread::sleep_for(60ms);
      cache.store("key", expected, std::move(lock));
      return 0;
    }));
  gun.fire();
  for (auto const child : children) EXPECT_EQ(finish(child), 0);
  EXPECT_EQ(std::filesystem::file_size(folder / "compiles"), 1u);
  EXPECT_TRUE(files_with(folder / "cache", ".lock").empty());
}

TEST(CacheProcesses, ThreadsOfOneProcessExcludeEachOtherToo) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  std::atomic<int> inside{0}, together{0}, unheld{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        auto const lock = cache.lock("key");
        unheld += !lock.held();
        together += ++inside > 1;
        std::this_thread::yield();
        --inside;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(together, 0);
  EXPECT_EQ(unheld, 0);
}

// Holds the lock of "key" until it is killed; returns when it has it.
pid_t start_holder(std::filesystem::path const& folder) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  pid_t const child = start_child([&] {
    disk_cache cache(in(folder));
    auto const lock = cache.lock("key");
    if (!lock.held() || write(ends[1], "x", 1) != 1) return 1;
    pause();
    return 0;
  });
  char byte = 0;
  bool const ready = read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return ready ? child : -1;
}

// Trap 27, the stale lock: the kernel frees what a killed process held.
TEST(CacheProcesses, KilledOwnerFreesItsLock) {
  temporary_folder const folder;
  pid_t const holder = start_holder(folder.path());
  ASSERT_GT(holder, 0);
  disk_cache cache(in(folder.path()));
  EXPECT_FALSE(cache.lock("key", 0ms).held());
  std::thread killer([&] {
    std::this_thread::sleep_for(50ms);
    kill(holder, SIGKILL);
  });
  auto const start = clock::now();
  auto const lock = cache.lock("key");
  EXPECT_TRUE(lock.held()) << lock.why_not();
  EXPECT_LT(clock::now() - start, 5s);
  killer.join();
  EXPECT_EQ(finish(holder), 1000 + SIGKILL);
}

// Trap 33: only who asks for that lock waits, and not for ever.
TEST(CacheProcesses, WaitingEndsAndOthersDoNotWait) {
  temporary_folder const folder;
  {
    disk_cache cache(in(folder.path()));
    cache.store("key", entry_of(100, 1));
  }
  pid_t const holder = start_holder(folder.path());
  ASSERT_GT(holder, 0);
  memo log;
  disk_cache cache(in(folder.path()), log.sink());
  auto start = clock::now();
  EXPECT_TRUE(cache.load("key").entry);
  EXPECT_TRUE(cache.lock("other").held());
  cache.store("third", entry_of(100, 1));
  cache.flush();
  EXPECT_LT(clock::now() - start, 2s);
  start = clock::now();
  auto const lock = cache.lock("key", 150ms);
  EXPECT_FALSE(lock.held());
  EXPECT_NE(lock.why_not().find("150 ms"), std::string::npos) << lock.why_not();
  EXPECT_GE(clock::now() - start, 150ms);
  EXPECT_EQ(log.count("no lock"), 1u);
  kill(holder, SIGKILL);
  finish(holder);
}

// A child forked while its parent holds a lock shares the open file: neither its life nor its death may
// matter.
TEST(CacheProcesses, ForkedChildNeitherKeepsNorFreesTheLock) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  auto lock = std::make_unique<disk_cache::key_lock>(cache.lock("key"));
  ASSERT_TRUE(lock->held());
  EXPECT_EQ(in_child([&] {
              lock.reset();
              return 0;
            }),
            0);
  EXPECT_FALSE(cache.lock("key", 0ms).held()) << "freed by a child";
  pid_t const child = start_child([] {
    pause();
    return 0;
  });
  // Who waits already has that very file open.
  disk_cache::key_lock waited;
  std::thread waiter([&] { waited = cache.lock("key", 5s); });
  std::this_thread::sleep_for(50ms);
  lock->release();
  waiter.join();
  EXPECT_TRUE(waited.held()) << "kept by a child: " << waited.why_not();
  waited.release();
  EXPECT_TRUE(cache.lock("key", 0ms).held());
  kill(child, SIGKILL);
  finish(child);
}

TEST(CacheProcesses, ForkedChildHasNoCacheAndDoesNotHang) {
  for (bool const idle : {false, true}) {
#ifdef __SANITIZE_ADDRESS__
    if (!idle) continue;  // the address sanitizer's allocator may be locked by a busy thread at the fork
#endif
    temporary_folder const folder;
    auto cache = std::make_unique<disk_cache>(in(folder.path()));
    for (int i = 0; i < 30; ++i) cache->store(std::to_string(i), entry_of(20000, i));
    if (idle) {  // the worker waits for work when the fork takes it away
      cache->flush();
      std::this_thread::sleep_for(30ms);
    }
    int const code = in_child([&] {
      alarm(5);
      if (cache->load("0").reason != miss::disabled) return 1;
      if (cache->lock("0").held()) return 2;
      if (cache->why_off().find("fork") == std::string::npos) return 3;
      cache->store("child", entry_of(10, 1));
      cache->flush();
      cache.reset();
      return 0;
    });
    EXPECT_EQ(code, 0) << idle;
    cache->flush();
    EXPECT_EQ(cache->counts().stores, 30u);
    EXPECT_EQ(cache->load("child").reason, miss::absent);
  }
}

TEST(CacheProcesses, ForkedChildMayOpenItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no thread in a child of a process with threads";
#endif
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  cache.store("parents", entry_of(20000, 1));
#ifdef __SANITIZE_ADDRESS__
  cache.flush();  // the address sanitizer's allocator may be locked by a busy thread when the process forks
#endif
  EXPECT_EQ(in_child([&] {
              disk_cache own(in(folder.path()));
              own.store("own", entry_of(10, 2));
              own.flush();
              return own.load("own").entry ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(cache.load("own").entry);
}

// Two processes at their cap evict what is too much, not twice as much.
TEST(CacheProcesses, ProcessesShareOneCap) {
  temporary_folder const folder;
  auto const size = encode_entry("0-00", entry_of(4000, 0)).size();
  std::vector<pid_t> children;
  starting_gun gun;
  for (int p = 0; p < 4; ++p)
    children.push_back(start_child([&] {
      gun.wait();
      disk_cache cache(in(folder.path(), 20 * size + size / 2));
      for (int i = 10; i < 60; ++i)
        cache.store(std::to_string(p) + "-" + std::to_string(i), entry_of(4000, i));
      cache.flush();
      return cache.counts().store_failures == 0 ? 0 : 1;
    }));
  gun.fire();
  for (auto const child : children) EXPECT_EQ(finish(child), 0);
  auto const left = files_with(folder.path(), ".entry").size();
  EXPECT_GE(left, 17u);
  // Each process may be one unseen sixteenth of the cap behind.
  EXPECT_LE(left, 20u + 4u * 2u);
}

}  // namespace
}  // namespace reprise::jit
