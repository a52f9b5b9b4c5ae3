// The command line on traces that were written by hand: what it shows, what it computes (held against the
// reference), and what it says when something is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "apps/programs.h"
#include "support/compare.h"
#include "trace/npy.h"
#include "trace/program.h"
#include "trace/reference.h"

namespace {

using namespace reprise;
using namespace reprise::test;
using testing::HasSubstr;

std::string trace(std::string const& name) {
  return std::string(REPRISE_TEST_DATA "/traces/") + name + ".json";
}

struct Tool : testing::Test {
  scratch folder;

  outcome tool(std::vector<std::string> words, variables more = {}) {
    more.insert({"REPRISE_CACHE_DIR", folder / "cache"});
    words.insert(words.begin(), TOOL);
    return run(words, more);
  }

  std::string save(std::string const& name, ir::host_tensor const& t) {
    auto const file = folder / (name + ".npy");
    ir::write_npy(file, t.type, t.bytes);
    return file;
  }

  ir::host_tensor load(std::string const& name) {
    ir::npy_array a = ir::read_npy(folder / (name + ".npy"));
    return {a.type, std::move(a.data)};
  }

  void fails_with(std::vector<std::string> const& words, std::vector<std::string> const& says) {
    auto const done = tool(words);
    EXPECT_EQ(done.status, 1) << testing::PrintToString(words);
    EXPECT_EQ(done.out, "") << testing::PrintToString(words);
    EXPECT_TRUE(is_one_line(done.err)) << done.err;
    for (auto const& s : says) EXPECT_THAT(done.err, HasSubstr(s));
  }
};

// Values for every parameter; small whole numbers in integers.
std::vector<ir::host_tensor> values_for(ir::program const& p) {
  std::mt19937 random(5);
  std::vector<ir::host_tensor> all;
  for (auto const& x : p.parameters) {
    auto t = ir::make_tensor(x.type);
    for (std::int64_t i = 0; i < t.size(); ++i)
      t.set_number(i, is_floating(x.type.type) ? static_cast<double>(random()) / 0x1p31 - 1
                                               : static_cast<double>(random() % 200));
    all.push_back(std::move(t));
  }
  return all;
}

class HandWritten : public Tool, public testing::WithParamInterface<char const*> {};

TEST_P(HandWritten, RunsLikeTheReference) {
  auto const p = ir::from_json(contents(trace(GetParam())));
  auto const values = values_for(p);
  auto const want = ir::run_reference(p, values);
  std::vector<std::string> words{"run", trace(GetParam())};
  for (std::size_t i = 0; i < values.size(); ++i) {
    words.push_back("--in");
    // By name and by index in turn.
    words.push_back((i % 2 ? std::to_string(i) : p.parameters[i].name) + '=' +
                    save("in" + std::to_string(i), values[i]));
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    words.push_back("--out");
    words.push_back(std::to_string(i) + '=' + (folder / ("out" + std::to_string(i) + ".npy")).string());
  }
  auto const done = tool(words);
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out, "");
  bool const sums = std::ranges::any_of(p.nodes, [](auto const& n) {
    auto const kind = ir::info(n.code).kind;
    return kind == ir::category::library || kind == ir::category::reduction;
  });
  for (std::size_t i = 0; i < want.size(); ++i) {
    auto const got = load("out" + std::to_string(i));
    if (!sums || !is_floating(want[i].type.type)) {
      EXPECT_EQ(difference(got, want[i]), "") << p.results[i].name;
      continue;
    }
    // Sums in another order: an absolute bound far above rounding and far below any real mistake.
    auto bound = ir::make_tensor(ir::tensor_type{dtype::f64, want[i].type.shape});
    for (std::int64_t k = 0; k < bound.size(); ++k)
      bound.set_number(k, 1e-5 * std::max(1., std::abs(want[i].number(k))));
    EXPECT_EQ(difference(got, want[i], {.bound = &bound}), "") << p.results[i].name;
  }
  // Another process compiles nothing and computes the same.
  auto const before = contents(folder / "out0.npy");
  auto const again = tool(words, {{"REPRISE_FORBID", "compile"}});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(contents(folder / "out0.npy"), before);
}

TEST_P(HandWritten, Shows) {
  auto const p = ir::from_json(contents(trace(GetParam())));
  auto const shown = tool({"show", trace(GetParam())});
  ASSERT_EQ(shown.status, 0) << shown.err;
  for (auto const& x : p.parameters) EXPECT_THAT(shown.out, HasSubstr(x.name + "  "));
  for (auto const& n : p.nodes) EXPECT_THAT(shown.out, HasSubstr(ir::info(n.code).name));
  for (auto const& r : p.results) EXPECT_THAT(shown.out, HasSubstr(r.name));
  auto const staged = tool({"show", "--stages", trace(GetParam())});
  ASSERT_EQ(staged.status, 0) << staged.err;
  EXPECT_TRUE(staged.out.starts_with(shown.out));
  for (char const* stage : {"== program", "== simplified", "== kernels", "== plan"})
    EXPECT_THAT(staged.out, HasSubstr(std::string("\n") + stage + "\n"));
}

INSTANTIATE_TEST_SUITE_P(Traces, HandWritten,
                         testing::Values("add", "attributes", "descent", "layer", "numbers"),
                         [](auto const& info) { return std::string(info.param); });

TEST_F(Tool, ShowsTypesLinesAndAttributes) {
  auto const layer = tool({"show", trace("layer")});
  EXPECT_THAT(layer.out, testing::ContainsRegex("%3 +matmul\\(%0, %1\\) +float32\\(2, 4\\) +layer.cpp:7\n"));
  auto const attributes = tool({"show", trace("attributes")});
  EXPECT_THAT(attributes.out,
              HasSubstr("conv2d(%1, %2) stride=[2, 1] padding=[1, 0, 1, 2] dilation=[1, 2] groups=2"));
  EXPECT_THAT(attributes.out, HasSubstr("constant -9223372036854775808"));
  auto const descent = tool({"show", trace("descent")});
  EXPECT_THAT(descent.out, HasSubstr("written back to parameter 0"));
  EXPECT_THAT(descent.out, testing::ContainsRegex("lifted.0 +float32\\(\\) +lifted\n"));
}

TEST_F(Tool, PrintsResultsWhenNoFileIsAskedFor) {
  auto const a = save("a", ir::make_tensor<float>({5}, {1, 2, 3, 4, 5}));
  auto const b = save("b", ir::make_tensor<float>({5}, {10, 20, 30, 40, 50.5}));
  auto const done = tool({"run", trace("add"), "--in", "a=" + a, "--in", "1=" + b});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out, "sum = float32(5,): 11 22 33 44 55.5\n");
}

TEST_F(Tool, TakesANumberForARankZeroParameter) {
  auto const p = ir::from_json(contents(trace("descent")));
  auto const values = values_for(p);
  std::vector<std::string> words{"run", trace("descent")};
  for (std::size_t i = 0; i < 3; ++i) {
    words.push_back("--in");
    words.push_back(p.parameters[i].name + '=' + save(std::to_string(i), values[i]));
  }
  words.insert(words.end(), {"--in", "lifted.0=0", "--out", "weight=" + (folder / "weight.npy").string()});
  auto const done = tool(words);
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(difference(load("weight"), values[0]), "");  // a step of length 0
}

TEST_F(Tool, Times) {
  auto const done = tool({"time", trace("layer"), "--seconds", "0.01"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, testing::ContainsRegex("first call +[0-9.]+ ms \\([0-9]+ kernels compiled\\)\n"));
  EXPECT_THAT(done.out, testing::ContainsRegex("replay +[0-9.]+ us, the median of [0-9]+\n"));
}

TEST_F(Tool, ListsEveryOperation) {
  auto const done = tool({"ops"});
  ASSERT_EQ(done.status, 0) << done.err;
  for (int i = 0; i < ir::op_count(); ++i) {
    auto const& o = ir::info(static_cast<ir::op>(i));
    EXPECT_THAT(done.out, HasSubstr(std::string("\n") + o.name + " "));
    EXPECT_THAT(done.out, HasSubstr(o.doc));
  }
}

TEST_F(Tool, SaysWhatIsMissingOrWrong) {
  auto const a = save("a", ir::make_tensor<float>({5}, {1, 2, 3, 4, 5}));
  auto const short_one = save("short", ir::make_tensor<float>({4}, {1, 2, 3, 4}));
  auto const wide = save("wide", ir::make_tensor<double>({5}, {1, 2, 3, 4, 5}));
  fails_with({"run", trace("add")}, {"a float32(5,)", "b float32(5,)"});
  fails_with({"run", trace("add"), "--in", "a=" + a}, {"b float32(5,)"});
  fails_with({"run", trace("add"), "--in", "c=" + a}, {"no parameter c", "a, b"});
  fails_with({"run", trace("add"), "--in", "2=" + a}, {"no parameter 2"});
  fails_with({"run", trace("add"), "--in", "a=" + a, "--in", "0=" + a}, {"parameter a is given twice"});
  fails_with({"run", trace("add"), "--in", "a=" + short_one}, {"short.npy", "float32(4,)", "float32(5,)"});
  fails_with({"run", trace("add"), "--in", "a=" + wide}, {"wide.npy", "float64(5,)"});
  fails_with({"run", trace("add"), "--in", "a"}, {"NAME=FILE"});
  fails_with({"run", trace("add"), "--in", "a=" + (folder / "none.npy").string()}, {"none.npy"});
  fails_with({"run", trace("add"), "--in", "a=" + a, "--in", "b=" + a, "--out", "total=x.npy"},
             {"no result total", "sum"});
  fails_with({"run", trace("add"), "--in", "a=" + a, "--in", "b=" + a, "--out",
              "sum=" + (folder / "no/such.npy").string()},
             {"no/such.npy"});
  fails_with({"show", folder / "none.json"}, {"none.json", "No such file"});
  fails_with({"show"}, {"program"});
  fails_with({"walk"}, {"walk"});
  fails_with({}, {"show, run, time, ops"});
}

TEST_F(Tool, SaysWhereJsonIsBad) {
  auto const file = (folder / "bad.json").string();
  auto const holds = [&](std::string const& text) { std::ofstream(file) << text; };
  holds("{\"reprise\": 1,");
  fails_with({"show", file}, {"bad.json"});
  holds(R"({"reprise": 1, "parameters": [], "nodes": [{"op": "frobnicate"}], "results": []})");
  fails_with({"show", file}, {"bad.json", "/nodes/0", "frobnicate"});
  std::string text = contents(trace("add"));
  text.replace(text.find("[0, 1]"), 6, "[0, 9]");
  holds(text);
  fails_with({"run", file}, {"bad.json", "/nodes/2"});
}

}  // namespace
