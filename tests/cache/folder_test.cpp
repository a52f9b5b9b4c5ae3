// Which folders are refused (trap 28: an entry is code), and disks that are full or cannot be written.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>

#include "cache/support.h"

namespace reprise::jit {
namespace {

using namespace testing;

constexpr uid_t stranger = 65534;

void expect_refused(std::filesystem::path const& path, std::string_view why) {
  memo log;
  disk_cache cache(in(path), log.sink());
  EXPECT_NE(cache.why_off().find(why), std::string::npos) << cache.why_off();
  cache.store("key", entry_of(10, 1));
  cache.flush();
  auto const found = cache.load("key");
  EXPECT_EQ(found.reason, miss::folder_refused);
  EXPECT_EQ(found.detail, cache.why_off());
  EXPECT_FALSE(cache.lock("key").held());
  EXPECT_EQ(log.count(""), 1u) << "said once: " << log.all();
  EXPECT_EQ(log.count(why), 1u) << log.all();
  EXPECT_TRUE(!std::filesystem::is_directory(path) || std::filesystem::is_empty(path));
}

TEST(DiskFolder, WritableByOthersIsRefused) {
  temporary_folder const folder;
  std::filesystem::create_directory(folder / "cache");
  for (mode_t const mode : {0770u, 0702u, 0777u, 01777u, 0720u}) {
    ASSERT_EQ(chmod((folder / "cache").c_str(), mode), 0);
    expect_refused(folder / "cache", "may write it");
  }
  for (mode_t const mode : {0700u, 0755u, 0750u}) {
    ASSERT_EQ(chmod((folder / "cache").c_str(), mode), 0);
    EXPECT_EQ(disk_cache(in(folder / "cache")).why_off(), "") << mode;
  }
}

TEST(DiskFolder, AnotherOwnersIsRefused) {
  if (!am_root()) GTEST_SKIP() << "only root can give a folder away";
  temporary_folder const folder;
  std::filesystem::create_directory(folder / "cache");
  chmod((folder / "cache").c_str(), 0700);
  ASSERT_EQ(chown((folder / "cache").c_str(), stranger, stranger), 0);
  expect_refused(folder / "cache", "belongs to user 65534");
}

TEST(DiskFolder, SymlinkIsAsGoodAsItsTargetAndItsMaker) {
  temporary_folder const folder;
  std::filesystem::create_directory(folder / "good");
  std::filesystem::create_directory(folder / "bad");
  chmod((folder / "good").c_str(), 0700);
  chmod((folder / "bad").c_str(), 0777);
  std::filesystem::create_symlink(folder / "good", folder / "to_good");
  std::filesystem::create_symlink(folder / "bad", folder / "to_bad");
  EXPECT_EQ(disk_cache(in(folder / "to_good")).why_off(), "");
  expect_refused(folder / "to_bad", "may write it");
  std::filesystem::create_symlink(folder / "nowhere", folder / "dangling");
  expect_refused(folder / "dangling", "cannot be");
  if (!am_root()) GTEST_SKIP() << "only root can give a link away";
  ASSERT_EQ(lchown((folder / "to_good").c_str(), stranger, stranger), 0);
  expect_refused(folder / "to_good", "symbolic link made by user");
}

TEST(DiskFolder, PlaceThatIsNoFolderIsRefused) {
  temporary_folder const folder;
  write_file(folder / "file", text("x"));
  expect_refused(folder / "file", "Not a directory");
  expect_refused(folder / "file/below", "cannot be made");
  expect_refused("/proc/reprise/cache", "cannot be made");
}

TEST(DiskFolder, EntryThatOthersCouldHaveWrittenIsRemoved) {
  temporary_folder const folder;
  disk_cache cache(in(folder.path()));
  auto const path = entry_path(folder.path(), "key");
  auto const good = encode_entry("key", entry_of(10, 1));
  auto const expect_untrusted = [&](char const* what) {
    auto const found = cache.load("key");
    EXPECT_EQ(found.reason, miss::untrusted) << what << ": " << found.detail;
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path))) << what;
  };
  write_file(path, good);
  ASSERT_TRUE(cache.load("key").entry);
  chmod(path.c_str(), 0622);
  expect_untrusted("mode");
  write_file(folder / "elsewhere", good);
  std::filesystem::create_symlink(folder / "elsewhere", path);
  expect_untrusted("symlink");
  EXPECT_TRUE(std::filesystem::exists(folder / "elsewhere"));
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_untrusted("fifo");
  if (!am_root()) return;
  write_file(path, good);
  ASSERT_EQ(chown(path.c_str(), stranger, stranger), 0);
  expect_untrusted("owner");
}

// What is there is read; what cannot be written is said once.
TEST(DiskFolder, ReadOnlyFolderStillServes) {
  temporary_folder const folder;
  chmod(folder.path().c_str(), 0755);
  int const code = in_child([&] {
    if (am_root() && (chown(folder.path().c_str(), stranger, stranger) != 0 || !become_user(stranger)))
      return 10;
    {
      disk_cache cache(in(folder / "cache"));
      cache.store("key", entry_of(1000, 1));
    }
    if (chmod((folder / "cache").c_str(), 0500) != 0) return 11;
    memo log;
    disk_cache cache(in(folder / "cache"), log.sink());
    if (!cache.load("key").entry) return 12;
    for (int i = 0; i < 5; ++i)
      cache.store("other" + std::to_string(i), entry_of(10, 2), cache.lock("other"));
    cache.flush();
    if (cache.load("other0").reason != miss::absent) return 13;
    if (cache.counts().store_failures != 5) return 14;
    if (log.count("failed") != 1) return 15;
    if (cache.lock("key").held()) return 16;
    if (log.count("no lock") != 1) return 17;
    return 0;
  });
  EXPECT_EQ(code, 0);
}

TEST(DiskFolder, ReadOnlyHomeIsRefusedQuietly) {
  if (!am_root()) GTEST_SKIP() << "a folder that even its owner may not write needs another owner";
  temporary_folder const folder;
  chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(in_child([&] {
              if (!become_user(stranger)) return 10;
              memo log;
              disk_cache cache(in(folder / ".cache/reprise"), log.sink());
              cache.store("key", entry_of(10, 1));
              cache.flush();
              if (cache.load("key").reason != miss::folder_refused) return 11;
              return log.count("Permission denied") == 1 ? 0 : 12;
            }),
            0);
}

// Two users without HOME share no place: each is off, neither sees the other.
TEST(DiskFolder, UsersWithoutHomeShareNothing) {
  if (!am_root()) GTEST_SKIP() << "only root can become two users";
  for (uid_t const user : {stranger, stranger - 1})
    EXPECT_EQ(in_child([&] {
                if (!become_user(user)) return 10;
                for (auto const* name : {"HOME", "XDG_CACHE_HOME", "REPRISE_CACHE_DIR", "REPRISE_CACHE"})
                  unsetenv(name);
                disk_cache cache(disk_options_from_environment());
                cache.store("key", entry_of(10, user));
                cache.flush();
                return cache.load("key").reason == miss::disabled && !cache.why_off().empty() ? 0 : 11;
              }),
              0);
}

// Stores fail, are said once, leave no temporary; what is there loads; a smaller entry that fits is stored.
int store_on_a_full_disk(std::filesystem::path const& path) {
  memo log;
  disk_cache cache(in(path), log.sink());
  cache.store("first", entry_of(20000, 1));
  cache.flush();
  if (!cache.load("first").entry) return 21;
  for (int i = 0; i < 4; ++i) cache.store("large" + std::to_string(i), entry_of(4 << 20, i));
  cache.flush();
  auto const counts = cache.counts();
  if (counts.store_failures != 4 || counts.stores != 1) return 22;
  if (log.count("failed") != 1) return 23;
  if (cache.load("large0").reason != miss::absent) return 24;
  if (!files_with(path, ".tmp").empty()) return 25;
  if (!cache.load("first").entry) return 26;
  cache.store("small", entry_of(1000, 3));
  cache.flush();
  return cache.load("small").entry ? 0 : 27;
}

// The worker blocks SIGXFSZ, whose default would end the process.
TEST(DiskFolder, FileSizeLimitIsAFailedStore) {
  temporary_folder const folder;
  EXPECT_EQ(in_child([&] {
              rlimit const limit{1 << 20, 1 << 20};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
              signal(SIGXFSZ, SIG_DFL);
              return store_on_a_full_disk(folder.path());
            }),
            0);
}

TEST(DiskFolder, FullDiskIsAFailedStore) {
  temporary_folder const folder;
  constexpr int not_allowed = 77;
  int const code = in_child([&] {
    // In a mount namespace of the child, so nothing stays mounted whatever happens.
    if (unshare(CLONE_NEWNS) != 0) return not_allowed;
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return not_allowed;
    if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m,mode=0700") != 0) return not_allowed;
    return store_on_a_full_disk(folder.path());
  });
  if (code == not_allowed) GTEST_SKIP() << "this user may not mount; the file size limit is tested instead";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace reprise::jit
