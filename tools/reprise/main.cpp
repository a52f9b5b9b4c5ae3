// reprise: programs from the command line. A trace that was written as JSON, by `f.json()`, REPRISE_DUMP or
// by hand, is read by people (show), run on .npy files (run) and timed (time), in a process of its own.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "arguments.h"
#include "execution.h"
#include "jit/cpu/backend.h"
#include "jit/plan.h"
#include "listing.h"
#include "trace/npy.h"

namespace {

using namespace reprise;

void show(std::string const& file, bool stages) {
  ir::program const p = cli::read_program(file);
  std::cout << cli::listing(p);
  if (!stages) return;
  ir::verify_runnable(p);
  // A stage that gives a program gives it as JSON; people get the listing.
  auto const print = [](std::string_view stage, std::string const& text) {
    std::cout << "\n== " << stage << '\n'
              << (text.starts_with('{') ? cli::listing(ir::from_json(text)) : text);
  };
  jit::compile(ir::canonical(p, ir::constants::apart), cpu::make_backend()->options(), print);
}

void run(std::string const& file, std::vector<std::string> const& in, std::vector<std::string> const& out) {
  ir::program const p = cli::read_program(file);
  auto const wanted = cli::destinations(p, out);
  cli::execution work(p, cli::read_parameters(p, in));
  work.run();
  for (auto const& d : wanted)
    ir::write_npy(d.file, p.type_of(p.results[d.result].value), work.result(d.result));
  if (wanted.empty())
    for (std::size_t i = 0; i < p.results.size(); ++i)
      std::cout << (p.results[i].name.empty() ? std::to_string(i) : p.results[i].name) << " = "
                << cli::array_text(p.type_of(p.results[i].value), work.result(i)) << '\n';
  work.flush();
}

void time(std::string const& file, std::vector<std::string> const& in, double seconds) {
  using clock = std::chrono::steady_clock;
  ir::program const p = cli::read_program(file);
  cli::execution work(p, cli::made_up_parameters(p, in));
  auto const one_run = [&] {
    auto const start = clock::now();
    work.run();
    return std::chrono::duration<double, std::micro>(clock::now() - start).count();
  };
  double const first = one_run();
  auto const counts = work.counts();
  std::vector<double> replays;
  auto const end = clock::now() + std::chrono::duration<double>(seconds);
  do replays.push_back(one_run());
  while (clock::now() < end && replays.size() < 1'000'000);
  auto const middle = replays.begin() + static_cast<std::ptrdiff_t>(replays.size() / 2);
  std::nth_element(replays.begin(), middle, replays.end());
  std::cout << fmt::format("{}\n", work.device())
            << fmt::format("first call    {:.3f} ms ({})\n", first / 1e3,
                           counts.disk_hits > 0 ? "loaded from the disk cache"
                                                : fmt::format("{} kernels compiled", counts.kernels_compiled))
            << fmt::format("replay        {:.3f} us, the median of {}\n", *middle, replays.size())
            << fmt::format("in each call  {} kernels, {} library calls\n", counts.kernel_launches,
                           counts.library_calls);
  work.flush();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Programs that reprise recorded: seen, run and timed.", "reprise"};
  app.require_subcommand(0, 1);  // 1 would answer an unknown word with "a subcommand is required"
  std::string file;
  std::vector<std::string> in, out;
  bool stages = false;
  double seconds = 0.5;

  auto const takes_program = [&](CLI::App* sub) {
    sub->add_option("program", file, "a trace as JSON")->required();
  };
  auto const takes_inputs = [&](CLI::App* sub, char const* what) {
    sub->add_option("--in", in, what)->allow_extra_args(false);
  };

  auto* const show_command = app.add_subcommand("show", "write a program as text");
  takes_program(show_command);
  show_command->add_flag("--stages", stages, "also what each stage of compiling it makes of it");

  auto* const run_command = app.add_subcommand("run", "run a program on arrays in .npy files");
  takes_program(run_command);
  takes_inputs(run_command,
               "NAME=FILE.npy or INDEX=FILE.npy: the value of a parameter; of one of rank 0 also a number");
  run_command
      ->add_option("--out", out,
                   "NAME=FILE.npy or INDEX=FILE.npy: where to write a result; without it all are printed")
      ->allow_extra_args(false);

  auto* const time_command = app.add_subcommand("time", "time the first call of a program, and its replays");
  takes_program(time_command);
  takes_inputs(time_command, "as for run; parameters that are not given get made-up values");
  time_command->add_option("--seconds", seconds, "how long to replay")->check(CLI::Range(0.0, 3600.0));

  auto* const ops_command = app.add_subcommand("ops", "list the operations");

  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("one of show, run, time, ops");
  } catch (CLI::ParseError const& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    std::cerr << "reprise: " << e.what() << " (reprise --help says what there is)\n";
    return 1;
  }
  try {
    if (*show_command) show(file, stages);
    if (*run_command) run(file, in, out);
    if (*time_command) time(file, in, seconds);
    if (*ops_command) std::cout << cli::operation_table();
    if (!std::cout.flush()) throw error("the output cannot be written");
    return 0;
  } catch (std::exception const& e) {
    std::cerr << "reprise: " << e.what() << '\n';
    return 1;
  }
}
