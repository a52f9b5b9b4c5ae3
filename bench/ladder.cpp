// The ladder: each rung's result is checked, then timed by the protocol of peers/peers.py. `pipelined` is k
// calls and one wait, over k; `latency` one call and a wait; `first_call` compiles everything, since the disk
// cache is off. One JSON object a line.
#include "rungs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <reprise/reprise.h>

namespace {

struct times {
  double pipelined_us, latency_us, first_call_ms;
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  std::size_t const half = x.size() / 2;
  return x.size() % 2 ? x[half] : (x[half - 1] + x[half]) / 2;
}

template <class F>
double seconds_of(F&& work) {
  auto const start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

times measure(ladder::workload const& w, cuda::context const& ctx, double seconds) {
  auto const one_call = [&] {
    w.call();
    ctx.wait();
  };
  double const first = seconds_of(one_call);
  if (std::string const wrong = w.wrong(); !wrong.empty()) throw reprise::error("wrong result: " + wrong);

  for (int i = 0; i < 3; ++i) one_call();
  double const one = std::max(seconds_of(one_call), 1e-6);
  int const k = static_cast<int>(std::clamp(seconds / 5 / one, 1., 2000.));
  std::vector<double> pipelined, latency;
  for (int i = 0; i < 5; ++i)
    pipelined.push_back(seconds_of([&] {
                          for (int j = 0; j < k; ++j) w.call();
                          ctx.wait();
                        }) /
                        k);
  int const singles = static_cast<int>(std::clamp(seconds / one, 5., 200.));
  for (int i = 0; i < singles; ++i) latency.push_back(seconds_of(one_call));
  if (std::string const wrong = w.wrong(); !wrong.empty())
    throw reprise::error("wrong after replays: " + wrong);
  return {median(pipelined) * 1e6, median(latency) * 1e6, first * 1e3};
}

std::vector<ladder::rung> chosen(std::vector<std::string> const& names) {
  auto const all = ladder::rungs();
  std::vector<ladder::rung> some;
  for (std::string const& name : names) {
    auto const found = std::find_if(all.begin(), all.end(), [&](auto const& r) { return name == r.name; });
    if (found == all.end()) throw reprise::argument_error("there is no rung " + name);
    some.push_back(*found);
  }
  return names.empty() ? std::vector(all.begin(), all.end()) : some;
}

// How many rungs failed. Each has a context of its own, so that its first call finds nothing in memory
// either.
int climb(std::vector<ladder::rung> const& rungs, reprise::context_options const& where, double scale,
          double seconds, std::string const& file) {
  std::ofstream out;
  if (!file.empty()) {
    out.open(file);
    if (!out) throw reprise::error(file + ": cannot be written");
  }
  int failed = 0;
  for (ladder::rung const& r : rungs) {
    cuda::context const ctx(where);
    cuda::use const here(ctx);
    cuda::require_device const only(ctx, ctx.device());
    std::string line;
    try {
      times const t = measure(r.make(scale), ctx, seconds);
      line = fmt::format(
          R"({{"workload": "{}", "peer": "reprise", "pipelined_us": {:.2f}, "latency_us": {:.2f}, "first_call_ms": {:.1f}}})",
          r.name, t.pipelined_us, t.latency_us, t.first_call_ms);
    } catch (std::exception const& e) {
      ++failed;
      line = nlohmann::json{{"workload", r.name}, {"peer", "reprise"}, {"error", e.what()}}.dump();
    }
    std::cout << line << std::endl;
    if (out.is_open()) out << line << std::endl;
  }
  if (out.is_open() && !out) throw reprise::error(file + ": cannot be written");
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The benchmark ladder. Exit status 1: a rung failed or gave a wrong result."};
  std::vector<std::string> only;
  std::string file;
  double scale = 1, seconds = 0.25;
  auto device = reprise::device::cpu;
  std::map<std::string, reprise::device> const devices{{"cpu", reprise::device::cpu},
                                                       {"gpu", reprise::device::gpu}};
  app.add_option("--device", device, "cpu or gpu")->transform(CLI::CheckedTransformer(devices));
  app.add_option("--only", only, "these rungs, separated by commas")->delimiter(',');
  app.add_option("--scale", scale, "fraction of the large sizes, for a small CPU")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", seconds, "how long to measure each rung")->check(CLI::PositiveNumber);
  app.add_option("--out", file, "also write the lines to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    reprise::context_options const where{.device = device, .cache_directory = {}, .disk_cache = false};
    return climb(chosen(only), where, scale, seconds, file) == 0 ? 0 : 1;
  } catch (std::exception const& e) {
    std::cerr << "ladder: " << e.what() << '\n';
    return 1;
  }
}
