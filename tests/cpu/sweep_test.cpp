// Compiled equals reference: the sweep over every row, dtype and layout, and random programs, through the
// whole recipe and LLVM, held against the reference interpreter. Each program runs with libraries and
// without, fused and not, on one thread and on three, and as loaded from bytes; where the numbers are fixed,
// all of these must be the same bits. Parameters and results lie between canaries, in memory that holds junk
// before.
//
// REPRISE_SWEEP is the number of cases of each kind ("all": every one of the sweep), REPRISE_TEST_SEED the
// seed that picks them, and REPRISE_SWEEP_ONLY a prefix of their names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "jit/cpu/backend.h"
#include "jit/cpu/emit.h"
#include "support/random_program.h"
#include "support/sweep.h"

namespace reprise::test {
namespace {

std::string_view setting(char const* name) {
  char const* const text = std::getenv(name);
  return text ? text : "";
}

std::uint64_t seed_of_run() {
  return setting("REPRISE_TEST_SEED").empty() ? 1
                                              : std::strtoull(std::getenv("REPRISE_TEST_SEED"), nullptr, 10);
}

std::uint64_t cases_of_run(std::uint64_t usual) {
  std::string_view const text = setting("REPRISE_SWEEP");
  if (text.empty()) return usual;
  return text == "all" ? std::uint64_t{1} << 20 : std::strtoull(text.data(), nullptr, 10);
}

// A block of bytes, aligned as arrays are, between two canaries.
class fenced {
 public:
  explicit fenced(std::size_t bytes) : bytes_(bytes), all_(bytes + 3 * margin, junk) {}
  explicit fenced(std::vector<std::byte> const& content) : fenced(content.size()) {
    if (bytes_ != 0) std::memcpy(data(), content.data(), bytes_);
  }
  std::byte* data() {
    return all_.data() + margin + (margin - reinterpret_cast<std::uintptr_t>(all_.data()) % margin) % margin;
  }
  std::vector<std::byte> content() { return {data(), data() + bytes_}; }
  bool whole() {
    std::byte* const first = data();
    auto const is_junk = [](std::byte b) { return b == junk; };
    return std::all_of(all_.data(), first, is_junk) &&
           std::all_of(first + bytes_, all_.data() + all_.size(), is_junk);
  }

 private:
  static constexpr std::size_t margin = 256;
  static constexpr std::byte junk{0xa5};
  std::size_t bytes_;
  std::vector<std::byte> all_;
};

enum class booleans { clean, any_byte };  // how "true" is written in parameters

struct outcome {
  std::vector<host_tensor> results;
  std::string wrong;  // with the memory around them
};

outcome run(jit::executable& e, program const& code, std::vector<host_tensor> const& parameters,
            booleans how = booleans::clean) {
  std::vector<fenced> in, out;
  std::vector<std::vector<std::byte>> given;
  std::vector<std::uint64_t> scalars;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    bool const lifted = code.parameters[i].role == ir::parameter_role::lifted;
    scalars.push_back(lifted ? parameters[i].bits(0) : 0);
    given.push_back(parameters[i].bytes);
    if (how == booleans::any_byte && parameters[i].type.type == dtype::boolean)
      for (std::size_t k = 0; k < given[i].size(); ++k)
        if (given[i][k] != std::byte{0}) given[i][k] = std::byte{static_cast<unsigned char>(1 + k % 255)};
    in.emplace_back(given[i]);
  }
  outcome done;
  for (ir::result const& r : code.results) {
    done.results.push_back(make_tensor(code.type_of(r.value)));
    out.emplace_back(done.results.back().bytes.size());
  }
  std::vector<void*> from, to;
  for (std::size_t i = 0; i < in.size(); ++i)
    from.push_back(code.parameters[i].role == ir::parameter_role::lifted ? nullptr : in[i].data());
  for (fenced& r : out) to.push_back(r.data());
  e.run({from, to, scalars});
  for (std::size_t i = 0; i < in.size(); ++i)
    if (!in[i].whole() || in[i].content() != given[i])
      done.wrong += fmt::format("parameter {} or what is around it was written\n", i);
  for (std::size_t i = 0; i < out.size(); ++i) {
    done.results[i].bytes = out[i].content();
    if (!out[i].whole()) done.wrong += fmt::format("something next to result {} was written\n", i);
    if (done.results[i].type.type != dtype::boolean) continue;
    for (std::byte& x : done.results[i].bytes) {
      if (how == booleans::clean && x > std::byte{1}) {
        done.wrong += fmt::format("result {} holds a boolean that is neither 0 nor 1\n", i);
        break;
      }
      x = std::byte{x != std::byte{0}};  // a copy of an odd byte may be that byte
    }
  }
  return done;
}

std::string differences(std::vector<host_tensor> const& got, std::vector<host_tensor> const& want) {
  std::string text;
  for (std::size_t i = 0; i < want.size(); ++i)
    if (std::string const d = difference(got[i], want[i]); !d.empty())
      text += fmt::format("result {}: {}\n", i, d);
  return text;
}

bool is_exact(program const& p) {
  return std::none_of(p.nodes.begin(), p.nodes.end(), [](ir::node const& n) {
    ir::op_info const& row = ir::info(n.code);
    return row.kind == ir::category::library || (row.ulps > 0 && is_floating(n.type));
  });
}

std::unique_ptr<jit::backend> separate_backend() {
  setenv("REPRISE_ARENA", "separate", 1);
  auto made = cpu::make_backend(2);
  unsetenv("REPRISE_ARENA");
  return made;
}

// The same code, whose work is shared among threads however little it is.
jit::sections divided(jit::sections code) {
  for (auto& [name, bytes] : code) {
    if (name != "launches") continue;
    std::vector<cpu::launch> launches(bytes.size() / sizeof(cpu::launch));
    if (bytes.empty()) continue;
    std::memcpy(launches.data(), bytes.data(), bytes.size());
    for (cpu::launch& l : launches) l.grain = 1;
    std::memcpy(bytes.data(), launches.data(), bytes.size());
  }
  return code;
}

// The backends that all cases share.
struct bench {
  std::unique_ptr<jit::backend> one = cpu::make_backend(1), three = cpu::make_backend(3),
                                separate = separate_backend();
  int programs = 0, builds = 0;

  struct built {
    jit::plan plan;
    jit::sections code;
    std::unique_ptr<jit::executable> run;
  };
  built build(program const& code, jit::compile_options const& o) {
    built b{jit::compile(code, o), {}, nullptr};
    jit::counters c;
    b.run = one->build(b.plan, b.code, c);
    ++builds;
    return b;
  }

  // What is wrong with the program as compiled; `check` judges its results.
  template <class Case>
  std::string wrong(Case const& c) {
    ++programs;
    std::string text;
    auto const note = [&](char const* what, std::string const& how) {
      if (!how.empty()) text += std::string(what) + ": " + how + "\n";
    };
    try {
      ir::verify_runnable(c.code);
      bool const exact = is_exact(c.code);

      built const plain = build(c.code, {.libraries = false, .fuse = true});
      outcome const want = run(*plain.run, c.code, c.parameters);
      note("fused", want.wrong + c.check(want.results));
      auto const same = [&](char const* what, outcome const& got) {
        note(what, got.wrong + differences(got.results, want.results));
      };
      same("again", run(*plain.run, c.code, c.parameters, booleans::any_byte));

      // another process, other threads, every temporary in memory of its own that holds nan
      jit::plan const read = jit::from_bytes(to_bytes(plain.plan));
      jit::counters counted;
      same("loaded, three threads",
           run(*three->load(read, divided(plain.code), counted), c.code, c.parameters, booleans::any_byte));
      same("loaded, separate memory", run(*separate->load(read, plain.code, counted), c.code, c.parameters));
      if (counted.llvm_compiles != 0) text += "loading compiled something\n";

      bool const libraries = std::any_of(c.code.nodes.begin(), c.code.nodes.end(), [](ir::node const& n) {
        return ir::info(n.code).kind == ir::category::library;
      });
      if (libraries) {
        built const called = build(c.code, {.libraries = true, .fuse = true});
        outcome const first = run(*called.run, c.code, c.parameters);
        note("with libraries", first.wrong + c.check(first.results));
        jit::plan const again = jit::from_bytes(to_bytes(called.plan));
        outcome const second = run(*one->load(again, called.code, counted), c.code, c.parameters);
        note("with libraries, loaded", second.wrong + differences(second.results, first.results));
        outcome const third = run(*three->load(again, divided(called.code), counted), c.code, c.parameters);
        note("with libraries, loaded, three threads", third.wrong + c.check(third.results));
      }

      built const alone = build(c.code, {.libraries = false, .fuse = false});
      outcome const unfused = run(*alone.run, c.code, c.parameters);
      if (exact) same("not fused", unfused);
      else note("not fused", unfused.wrong + c.check(unfused.results));
    } catch (std::exception const& e) { text += std::string("thrown: ") + e.what() + "\n"; }
    return text.empty() ? text : c.name + "\n" + text;
  }
};

// Which cases of `count` are taken: all, or about `wanted` of them by the seed of the run.
bool taken(std::string const& name, std::uint64_t wanted, std::uint64_t count) {
  std::uint64_t hash = seed_of_run() ^ 0xcbf29ce484222325;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return (hash >> 20) % count < wanted;
}

TEST(compiled, sweep) {
  bench all;
  std::string const only(setting("REPRISE_SWEEP_ONLY"));
  std::uint64_t count = 0;
  std::uint64_t const wanted = cases_of_run(150);
  int const total = for_each_case([&](sweep_case const&) { ++count; }, {.only = only});
  for_each_case(
      [&](sweep_case const& c) {
        if (taken(c.name, wanted, count)) { EXPECT_EQ(all.wrong(c), ""); }
      },
      {.only = only});
  EXPECT_GT(total, 0);
  std::cout << "compiled: " << all.programs << " of " << total << " cases, " << all.builds << " builds\n";
}

// Few dtypes in a program make its operations meet, many make casts.
void check_random(random_options options, std::uint64_t usual) {
  using enum dtype;
  std::vector<std::vector<dtype>> const dtypes{
      all_dtypes(), {f32}, {f32, i64, boolean}, {f16, bf16, f32}, {f64, i32, u8}};
  bench all;
  std::uint64_t const first = seed_of_run() * 1000,
                      count = std::min<std::uint64_t>(cases_of_run(usual), 100000);
  std::cout << "random programs: seeds " << first << " to " << first + count - 1 << "\n";
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    options.dtypes = dtypes[seed % dtypes.size()];
    EXPECT_EQ(all.wrong(random_program(seed, options)), "");
  }
  EXPECT_EQ(static_cast<std::uint64_t>(all.programs), count);
  std::cout << "compiled: " << all.programs << " programs, " << all.builds << " builds\n";
}

// One program from a file, for who looks into a failure: REPRISE_SWEEP_PROGRAM names the JSON.
TEST(compiled, named_program) {
  std::string const file(setting("REPRISE_SWEEP_PROGRAM"));
  if (file.empty()) GTEST_SKIP() << "no REPRISE_SWEEP_PROGRAM";
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  program const code = canonical(ir::from_json(text.str()));
  random_engine r(seed_of_run());
  bench all;
  EXPECT_EQ(all.wrong(random_case{file, code, random_parameters(r, code, {.spread = 0.5})}), "");
  std::cout << str(jit::compile(code, {.libraries = false}));
}

TEST(compiled, random_exact_programs) { check_random({.inexact = false}, 100); }
TEST(compiled, random_programs) { check_random({}, 100); }
TEST(compiled, random_long_programs) { check_random({.min_nodes = 100, .max_nodes = 150}, 5); }

// Arrays that several threads share, whose rows are cut and whose reductions have many blocks.
TEST(compiled, random_programs_of_large_arrays) {
  check_random({.min_nodes = 5, .max_nodes = 15, .max_elements = 300'000}, 60);
}

}  // namespace
}  // namespace reprise::test
