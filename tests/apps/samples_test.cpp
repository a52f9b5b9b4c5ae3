// The samples: they say in their exit codes whether they did what they show; the photograph's picture is also
// held against its own arithmetic here, and its second process against a ban on compiling.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "apps/programs.h"
#include "samples/image_io.h"
#include "trace/program.h"

namespace {

using namespace reprise::test;
using testing::HasSubstr;

TEST(Samples, AddRunsWhereItShould) {
  scratch const folder;
  auto const done = run({ADD}, {{"REPRISE_CACHE_DIR", folder / "cache"}});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "");
  EXPECT_THAT(done.out, HasSubstr("50000 numbers"));
}

TEST(Samples, ConvRunsWhereItShould) {
  scratch const folder;
  auto const done = run({CONV}, {{"REPRISE_CACHE_DIR", folder / "cache"}});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "");
  EXPECT_THAT(done.out, HasSubstr("1638400 numbers"));
}

TEST(Samples, FailWhereCompilingIsForbidden) {
  scratch const folder;
  for (char const* program : {ADD, CONV}) {
    auto const done =
        run({program}, {{"REPRISE_CACHE_DIR", folder / "cache"}, {"REPRISE_FORBID", "compile"}});
    EXPECT_EQ(done.status, 1);
    EXPECT_TRUE(is_one_line(done.err)) << done.err;
    EXPECT_THAT(done.err, HasSubstr("REPRISE_FORBID=compile"));
  }
}

outcome photo(scratch const& folder, std::string const& name, variables more = {}) {
  more.insert({"REPRISE_CACHE_DIR", folder / "cache"});
  return run(
      {PHOTO, PHOTOGRAPH, folder / (name + ".png"), "--report", folder / (name + ".json"), "--repeat", "3"},
      more);
}

TEST(Photo, SecondProcessCompilesNothing) {
  scratch const folder;
  auto const first = photo(folder, "first");
  ASSERT_EQ(first.status, 0) << first.err;
  auto const before = nlohmann::json::parse(contents(folder / "first.json"));
  EXPECT_GE(before["totals"]["kernels_compiled"], 1);
  EXPECT_GE(before["totals"]["llvm_compiles"], 1);
  EXPECT_EQ(before["totals"]["recorded"], 1);
  EXPECT_EQ(before["totals"]["fallbacks"], 0);
  EXPECT_FALSE(before["totals"]["reasons"].empty());
  EXPECT_EQ(before["report"]["recorded"], 0);
  EXPECT_EQ(before["report"]["replayed"], 1);
  EXPECT_EQ(before["report"]["signature_hits"], 1);
  EXPECT_EQ(before["report"]["device"], "cpu");
  EXPECT_GE(before["report"]["kernel_launches"], 2);

  auto const second = photo(folder, "second", {{"REPRISE_FORBID", "compile"}});
  ASSERT_EQ(second.status, 0) << second.err;
  auto const after = nlohmann::json::parse(contents(folder / "second.json"));
  EXPECT_EQ(after["totals"]["kernels_compiled"], 0);
  EXPECT_EQ(after["totals"]["llvm_compiles"], 0);
  EXPECT_GE(after["totals"]["disk_hits"], 1);
  EXPECT_EQ(after["totals"]["recorded"], 1);
  EXPECT_EQ(contents(folder / "first.png"), contents(folder / "second.png"));
}

TEST(Photo, ForbiddenToCompileWithNothingInTheCache) {
  scratch const folder;
  auto const done = photo(folder, "none", {{"REPRISE_FORBID", "compile"}});
  EXPECT_EQ(done.status, 1);
  EXPECT_TRUE(is_one_line(done.err)) << done.err;
  EXPECT_THAT(done.err, HasSubstr("REPRISE_FORBID=compile"));
  EXPECT_FALSE(std::filesystem::exists(folder / "none.png"));
}

// One tile by hand: the blurred red channel at half size, as bright as it gets, from ink over the accent to
// paper.
TEST(Photo, PictureIsWhatTheFiltersGive) {
  scratch const folder;
  ASSERT_EQ(photo(folder, "picture").status, 0);
  auto const in = image::read_rgb(PHOTOGRAPH), out = image::read_rgb(folder / "picture.png");
  ASSERT_EQ(out.height, 3 * in.height);
  ASSERT_EQ(out.width, 2 * in.width);

  for (std::int64_t y = 0; y < in.height; ++y)  // the photograph itself comes first
    ASSERT_TRUE(std::equal(in.pixels.begin() + y * in.width * 3, in.pixels.begin() + (y + 1) * in.width * 3,
                           out.pixels.begin() + y * out.width * 3))
        << "row " << y;

  auto const red = [&](std::int64_t y, std::int64_t x) {
    bool const outside = y < 0 || x < 0 || y >= in.height || x >= in.width;
    return outside ? 0. : in.pixels[static_cast<std::size_t>((y * in.width + x) * 3)] / 255.;
  };
  auto const blurred = [&](std::int64_t y, std::int64_t x) {
    constexpr double weight[] = {1, 2, 1};
    double sum = 0;
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx) sum += weight[dy + 1] * weight[dx + 1] / 16 * red(y + dy, x + dx);
    return sum;
  };
  std::int64_t const h = in.height / 2, w = in.width / 2;
  std::vector<double> tile;
  for (std::int64_t y = 0; y < h; ++y)
    for (std::int64_t x = 0; x < w; ++x)
      tile.push_back((blurred(2 * y, 2 * x) + blurred(2 * y, 2 * x + 1) + blurred(2 * y + 1, 2 * x) +
                      blurred(2 * y + 1, 2 * x + 1)) /
                     4);
  double const top = *std::max_element(tile.begin(), tile.end());
  constexpr std::array<double, 3> paper{.98, .95, .88}, ink{.07, .09, .16}, accent{.91, .45, .22};
  double worst = 0;
  for (std::int64_t y = 0; y < h; ++y)
    for (std::int64_t x = 0; x < w; ++x) {
      double const t = std::sqrt(tile[static_cast<std::size_t>(y * w + x)] / (top + 1e-6));
      for (std::size_t c = 0; c < 3; ++c) {
        double const want =
            t < .5 ? ink[c] + (accent[c] - ink[c]) * 2 * t : accent[c] + (paper[c] - accent[c]) * (2 * t - 1);
        auto const got = out.pixels[static_cast<std::size_t>(((in.height + y) * out.width + x) * 3) + c];
        worst = std::max(worst, std::abs(got - want * 255));
      }
    }
  EXPECT_LT(worst, .51);  // rounded to bytes
}

// A plan as `reprise show --stages` writes it: which steps each step waits for, and where temporaries lie.
struct shown_plan {
  std::vector<std::set<int>> before;                               // of each step, by way of others too
  std::vector<std::pair<std::int64_t, std::int64_t>> temporaries;  // begin and end in bytes
  explicit shown_plan(std::string const& text) {
    std::istringstream lines(text.substr(text.find("\n== plan\n")));
    std::regex const step("step ([0-9]+): .*?(?:, after ([0-9 ]+))?"),
        temporary("b[0-9]+: temporary float32\\[([0-9]+)\\] at ([0-9]+)");
    std::smatch m;
    for (std::string line; std::getline(lines, line);) {
      if (std::regex_match(line, m, step)) {
        std::set<int> all;
        std::istringstream list(m[2].str());
        for (int s = 0; list >> s;) {
          all.insert(s);
          all.insert(before.at(static_cast<std::size_t>(s)).begin(),
                     before.at(static_cast<std::size_t>(s)).end());
        }
        before.push_back(all);
      } else if (std::regex_match(line, m, temporary)) {
        temporaries.emplace_back(std::stoll(m[2]), std::stoll(m[2]) + 4 * std::stoll(m[1]));
      }
    }
  }
  bool has_branches() const {
    for (int i = 1; i < static_cast<int>(before.size()); ++i)
      for (int j = 1; j < i; ++j)
        if (!before[static_cast<std::size_t>(i)].contains(j)) return true;
    return false;
  }
  bool uses_memory_twice() const {
    for (auto const& a : temporaries)
      for (auto const& b : temporaries)
        if (&a < &b && a.first < b.second && b.first < a.second) return true;
    return false;
  }
};

// What the main job's program must hold: fusion, library calls, independent branches, memory used twice.
TEST(Photo, ProgramHasWhatItShallShow) {
  scratch const folder;
  ASSERT_EQ(photo(folder, "dumped", {{"REPRISE_DUMP", folder / "dump"}}).status, 0);
  std::filesystem::path largest;
  for (auto const& f : std::filesystem::directory_iterator(folder / "dump"))
    if (f.path().extension() == ".json" &&
        (largest.empty() || f.file_size() > std::filesystem::file_size(largest)))
      largest = f.path();
  ASSERT_NE(largest, "");
  auto const program = reprise::ir::from_json(contents(largest));
  auto const arithmetic = std::ranges::count_if(program.nodes, [](auto const& n) {
    return reprise::ir::info(n.code).kind == reprise::ir::category::elementwise;
  });
  auto const report = nlohmann::json::parse(contents(folder / "dumped.json"))["report"];
  EXPECT_GE(arithmetic, 30);
  EXPECT_LT(report["kernel_launches"], arithmetic / 2) << "operations were not fused";
  EXPECT_GE(report["library_calls"], 1);

  // The dump shows and runs in other processes.
  auto const shown = run({TOOL, "show", "--stages", largest}, {{"REPRISE_CACHE_DIR", folder / "cache"}});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("photo.cpp:"));
  shown_plan const plan(shown.out);
  EXPECT_GE(plan.before.size(), 5u);
  EXPECT_TRUE(plan.has_branches());
  EXPECT_TRUE(plan.uses_memory_twice());
  auto const timed = run({TOOL, "time", largest, "--seconds", "0"},
                         {{"REPRISE_CACHE_DIR", folder / "cache"}, {"REPRISE_FORBID", "compile"}});
  EXPECT_EQ(timed.status, 0) << timed.err;
  EXPECT_THAT(timed.out, HasSubstr("loaded from the disk cache"));
}

TEST(Photo, SaysWhatIsWrong) {
  scratch const folder;
  variables const cache{{"REPRISE_CACHE_DIR", folder / "cache"}};
  auto const missing = run({PHOTO, folder / "missing.png", folder / "out.png"}, cache);
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(is_one_line(missing.err)) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("missing.png"));
  auto const nowhere = run({PHOTO, PHOTOGRAPH, folder / "no/such/folder.png", "--repeat", "1"}, cache);
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("no/such/folder.png"));
}

}  // namespace
