// Fuzzes the reader of stored plans, with the bytes as they come and behind the magic and the version. What
// is read must be written, and read as the same again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "jit/plan.h"
#include "reprise/error.h"

namespace {

void read(std::string const& bytes) {
  try {
    std::string const once = reprise::jit::to_bytes(reprise::jit::from_bytes(bytes));
    std::string const twice = reprise::jit::to_bytes(reprise::jit::from_bytes(once));
    if (once != twice) std::abort();
  } catch (reprise::format_error const&) {}
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const bytes(reinterpret_cast<char const*>(data), size);
  read(bytes);
  static std::string const head = reprise::jit::to_bytes({}).substr(0, 5);
  read(head + bytes);
  return 0;
}
