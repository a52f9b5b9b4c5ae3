// What the environment asks of the runtime, read when a context is made. docs/environment.md lists all
// variables.
#pragma once

#include <string>
#include <string_view>

namespace reprise::jit {

struct settings {
  bool forbid_compile = false;  // REPRISE_FORBID=compile: compiling throws forbidden_error
  std::string dump_directory;   // REPRISE_DUMP
  bool log_trace = false, log_compile = false, log_cache = false,
       log_replay = false;  // REPRISE_LOG=trace,compile,cache,replay

  // Throws argument_error for a word that is none of those.
  static settings from_environment();
};

// One line on stderr: "reprise compile: ...". Whole lines, also from several threads.
void log_line(std::string_view topic, std::string_view text);

}  // namespace reprise::jit
