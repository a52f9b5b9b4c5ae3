#include "jit/settings.h"

#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include <reprise/error.h>

namespace reprise::jit {

namespace {

template <class F>
void each_word(char const* variable, F take) {
  char const* const text = std::getenv(variable);
  if (!text) return;
  std::string_view rest = text;
  while (!rest.empty()) {
    auto const comma = rest.find(',');
    std::string_view const word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (!word.empty() && !take(word))
      throw argument_error(fmt::format("{}={}: there is no '{}'", variable, text, word));
  }
}

}  // namespace

settings settings::from_environment() {
  settings s;
  each_word("REPRISE_FORBID",
            [&](std::string_view w) { return w == "compile" ? (s.forbid_compile = true) : false; });
  each_word("REPRISE_LOG", [&](std::string_view w) {
    if (w == "trace") return s.log_trace = true;
    if (w == "compile") return s.log_compile = true;
    if (w == "cache") return s.log_cache = true;
    if (w == "replay") return s.log_replay = true;
    return false;
  });
  if (char const* d = std::getenv("REPRISE_DUMP")) s.dump_directory = d;
  return s;
}

void log_line(std::string_view topic, std::string_view text) {
  std::string const line = fmt::format("reprise {}: {}\n", topic, text);
  // One write a line. A log that cannot be written changes nothing.
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace reprise::jit
