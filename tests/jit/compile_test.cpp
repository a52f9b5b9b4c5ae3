// The whole recipe: golden files, random programs fused and not, and refusals.
//
// A golden case is a program, tests/golden/<name>.json, and <name>.expect: a head that says what must hold (a
// line "fact: number" is checked), a line "---", and then the kernels and the plan as text. REPRISE_ACCEPT=1
// writes the text anew, never the head.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <reprise/error.h>

#include "jit/programs.h"
#include "jit/run_plan.h"
#include "support/random_program.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

std::string read_file(fs::path const& p) {
  std::ifstream in(p);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::map<std::string, std::int64_t> facts_of(jit::plan const& p) {
  std::map<std::string, std::int64_t> f{
      {"steps", std::ssize(p.steps)}, {"edges", std::ssize(p.edges)}, {"arena bytes", p.arena_bytes}};
  for (char const* zero : {"kernels", "library calls", "alternatives", "copies", "phases", "locals",
                           "kernels along the grid", "results of kernels"})
    f[zero] = 0;
  for (jit::step const& s : p.steps) {
    f["alternatives"] += s.alternative >= 0;
    if (auto const* k = std::get_if<jit::kernel_step>(&s.work)) {
      jit::kernel const& code = p.kernels[k->kernel];
      ++f["kernels"];
      f["phases"] += std::ssize(code.phases);
      f["locals"] += std::ssize(code.locals);
      f["kernels along the grid"] += code.lanes == jit::lanes_along::grid;
      f["results of kernels"] += std::ssize(s.written);
    } else {
      ++f[std::holds_alternative<jit::copy_step>(s.work) ? "copies" : "library calls"];
    }
  }
  return f;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (fs::directory_entry const& e : fs::directory_iterator(fs::path(REPRISE_TEST_DATA) / "../golden"))
    if (e.path().extension() == ".json") names.push_back(e.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, PlanAndKernels) {
  fs::path const folder = fs::path(REPRISE_TEST_DATA) / "../golden";
  program const p = ir::canonical(ir::from_json(read_file(folder / (GetParam() + ".json"))));
  jit::plan const made = jit::compile(p, {});
  fs::path const file = folder / (GetParam() + ".expect");
  std::string const expected = read_file(file), line = "---\n";
  std::size_t const at = expected.find(line);
  ASSERT_NE(at, std::string::npos) << file << " has no head: say what must hold, then a line ---";
  std::string const head = expected.substr(0, at);

  std::map<std::string, std::int64_t> const facts = facts_of(made);
  std::istringstream lines(head);
  int checked = 0;
  for (std::string text; std::getline(lines, text);) {
    std::size_t const colon = text.find(": ");
    if (colon == std::string::npos) continue;
    auto const fact = facts.find(text.substr(0, colon));
    if (fact == facts.end()) continue;
    ++checked;
    EXPECT_EQ(std::to_string(fact->second), text.substr(colon + 2)) << fact->first;
  }
  EXPECT_GT(checked, 0) << "the head states no fact";

  std::string const body = jit::str(made);
  if (char const* accept = std::getenv("REPRISE_ACCEPT");
      accept != nullptr && std::string_view(accept) == "1") {
    std::ofstream(file) << head << line << body;
    return;
  }
  EXPECT_EQ(expected.substr(at + line.size()), body) << "REPRISE_ACCEPT=1 takes this as right";
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(golden_names()),
                         [](auto const& info) { return info.param; });

// What random programs compute, fused, and each operation alone, with generated products and with the
// library's.
void check_random(std::uint64_t seed, random_options const& options) {
  random_case const c = random_program(seed, options);
  SCOPED_TRACE(c.name);
  std::vector<host_tensor> fused;
  for (bool libraries : {false, true}) {
    jit::plan const p = jit::compile(c.code, {.libraries = libraries, .fuse = true});
    for (prefer which : {prefer::library, prefer::generated}) {
      std::vector<host_tensor> const got = run_plan(p, c.code, c.parameters, which);
      EXPECT_EQ(c.check(got), "") << (libraries ? "libraries" : "kernels only");
      if (!libraries) fused = got;
    }
  }
  std::vector<host_tensor> const alone =
      run_plan(jit::compile(c.code, {.libraries = false, .fuse = false}), c.code, c.parameters);
  for (std::size_t i = 0; i < alone.size(); ++i)
    EXPECT_EQ(difference(fused[i], alone[i]), "") << "fused and not, result " << i;
}

std::uint64_t seeds() {
  char const* many = std::getenv("REPRISE_SEEDS");
  return many != nullptr ? std::strtoull(many, nullptr, 10) : 60;
}

TEST(Compile, RandomExactProgramsHaveTheReferencesBits) {
  for (std::uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed)
    check_random(seed, {.inexact = false});
}

TEST(Compile, RandomProgramsKeepTheirBounds) {
  for (std::uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed)
    check_random(seed, {});
}

TEST(Compile, ThePlanIsAFunctionOfTheProgram) {
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    program const p = random_program(seed, {}).code;
    EXPECT_EQ(to_bytes(jit::compile(p, {})), to_bytes(jit::compile(p, {})));
  }
}

TEST(Compile, EveryStageIsShown) {
  std::vector<std::string> stages;
  jit::compile(softmax_program(3, 4), {}, [&](std::string_view stage, std::string const& text) {
    stages.emplace_back(stage);
    EXPECT_FALSE(text.empty());
  });
  EXPECT_EQ(stages, (std::vector<std::string>{"program", "simplified", "kernels", "plan"}));
}

TEST(Compile, RefusesWhatThisVersionDoesNotRun) {
  program p = softmax_program(3, 4);
  std::size_t const elements = static_cast<std::size_t>(p.nodes[1].shape.size());
  p.segments.insert(p.segments.begin(), ir::segment{2, {{1, std::vector<std::uint64_t>(elements)}}});
  EXPECT_THROW(jit::compile(p, {}), unsupported_error);
}

TEST(Compile, ADeepProgramNeedsNoDeepStack) {
  sketch s;
  node_id x = s.input(dtype::f32, {64});
  for (int i = 0; i < 100'000; ++i) x = s.add(op::add, {x, s.number(dtype::f32, 1 + i % 7)});
  jit::plan const p = jit::compile(s.done({x}), {});
  EXPECT_GT(p.kernels.size(), 40u);
}

}  // namespace
}  // namespace reprise::test
