// Fuzzes the cache entry's decoder with the bytes as they come and, because a wrong checksum would end nearly
// every run at once, with the header's fixed fields and the checksum put right. What decodes must be
// encodable, and the same then.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "jit/disk_entry.h"

namespace {

using namespace reprise::jit;

void decode(std::span<std::byte const> bytes, std::string_view key) {
  auto const found = decode_entry(bytes, key);
  if (found.entry.has_value() != (found.reason == miss::none)) std::abort();
  if (!found.entry) return;
  auto const again = decode_entry(encode_entry(key, *found.entry), key);
  if (!again.entry || *again.entry != *found.entry) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const raw = std::as_bytes(std::span(data, size));
  decode(raw, "key");

  // The input is what follows the fixed fields: key size, key, sections.
  static auto const empty = encode_entry("", {});
  std::vector<std::byte> bytes(empty.begin(), empty.begin() + 24);
  if (size > 0) bytes[12] = raw[0] & std::byte{7};  // the section count
  bytes.insert(bytes.end(), raw.begin(), raw.end());
  bytes.resize(std::max<std::size_t>(bytes.size(), 32) + 16);
  std::uint64_t const file_size = bytes.size();
  std::memcpy(bytes.data() + 16, &file_size, sizeof file_size);
  sign_entry(bytes);
  std::uint64_t key_size = 0;
  std::memcpy(&key_size, bytes.data() + 24, sizeof key_size);
  std::uint64_t const room = bytes.size() - 32 - 16;
  std::string_view const key(reinterpret_cast<char const*>(bytes.data() + 32), std::min(key_size, room));
  decode(bytes, key);
  return 0;
}
