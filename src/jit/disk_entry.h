// One cache entry as bytes: named binary sections under a key, self-describing and checksummed, so that a
// file that was cut short, bent or swapped is a miss with a reason and never a wrong entry. The decoder is
// safe on arbitrary bytes, also on ones with a valid checksum (which is against accidents and is no
// signature): every length is bounded by the bytes that are really there before anything is allocated.
//
//   0   magic[8]   version u32   section count u32   file size u64   key size u64
//   32  key material
//   ..  a section: name size u32, codec u32, stored size u64, raw size u64, name, stored bytes
//   end xxh3-128 of everything before it, canonical order; all numbers little-endian
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::jit {

struct cache_entry {
  std::vector<std::pair<std::string, std::vector<std::byte>>> sections;  // e.g. "plan", "objects", "tuning"

  std::vector<std::byte> const* section(std::string_view name) const;  // null when there is none of this name
  bool operator==(cache_entry const&) const = default;
};

// Every reason for which a lookup finds nothing. `deletes` says whether the entry's file goes with it: what
// is wrong in itself does, what could not be read just now stays. A wrong version goes too: the generator
// version is part of the key and covers this format, so no other build of ours owns a file of that name.
// clang-format off
#define REPRISE_CACHE_MISSES(row)                                                              \
  /*  name            deletes  what it means */                                                \
  row(none,           false,   "found")                                                        \
  row(absent,         false,   "no entry of this key")                                         \
  row(unreadable,     false,   "the entry could not be read")                                  \
  row(wrong_version,  true,    "the entry has another format version")                         \
  row(wrong_key,      true,    "the entry was made for another key")                           \
  row(corrupt,        true,    "the entry is damaged")                                         \
  row(untrusted,      true,    "the entry is no plain file that only this user may write")     \
  row(folder_refused, false,   "the cache folder cannot be used")                              \
  row(disabled,       false,   "the cache is off")
// clang-format on

enum class miss : std::uint8_t {
#define REPRISE_ROW(name, deletes, sentence) name,
  REPRISE_CACHE_MISSES(REPRISE_ROW)
#undef REPRISE_ROW
};

#define REPRISE_ROW(name, deletes, sentence) +1
inline constexpr std::size_t miss_count = REPRISE_CACHE_MISSES(REPRISE_ROW);
#undef REPRISE_ROW

std::string_view to_string(miss reason);    // the enumerator's name
std::string_view sentence_of(miss reason);  // what it means, for a log
bool deletes_entry(miss reason);

struct lookup {
  std::optional<cache_entry> entry;
  miss reason = miss::none;  // none exactly when there is an entry
  std::string detail;        // what was seen where, empty when there is nothing more to say
};

struct entry_limits {
  // Of a file, and of all its sections unpacked.
  static constexpr std::uint64_t bytes = std::uint64_t{1} << 30;
  static constexpr std::uint32_t sections = 256;
  static constexpr std::uint32_t name_bytes = 255;
  // Of a packed section, at most: zstd needs 4 bytes for a block of 128 KiB. So a small file asks for little
  // memory.
  static constexpr std::uint64_t expansion = 32768;
};

inline constexpr std::uint32_t entry_format_version = 1;

// Throws argument_error when the entry is beyond entry_limits or has an empty or repeated section name.
std::vector<std::byte> encode_entry(std::string_view key_material, cache_entry const& entry);

// Throws nothing but std::bad_alloc.
lookup decode_entry(std::span<std::byte const> bytes, std::string_view key_material);

// Writes the checksum over all but the last 16 bytes into those; nothing when there are fewer.
void sign_entry(std::span<std::byte> bytes);

// xxh3-128 of the key material in hex: the stem of the entry's file and its name in the log.
std::string key_name(std::string_view key_material);

}  // namespace reprise::jit
