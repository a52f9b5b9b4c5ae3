// Processes that share one folder: what one compiled, the others load; together they compile each program
// once; the keys depend on the program and the machine and on nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>

#include "process/support.h"

namespace process {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

void expect_right(outcome const& r) {
  ASSERT_EQ(r.status, 0) << r.said << r.err;
  EXPECT_EQ(r.checksum(), right_checksum("all"));
  EXPECT_EQ(r.out, "");
}

TEST(Processes, TheSecondCompilesNothing) {
  scratch const folder;
  auto const cache = folder / "cache";
  // As a user runs it: choices between implementations are measured, and kept in the entries.
  std::map<std::string, std::string> const environment{{"REPRISE_CACHE_DIR", cache.string()}};
  auto const cold = run({environment});
  expect_right(cold);
  EXPECT_EQ(cold.err, "");
  EXPECT_GT(cold.total("kernels_compiled"), 0u);
  EXPECT_GT(cold.total("llvm_compiles"), 0u);
  EXPECT_EQ(cold.total("disk_hits"), 0u);
  auto const made = keys(cache);
  EXPECT_GE(made.size(), 8u);
  EXPECT_EQ(files(cache), made) << "nothing but entries stays";

  auto forbidden = environment;
  forbidden.emplace("REPRISE_FORBID", "compile");
  for (auto const& e : {environment, forbidden}) {
    auto const warm = run({e});
    expect_right(warm);
    EXPECT_EQ(warm.total("disk_hits"), made.size());
    EXPECT_EQ(warm.total("kernels_compiled"), 0u);
    EXPECT_EQ(warm.total("llvm_compiles"), 0u);
    EXPECT_EQ(warm.total("heuristic_queries"), 0u);
    EXPECT_EQ(warm.total("recorded"), cold.total("recorded"));
    EXPECT_EQ(warm.total("fallbacks"), 0u);
  }
  EXPECT_EQ(keys(cache), made);
}

TEST(Processes, AColdOneThatMayNotCompileThrowsAndLeavesNothing) {  // TRAPS 32
  scratch const folder;
  auto const cache = folder / "cache";
  auto const refused = run({in(cache, {{"REPRISE_FORBID", "compile"}})});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.said, HasSubstr("forbidden: REPRISE_FORBID=compile: the program "));
  EXPECT_THAT(refused.said, testing::ContainsRegex("the program [0-9a-f]{32}"));
  EXPECT_THAT(files(cache), IsEmpty());
  expect_right(run({in(cache)}));
  // A warm folder hides no refusal: what is not in it still throws.
  auto const made = keys(cache);
  ASSERT_FALSE(made.empty());
  std::filesystem::remove(cache / made.front());
  auto const again = run({in(cache, {{"REPRISE_FORBID", "compile"}})});
  EXPECT_EQ(again.status, 3);
  EXPECT_THAT(again.said, HasSubstr("forbidden: "));
}

TEST(Processes, EightColdOnesCompileEachProgramOnce) {  // TRAPS 33
  scratch const alone_folder, together_folder;
  auto const alone = run({in(alone_folder / "cache")});
  expect_right(alone);

  std::vector<std::unique_ptr<worker>> all;
  for (int i = 0; i < 8; ++i) all.push_back(std::make_unique<worker>(start{in(together_folder / "cache")}));
  std::uint64_t kernels = 0, modules = 0, hits = 0, programs = 0;
  for (auto& w : all) {
    auto const r = w->finish();
    expect_right(r);
    kernels += r.total("kernels_compiled");
    modules += r.total("llvm_compiles");
    hits += r.total("disk_hits");
  }
  programs = keys(alone_folder / "cache").size();
  EXPECT_EQ(kernels, alone.total("kernels_compiled"));
  EXPECT_EQ(modules, alone.total("llvm_compiles"));
  EXPECT_EQ(hits, 7 * programs);
  EXPECT_EQ(files(together_folder / "cache"), files(alone_folder / "cache"));
}

TEST(Processes, KeysDependOnNothingOfTheProcess) {  // TRAPS 29
  std::set<std::vector<std::string>> seen;
  for (int i = 0; i < 20; ++i) {
    scratch const folder;
    std::map<std::string, std::string> more;
    more["FILL"] = std::string(static_cast<std::size_t>(997 * i), 'x');
    if (i % 3 == 1) more["LC_ALL"] = "de_DE.UTF-8";
    if (i % 3 == 2) more["MALLOC_PERTURB_"] = std::to_string(i);
    if (i % 4 == 3) more["REPRISE_LOG"] = "trace,compile,cache,replay";
    if (i % 5 == 4) more["REPRISE_THREADS"] = "1";
    auto const r = run({.environment = in(folder / "cache", more), .fixed_addresses = i % 2 == 1});
    ASSERT_EQ(r.status, 0) << r.said << r.err;
    EXPECT_EQ(r.checksum(), right_checksum("all")) << i;
    EXPECT_GT(r.total("llvm_compiles"), 0u);
    seen.insert(keys(folder / "cache"));
  }
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_GE(seen.begin()->size(), 8u);
}

TEST(Processes, KeysDependOnNoCompilerOfTheCaller) {
#ifdef PROCESS_WORKER_CLANG
  scratch const folder;
  auto const cache = folder / "cache";
  expect_right(run({in(cache)}));
  auto const made = keys(cache);
  auto const other =
      run({.environment = in(cache, {{"REPRISE_FORBID", "compile"}}), .program = PROCESS_WORKER_CLANG});
  expect_right(other);
  EXPECT_EQ(other.total("disk_hits"), made.size());
  scratch const own;
  expect_right(run({.environment = in(own / "cache"), .program = PROCESS_WORKER_CLANG}));
  EXPECT_EQ(keys(own / "cache"), made);
#else
  GTEST_SKIP() << "built without clang++";
#endif
}

TEST(Processes, AnotherToolchainHasOtherKeys) {  // TRAPS 26
  scratch const folder;
  auto const cache = folder / "cache";
  expect_right(run({in(cache)}));
  auto const first = keys(cache);
  auto const hidden = run({in(cache, {{"REPRISE_HIDE", "onednn"}})});
  expect_right(hidden);
  EXPECT_EQ(hidden.total("disk_hits"), 0u);
  EXPECT_GT(hidden.total("llvm_compiles"), 0u);
  EXPECT_EQ(hidden.total("library_calls"), 0u);
  auto const both = keys(cache);
  EXPECT_EQ(both.size(), 2 * first.size());
  EXPECT_TRUE(std::includes(both.begin(), both.end(), first.begin(), first.end()));

  // One's entry under the other's name is not used either.
  std::vector<std::string> second;
  std::set_difference(both.begin(), both.end(), first.begin(), first.end(), std::back_inserter(second));
  ASSERT_EQ(second.size(), first.size());
  for (std::size_t i = 0; i < first.size(); ++i) write(cache / second[i], contents(cache / first[i]));
  auto const fooled = run({in(cache, {{"REPRISE_HIDE", "onednn"}, {"REPRISE_LOG", "cache"}})});
  expect_right(fooled);
  EXPECT_EQ(fooled.total("disk_hits"), 0u);
  EXPECT_THAT(fooled.err, HasSubstr("wrong_key"));
  EXPECT_EQ(run({in(cache, {{"REPRISE_HIDE", "onednn"}})}).total("disk_hits"), second.size()) << "replaced";
}

}  // namespace
}  // namespace process
