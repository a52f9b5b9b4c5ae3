// Where in the user's source an operation was written. std::source_location is missing in clang 14 with
// libstdc++ 12.
#pragma once

namespace reprise::inline v1 {

struct location {
  char const* file = "";
  int line = 0;
  static constexpr location current(char const* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace reprise::inline v1
