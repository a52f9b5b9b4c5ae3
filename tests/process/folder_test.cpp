// Folders that cannot be used: results are right, nothing is thrown, the log says why, and stdout is empty.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "process/support.h"

namespace process {
namespace {

using testing::HasSubstr;

constexpr uid_t nobody = 65534;

// Runs twice, with the log and without: right both times, compiled both times.
void expect_off(start s, std::string_view why) {
  auto const silent = run(s);
  ASSERT_EQ(silent.status, 0) << silent.said << silent.err;
  EXPECT_EQ(silent.checksum(), right_checksum("one"));
  EXPECT_EQ(silent.out + silent.err, "");
  s.environment["REPRISE_LOG"] = "cache";
  auto const logged = run(s);
  ASSERT_EQ(logged.status, 0) << logged.said << logged.err;
  EXPECT_EQ(logged.checksum(), right_checksum("one"));
  EXPECT_GT(logged.total("llvm_compiles"), 0u);
  EXPECT_EQ(logged.total("disk_hits"), 0u);
  EXPECT_EQ(logged.out, "");
  EXPECT_THAT(logged.err, HasSubstr("reprise cache: "));
  EXPECT_THAT(logged.err, HasSubstr(std::string(why)));
}

TEST(Folders, OneThatCannotBeMade) {
  expect_off({.environment = in("/proc/reprise"), .what = "one"}, "/proc/reprise: cannot be made");
}

TEST(Folders, AFileInItsPlace) {
  scratch const folder;
  write(folder / "cache", "mine");
  expect_off({.environment = in(folder / "cache"), .what = "one"}, "Not a directory");
  EXPECT_EQ(contents(folder / "cache"), "mine");
}

TEST(Folders, OneThatOthersMayWrite) {  // TRAPS 28
  scratch const folder;
  std::filesystem::create_directory(folder / "cache");
  std::filesystem::permissions(folder / "cache", std::filesystem::perms(0777));
  expect_off({.environment = in(folder / "cache"), .what = "one"}, "its group or others may write it");
  EXPECT_TRUE(files(folder / "cache").empty());
}

TEST(Folders, OneOfAnotherUser) {  // TRAPS 28
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  scratch const folder;
  std::filesystem::create_directory(folder / "cache");
  ASSERT_EQ(chown((folder / "cache").c_str(), nobody, nobody), 0);
  std::filesystem::permissions(folder / "cache", std::filesystem::perms(0700));
  expect_off({.environment = in(folder / "cache"), .what = "one"}, "belongs to user 65534, we are 0");
  EXPECT_TRUE(files(folder / "cache").empty());
}

TEST(Folders, EntriesOfAnotherUserAreNotRun) {  // TRAPS 28
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  scratch const folder;
  auto const environment = in(folder / "cache", {{"REPRISE_LOG", "cache"}});
  ASSERT_EQ(run({.environment = environment, .what = "one"}).status, 0);
  auto const made = keys(folder / "cache");
  ASSERT_EQ(made.size(), 1u);
  ASSERT_EQ(chown((folder / "cache" / made[0]).c_str(), nobody, nobody), 0);
  auto const r = run({.environment = environment, .what = "one"});
  EXPECT_EQ(r.checksum(), right_checksum("one"));
  EXPECT_EQ(r.total("disk_hits"), 0u);
  EXPECT_THAT(r.err, HasSubstr("untrusted"));
  EXPECT_EQ(run({.environment = environment, .what = "one"}).total("disk_hits"), 1u) << "replaced";
}

// A folder that its owner may only read: what is in it is used, nothing new is kept.
TEST(Folders, OneThatMayOnlyBeRead) {
  uid_t const user = geteuid() == 0 ? nobody : 0;
  scratch const folder;
  auto const cache = folder / "cache";
  std::filesystem::create_directory(cache);
  std::filesystem::permissions(cache, std::filesystem::perms(0700));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  if (user != 0) { ASSERT_EQ(chown(cache.c_str(), user, user), 0); }
  start s{.environment = in(cache), .what = "one", .user = user};
  auto const cold = run(s);
  if (cold.status == 103) GTEST_SKIP() << "another user cannot run " PROCESS_WORKER;
  ASSERT_EQ(cold.status, 0) << cold.said << cold.err;
  std::filesystem::permissions(cache, std::filesystem::perms(0500));
  auto const warm = run(s);
  ASSERT_EQ(warm.status, 0) << warm.said << warm.err;
  EXPECT_EQ(warm.checksum(), right_checksum("one"));
  EXPECT_EQ(warm.total("disk_hits"), 1u);

  s.what = "all";
  s.environment["REPRISE_LOG"] = "cache";
  auto const more = run(s);
  ASSERT_EQ(more.status, 0) << more.said << more.err;
  EXPECT_EQ(more.checksum(), right_checksum("all"));
  EXPECT_EQ(more.total("disk_hits"), 1u);
  EXPECT_EQ(more.out, "");
  EXPECT_THAT(more.err, HasSubstr("Permission denied"));
  EXPECT_EQ(keys(cache).size(), 1u);
  std::filesystem::permissions(cache, std::filesystem::perms(0700));
}

TEST(Folders, NoHome) {
  expect_off({.environment = {{"REPRISE_TUNE", "off"}}, .what = "one"},
             "REPRISE_CACHE_DIR, XDG_CACHE_HOME and HOME are unset");
}

TEST(Folders, TheUsualPlaces) {
  scratch const folder;
  auto const home = (folder / "home").string(), xdg = (folder / "xdg").string();
  std::filesystem::create_directory(home);
  auto const one = [](std::map<std::string, std::string> e) {
    e["REPRISE_TUNE"] = "off";
    return run({.environment = e, .what = "one"});
  };
  EXPECT_EQ(one({{"HOME", home}}).status, 0);
  EXPECT_EQ(keys(folder / "home/.cache/reprise").size(), 1u);
  EXPECT_EQ(one({{"HOME", home}, {"XDG_CACHE_HOME", xdg}}).status, 0);
  EXPECT_EQ(keys(folder / "xdg/reprise"), keys(folder / "home/.cache/reprise"));
  EXPECT_EQ(one({{"HOME", home}, {"REPRISE_CACHE", "off"}}).total("disk_hits"), 0u);
}

}  // namespace
}  // namespace process
