// A process that uses the disk cache: runs the programs and writes what happened to the file that it is
// given, so that stdout and stderr have only what the library says there. Exit code 3: an exception of ours,
// named in the file.
#include <cstdio>
#include <fstream>
#include <string_view>

#include "programs.h"

int main(int count, char** words) {
  if (count != 3) return 2;
  std::ofstream out(words[2]);
  try {
    reprise::context const ctx(reprise::device::cpu);
    reprise::use const here(ctx);
    std::uint64_t const sum = std::string_view(words[1]) == "one" ? process::run_one() : process::run_all();
    ctx.flush();
    out << "{\"checksum\": \"" << sum << "\", \"totals\": " << ctx.totals().json() << "}\n";
  } catch (reprise::forbidden_error const& e) {
    out << "forbidden: " << e.what() << "\n";
    return 3;
  } catch (reprise::error const& e) {
    out << "error: " << e.what() << "\n";
    return 4;
  }
  return out.flush() ? 0 : 5;
}
