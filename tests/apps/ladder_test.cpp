// The ladder at a small scale: every rung checks its own result before it is timed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "apps/programs.h"

namespace {

using namespace reprise::test;

std::string const small =
    "add_50k,add_50k_host,conv_seed,conv_seed_host,saxpy_chain,black_scholes,softmax,layernorm,rmsnorm_bf16,"
    "sum_all,"
    "colsum,transpose_add,tiny_chain,branches,mlp,gemm_gelu_bf16";

TEST(Ladder, EveryRungGivesRightNumbers) {
  scratch const folder;
  auto const file = (folder / "rungs.jsonl").string();
  auto const done = run(
      {LADDER, "--device", "cpu", "--scale", "0.0005", "--seconds", "0.001", "--only", small, "--out", file},
      {{"REPRISE_CACHE_DIR", folder / "cache"}});
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  EXPECT_EQ(contents(file), done.out);
  std::set<std::string> seen;
  std::istringstream lines(done.out);
  for (std::string line; std::getline(lines, line);) {
    auto const row = nlohmann::json::parse(line);
    seen.insert(row["workload"]);
    EXPECT_EQ(row["peer"], "reprise");
    ASSERT_FALSE(row.contains("error")) << line;
    EXPECT_GT(row["pipelined_us"], 0);
    EXPECT_GT(row["latency_us"], 0);
    EXPECT_GT(row["first_call_ms"], 0);
  }
  EXPECT_EQ(seen.size(), 16u);
  EXPECT_FALSE(std::filesystem::exists(folder / "cache")) << "a first call may not come from a cache";
}

TEST(Ladder, RefusesWhatIsNotThere) {
  scratch const folder;
  variables const cache{{"REPRISE_CACHE_DIR", folder / "cache"}};
  auto const unknown = run({LADDER, "--only", "sum_all,sum_none"}, cache);
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(unknown.err, "ladder: there is no rung sum_none\n");
  auto const gpu = run({LADDER, "--device", "gpu", "--only", "sum_all"}, cache);
  EXPECT_EQ(gpu.status, 1);
  EXPECT_EQ(gpu.out, "");
  EXPECT_TRUE(is_one_line(gpu.err)) << gpu.err;
}

}  // namespace
