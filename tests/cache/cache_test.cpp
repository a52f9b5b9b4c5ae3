// One process with its cache: round trips, reasons, recency and the cap, options.
#include <pthread.h>

#include <optional>
#include <thread>

#include "cache/support.h"
#include "reprise/error.h"

namespace reprise::jit {
namespace {

using namespace testing;

TEST(DiskCache, RoundTripAcrossCaches) {
  temporary_folder const folder;
  auto const entry = entry_of(5000, 1);
  {
    disk_cache cache(in(folder / "a/b/c"));
    EXPECT_EQ(cache.load("key").reason, miss::absent);
    cache.store("key", entry);
    cache.flush();
    auto const found = cache.load("key");
    ASSERT_TRUE(found.entry) << found.detail;
    EXPECT_EQ(*found.entry, entry);
    auto const counts = cache.counts();
    EXPECT_EQ(counts.loads, 2u);
    EXPECT_EQ(counts.hits, 1u);
    EXPECT_EQ(counts.misses_of(miss::absent), 1u);
    EXPECT_EQ(counts.stores, 1u);
  }
  disk_cache again(in(folder / "a/b/c"));
  auto const found = again.load("key");
  ASSERT_TRUE(found.entry);
  EXPECT_EQ(*found.entry, entry);
  struct stat file{};
  ASSERT_EQ(stat(entry_path(folder / "a/b/c", "key").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777, 0600u);
  for (auto const* made : {"a", "a/b", "a/b/c"}) {
    ASSERT_EQ(stat((folder / made).c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777, 0700u) << made;
  }
}

TEST(DiskCache, DestructionFlushes) {
  temporary_folder const folder;
  {
    disk_cache cache(in(folder.path()));
    for (int i = 0; i < 20; ++i) cache.store(std::to_string(i), entry_of(1000, i));
  }
  EXPECT_EQ(files_with(folder.path(), ".entry").size(), 20u);
}

// Trap 30: nothing about a key's bytes makes a good entry bad.
TEST(DiskCache, AnyBytesAreAKey) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  std::vector<std::string> keys{"",       std::string("\0", 1), std::string("\0\0", 2),
                                "a/../b", "\xff\xfe",           std::string(1 << 20, 'k')};
  for (std::size_t i = 0; i < keys.size(); ++i) cache.store(keys[i], entry_of(10, i));
  cache.flush();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto const found = cache.load(keys[i]);
    ASSERT_TRUE(found.entry) << i << found.detail;
    EXPECT_EQ(*found.entry, entry_of(10, i));
  }
}

// Trap 26: whatever differs in the key, however little, is not found.
TEST(DiskCache, AKeyThatDiffersInOneByteIsAbsent) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  std::string const key = "program;llvm 19.1.7;avx512f;driver 570.1;math strict";
  cache.store(key, entry_of(10, 1));
  cache.flush();
  for (std::size_t i = 0; i < key.size(); ++i) {
    auto other = key;
    other[i] = static_cast<char>(other[i] + 1);
    EXPECT_EQ(cache.load(other).reason, miss::absent);
  }
}

TEST(DiskCache, DamagedEntryIsRemovedAndReplaced) {
  temporary_folder const folder;
  memo log;
  disk_cache cache(in(folder.path()), log.sink());
  auto const path = entry_path(folder.path(), "key");
  for (int round = 0; round < 2; ++round) {
    cache.store("key", entry_of(1000, round));
    cache.flush();
    auto bytes = read_file(path);
    bytes[bytes.size() / 2] ^= std::byte{1};
    write_file(path, bytes);
    EXPECT_EQ(cache.load("key").reason, miss::corrupt);
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(cache.load("key").reason, miss::absent);
  }
  EXPECT_EQ(log.count("corrupt"), 2u) << log.all();
  EXPECT_EQ(cache.counts().misses_of(miss::corrupt), 2u);
}

// Trap 27, as a file system without order could leave it: any prefix of an entry under its name.
TEST(DiskCache, HalfWrittenEntryIsAMissAndRemoved) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  auto const path = entry_path(folder.path(), "key");
  auto const bytes = encode_entry("key", entry_of(100, 1));
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    write_file(path, std::span(bytes).first(size));
    EXPECT_EQ(cache.load("key").reason, miss::corrupt) << size;
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST(DiskCache, AnotherKeysEntryOrVersionIsRemoved) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  auto const path = entry_path(folder.path(), "key");
  auto bytes = encode_entry("another key of the same name", entry_of(100, 1));
  write_file(path, bytes);
  EXPECT_EQ(cache.load("key").reason, miss::wrong_key);
  EXPECT_FALSE(std::filesystem::exists(path));
  bytes = encode_entry("key", entry_of(100, 1));
  bytes[8] = std::byte{77};
  sign_entry(bytes);
  write_file(path, bytes);
  EXPECT_EQ(cache.load("key").reason, miss::wrong_version);
  EXPECT_FALSE(std::filesystem::exists(path));
}

// I/O errors never remove: here there are no descriptors left to open the entry with.
TEST(DiskCache, UnreadableEntryStays) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  cache.store("key", entry_of(100, 1));
  cache.flush();
  std::vector<int> taken;
  for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
  auto const found = cache.load("key");
  for (int const fd : taken) close(fd);
  EXPECT_EQ(found.reason, miss::unreadable) << found.detail;
  EXPECT_TRUE(cache.load("key").entry);
}

TEST(DiskCache, FirstStoreOfAKeyWins) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  cache.store("key", entry_of(100, 1));
  cache.store("key", entry_of(100, 2));
  cache.flush();
  auto const found = cache.load("key");
  ASSERT_TRUE(found.entry);
  EXPECT_EQ(*found.entry, entry_of(100, 1));
  EXPECT_EQ(cache.counts().already_there, 1u);
}

// Trap 29: the same work again leaves nothing more behind, not even locks.
TEST(DiskCache, RepeatedWorkDoesNotGrowTheFolder) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  for (int i = 0; i < 100; ++i) cache.store("key", entry_of(500, 1), cache.lock("key"));
  cache.flush();
  std::size_t files = 0;
  for (auto const& item : std::filesystem::directory_iterator(folder.path())) files += item.is_regular_file();
  EXPECT_EQ(files, 1u);
}

TEST(DiskCache, LeastRecentlyUsedGoesFirst) {
  temporary_folder const folder;
  auto const size = encode_entry("0", entry_of(4000, 0)).size();
  disk_cache cache(in(folder.path(), 4 * size + 100));
  for (int i = 0; i < 4; ++i) cache.store(std::to_string(i), entry_of(4000, i));
  cache.flush();
  for (int i = 0; i < 4; ++i)
    set_age(entry_path(folder.path(), std::to_string(i)), std::chrono::seconds(1000 - i));
  EXPECT_TRUE(cache.load("0").entry);  // the oldest is now the youngest
  cache.store("4", entry_of(4000, 4));
  cache.flush();
  auto const there = [&](char const* key) { return std::filesystem::exists(entry_path(folder.path(), key)); };
  EXPECT_TRUE(there("0"));
  EXPECT_FALSE(there("1"));
  EXPECT_TRUE(there("2"));
  EXPECT_TRUE(there("3"));
  EXPECT_TRUE(there("4"));
  EXPECT_EQ(cache.counts().evictions, 1u);
}

// Trap 29: within the cap always, and no more gone than needed.
TEST(DiskCache, EvictsOnlyDownToTheCap) {
  temporary_folder const folder;
  auto const size = encode_entry("00", entry_of(4000, 0)).size();
  std::uint64_t const cap = 10 * size + size / 2;
  disk_cache cache(in(folder.path(), cap));
  for (int i = 10; i < 50; ++i) {
    cache.store(std::to_string(i), entry_of(4000, i));
    cache.flush();
    auto const left = files_with(folder.path(), ".entry").size();
    EXPECT_EQ(left, std::min<std::size_t>(10, i - 9));
    EXPECT_TRUE(cache.load(std::to_string(i)).entry) << "the newest goes last";
  }
  EXPECT_EQ(cache.counts().evictions, 30u);
}

TEST(DiskCache, EntryBeyondTheCapIsNotStored) {
  temporary_folder const folder;
  memo log;
  disk_cache cache(in(folder.path(), 5000), log.sink());
  cache.store("small", entry_of(1000, 1));
  cache.store("large", entry_of(6000, 2));
  cache.flush();
  EXPECT_TRUE(cache.load("small").entry);
  EXPECT_EQ(cache.load("large").reason, miss::absent);
  EXPECT_EQ(cache.counts().store_failures, 1u);
  EXPECT_EQ(log.count("cap"), 1u) << log.all();
}

// Trap 27: what killed writers left goes after an hour; what others use or own stays.
TEST(DiskCache, SweepsStaleTemporariesAndLocks) {
  temporary_folder const folder;
  std::string const stem = key_name("key");
  auto const age = stale_after + std::chrono::minutes(5);
  auto const make = [&](std::string const& name, std::chrono::seconds old) {
    write_file(folder / name, text("x"));
    set_age(folder / name, old);
  };
  make(stem + ".0123456789abcdef.tmp", age);
  make(stem + ".0123456789abcdee.tmp", std::chrono::minutes(50));
  make(key_name("free") + ".lock", age);
  make("notes.tmp", age);
  make("0123.lock", age);
  make(stem, age);
  make(stem + ".entry.bak", age);

  disk_cache cache(in(folder.path(), 2000));
  auto const held = cache.lock("held");
  ASSERT_TRUE(held.held()) << held.why_not();
  set_age(folder / lock_file_name(key_name("held")), age);
  cache.store("another", entry_of(100, 1));
  cache.flush();

  auto const there = [&](std::string const& name) { return std::filesystem::exists(folder / name); };
  EXPECT_FALSE(there(stem + ".0123456789abcdef.tmp"));
  EXPECT_TRUE(there(stem + ".0123456789abcdee.tmp"));
  EXPECT_FALSE(there(key_name("free") + ".lock"));
  EXPECT_TRUE(there(lock_file_name(key_name("held"))));
  EXPECT_TRUE(there("notes.tmp"));
  EXPECT_TRUE(there("0123.lock"));
  EXPECT_TRUE(there(stem));
  EXPECT_TRUE(there(stem + ".entry.bak"));
  EXPECT_EQ(cache.counts().swept, 2u);
}

// Trap 31: on a thread with 128 KiB of stack.
TEST(DiskCache, LargeEntryNeedsNoStack) {
  temporary_folder const folder;
  struct task {
    disk_cache cache;
    cache_entry entry;
    lookup found;
  } work{disk_cache(in(folder.path())), {{{"objects", noise(1 << 20, 5)}, {"plan", {}}}}, {}};
  auto& large = work.entry.sections[1].second;
  large.resize(64 << 20);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * i >> 12 & 0xff);

  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 128 << 10), 0);
  pthread_t thread;
  auto const body = [](void* argument) -> void* {
    auto& w = *static_cast<task*>(argument);
    w.cache.store("key", w.entry);
    w.cache.flush();
    w.found = w.cache.load("key");
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  ASSERT_TRUE(work.found.entry) << work.found.detail;
  EXPECT_TRUE(*work.found.entry == work.entry);
}

// Trap 32: a store that fails leaves nothing, a compile that throws frees its lock, and the cache goes on.
TEST(DiskCache, FailuresLeaveNoHalfEntry) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  try {
    auto const lock = cache.lock("key");
    ASSERT_TRUE(lock.held());
    throw compile_error("no such instruction");
  } catch (compile_error const&) {}
  auto lock = cache.lock("key", std::chrono::milliseconds(0));
  ASSERT_TRUE(lock.held()) << lock.why_not();
  cache.store("key", {{{"twice", {}}, {"twice", {}}}}, std::move(lock));
  cache.flush();
  EXPECT_EQ(cache.counts().store_failures, 1u);
  EXPECT_EQ(cache.load("key").reason, miss::absent);
  EXPECT_TRUE(cache.lock("key", std::chrono::milliseconds(0)).held());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  cache.store("key", entry_of(10, 1));
  cache.flush();
  EXPECT_TRUE(cache.load("key").entry);
}

TEST(DiskCache, ManyThreads) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        int const k = (i * 7 + t) % 20;
        auto const found = cache.load(std::to_string(k));
        if (found.entry && *found.entry != entry_of(300, k)) ++wrong;
        if (!found.entry && found.reason != miss::absent) ++wrong;
        cache.store(std::to_string(k), entry_of(300, k));
        if (i % 10 == 0) cache.flush();
      }
    });
  for (auto& thread : threads) thread.join();
  cache.flush();
  EXPECT_EQ(wrong, 0);
  auto const counts = cache.counts();
  EXPECT_EQ(counts.stores, 20u);
  EXPECT_EQ(counts.stores + counts.already_there, 8u * 40u);
}

TEST(DiskCache, ALogThatThrowsChangesNothing) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()), [](std::string_view) { throw std::runtime_error("log"); });
  cache.store("key", entry_of(10, 1));
  cache.flush();
  EXPECT_TRUE(cache.load("key").entry);
  EXPECT_EQ(cache.load("other").reason, miss::absent);
}

TEST(DiskCache, FolderRemovedMeanwhileIsMadeAnew) {
  temporary_folder const folder;
  disk_cache cache(in(folder / "cache"));
  cache.store("key", entry_of(10, 1));
  cache.flush();
  std::filesystem::remove_all(folder / "cache");
  EXPECT_EQ(cache.load("key").reason, miss::absent);
  cache.store("key", entry_of(10, 2), cache.lock("key"));
  cache.flush();
  EXPECT_TRUE(std::filesystem::exists(entry_path(folder / "cache", "key")));
  EXPECT_TRUE(cache.load("key").entry);
}

using settings = std::vector<std::pair<char const*, char const*>>;

class environment {
 public:
  explicit environment(settings const& values) {
    for (auto const* name : names) {
      auto const* old = getenv(name);
      before_.emplace_back(name, old == nullptr ? std::optional<std::string>() : old);
      unsetenv(name);
    }
    for (auto const& [name, value] : values) setenv(name, value, 1);
  }
  ~environment() {
    for (auto const& [name, value] : before_)
      if (value) setenv(name, value->c_str(), 1);
      else unsetenv(name);
  }

 private:
  static constexpr char const* names[] = {"REPRISE_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "REPRISE_CACHE",
                                          "REPRISE_CACHE_CAP"};
  std::vector<std::pair<char const*, std::optional<std::string>>> before_;
};

TEST(DiskOptions, FolderByPrecedence) {
  auto const directory = [](settings const& values) {
    environment const set(values);
    return disk_options_from_environment().directory;
  };
  EXPECT_EQ(directory({{"REPRISE_CACHE_DIR", "/d"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), "/d");
  EXPECT_EQ(directory({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), "/x/reprise");
  EXPECT_EQ(directory({{"HOME", "/h"}}), "/h/.cache/reprise");
  EXPECT_EQ(directory({{"REPRISE_CACHE_DIR", ""}, {"XDG_CACHE_HOME", "relative"}, {"HOME", "/h"}}),
            "/h/.cache/reprise");
  EXPECT_EQ(directory({{"HOME", "relative"}}), "");
  EXPECT_EQ(directory({}), "");
}

TEST(DiskOptions, SwitchAndCap) {
  {
    environment const set(settings{{"HOME", "/h"}});
    EXPECT_TRUE(disk_options_from_environment().enabled);
    EXPECT_EQ(disk_options_from_environment().cap_bytes, 1ull << 30);
  }
  {
    environment const set(settings{{"REPRISE_CACHE", "off"}, {"REPRISE_CACHE_CAP", "5000000000"}});
    EXPECT_FALSE(disk_options_from_environment().enabled);
    EXPECT_EQ(disk_options_from_environment().cap_bytes, 5000000000u);
  }
  for (auto const* cap : {"1G", "-1", "x", " 5", "99999999999999999999999"}) {
    environment const set(settings{{"REPRISE_CACHE_CAP", cap}});
    EXPECT_THROW(disk_options_from_environment(), argument_error) << cap;
  }
  environment const set(settings{{"REPRISE_CACHE", "of"}});
  EXPECT_THROW(disk_options_from_environment(), argument_error);
}

// Trap 28: without a home there is no shared place to fall back to; the cache is off and says so once.
TEST(DiskOptions, NoHomeMeansOff) {
  environment const set(settings{});
  memo log;
  disk_cache cache(disk_options_from_environment(), log.sink());
  EXPECT_NE(cache.why_off().find("HOME"), std::string::npos);
  cache.store("key", entry_of(10, 1));
  cache.flush();
  EXPECT_EQ(cache.load("key").reason, miss::disabled);
  EXPECT_EQ(cache.load("key").reason, miss::disabled);
  EXPECT_FALSE(cache.lock("key").held());
  EXPECT_EQ(log.count(""), 1u) << log.all();
}

TEST(DiskOptions, SwitchedOffTouchesNothing) {
  temporary_folder const folder;
  disk_cache cache({folder / "cache", 1 << 20, false});
  cache.store("key", entry_of(10, 1));
  cache.flush();
  EXPECT_EQ(cache.load("key").reason, miss::disabled);
  EXPECT_FALSE(std::filesystem::exists(folder / "cache"));
}

}  // namespace
}  // namespace reprise::jit
