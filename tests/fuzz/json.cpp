// Fuzzes the JSON reader: any bytes give a program or a format_error. A program that was read is legal, is
// written as text that reads back as the same work, and its canonical form is legal and its own canonical
// form.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <reprise/error.h>

#include "trace/program.h"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace reprise::ir;
  program p;
  try {
    p = from_json({reinterpret_cast<char const*>(data), size});
  } catch (reprise::format_error const&) { return 0; }
  std::string const key = key_bytes(p), text = to_json(p);
  program const again = from_json(text);
  if (key_bytes(again) != key || to_json(again) != text) std::abort();
  program const c = canonical(p);
  verify(c);
  if (key_bytes(canonical(c)) != key_bytes(c)) std::abort();
  return 0;
}
