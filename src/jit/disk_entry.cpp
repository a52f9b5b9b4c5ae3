// The entry format, written and read. The reader is one cursor that only moves inside the bytes it was given.
#include "jit/disk_entry.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>

#include "reprise/error.h"

namespace reprise::jit {
namespace {

constexpr std::array<char, 8> magic{'r', 'e', 'p', 'r', 'i', 's', 'e', '\x1a'};
constexpr std::size_t header_bytes = 32;
constexpr std::size_t file_size_offset = 16;
constexpr std::size_t section_header_bytes = 24;
constexpr std::size_t checksum_bytes = sizeof(XXH128_canonical_t);
constexpr std::size_t worth_packing_bytes = 128;
constexpr int zstd_level = 3;

enum class codec : std::uint32_t { plain, zstd };

XXH128_canonical_t checksum_of(std::span<std::byte const> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return canonical;
}

template <std::unsigned_integral T>
void put(std::vector<std::byte>& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
}

void put(std::vector<std::byte>& out, std::span<std::byte const> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::span<std::byte const> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string_view text_of(std::span<std::byte const> bytes) {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

class cursor {
 public:
  explicit cursor(std::span<std::byte const> bytes) : rest_(bytes) {}

  std::size_t left() const { return rest_.size(); }

  std::optional<std::span<std::byte const>> take(std::uint64_t count) {
    if (count > rest_.size()) return std::nullopt;
    auto const taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  // Only where left() has been checked.
  template <std::unsigned_integral T>
  T number() {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(rest_[i]) << (8 * i));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }

 private:
  std::span<std::byte const> rest_;
};

lookup missed(miss reason, std::string detail) { return {std::nullopt, reason, std::move(detail)}; }

// Empty when packing does not pay, or when the reader would refuse so high a ratio.
std::vector<std::byte> packed(std::span<std::byte const> raw) {
  if (raw.size() < worth_packing_bytes) return {};
  std::vector<std::byte> out(ZSTD_compressBound(raw.size()));
  std::size_t const size = ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), zstd_level);
  if (ZSTD_isError(size) || size + size / 8 >= raw.size() || raw.size() / size >= entry_limits::expansion)
    return {};
  out.resize(size);
  return out;
}

void check_encodable(std::string_view key_material, cache_entry const& entry) {
  if (entry.sections.size() > entry_limits::sections)
    throw argument_error(fmt::format("cache entry: {} sections, at most {} are allowed",
                                     entry.sections.size(), entry_limits::sections));
  std::uint64_t file = header_bytes + checksum_bytes + key_material.size();
  std::vector<std::string_view> names;
  for (auto const& [name, bytes] : entry.sections) {
    if (name.empty() || name.size() > entry_limits::name_bytes)
      throw argument_error(fmt::format("cache entry: a section name has {} bytes, 1 to {} are allowed",
                                       name.size(), entry_limits::name_bytes));
    names.push_back(name);
    file += section_header_bytes + name.size() + bytes.size();
  }
  std::ranges::sort(names);
  if (auto const twice = std::ranges::adjacent_find(names); twice != names.end())
    throw argument_error(fmt::format("cache entry: two sections are named '{}'", *twice));
  if (file > entry_limits::bytes)
    throw argument_error(
        fmt::format("cache entry: {} bytes, at most {} are allowed", file, entry_limits::bytes));
}

}  // namespace

std::vector<std::byte> const* cache_entry::section(std::string_view name) const {
  auto const found =
      std::ranges::find(sections, name, [](auto const& s) { return std::string_view(s.first); });
  return found == sections.end() ? nullptr : &found->second;
}

std::string_view to_string(miss reason) {
  switch (reason) {
#define REPRISE_ROW(name, deletes, sentence) \
  case miss::name: return #name;
    REPRISE_CACHE_MISSES(REPRISE_ROW)
#undef REPRISE_ROW
  }
  return "?";
}

std::string_view sentence_of(miss reason) {
  switch (reason) {
#define REPRISE_ROW(name, deletes, sentence) \
  case miss::name: return sentence;
    REPRISE_CACHE_MISSES(REPRISE_ROW)
#undef REPRISE_ROW
  }
  return "?";
}

bool deletes_entry(miss reason) {
  switch (reason) {
#define REPRISE_ROW(name, deletes, sentence) \
  case miss::name: return deletes;
    REPRISE_CACHE_MISSES(REPRISE_ROW)
#undef REPRISE_ROW
  }
  return false;
}

void sign_entry(std::span<std::byte> bytes) {
  if (bytes.size() < checksum_bytes) return;
  auto const body = bytes.first(bytes.size() - checksum_bytes);
  auto const checksum = checksum_of(body);
  std::memcpy(bytes.data() + body.size(), &checksum, checksum_bytes);
}

std::string key_name(std::string_view key_material) {
  auto const hash = checksum_of(bytes_of(key_material));
  std::string name;
  for (unsigned char const byte : hash.digest) name += fmt::format("{:02x}", byte);
  return name;
}

std::vector<std::byte> encode_entry(std::string_view key_material, cache_entry const& entry) {
  check_encodable(key_material, entry);
  std::vector<std::byte> out;
  put(out, std::as_bytes(std::span(magic)));
  put(out, entry_format_version);
  put(out, static_cast<std::uint32_t>(entry.sections.size()));
  put(out, std::uint64_t{0});  // the file's size, known at the end
  put(out, static_cast<std::uint64_t>(key_material.size()));
  put(out, bytes_of(key_material));
  for (auto const& [name, raw] : entry.sections) {
    auto const small = packed(raw);
    std::span<std::byte const> const stored = small.empty() ? std::span(raw) : std::span(small);
    put(out, static_cast<std::uint32_t>(name.size()));
    put(out, static_cast<std::uint32_t>(small.empty() ? codec::plain : codec::zstd));
    put(out, static_cast<std::uint64_t>(stored.size()));
    put(out, static_cast<std::uint64_t>(raw.size()));
    put(out, bytes_of(name));
    put(out, stored);
  }
  out.resize(out.size() + checksum_bytes);
  std::uint64_t const size = out.size();
  for (std::size_t i = 0; i < sizeof size; ++i)
    out[file_size_offset + i] = static_cast<std::byte>(size >> (8 * i) & 0xff);
  sign_entry(out);
  return out;
}

lookup decode_entry(std::span<std::byte const> bytes, std::string_view key_material) {
  auto const corrupt = [](std::string detail) { return missed(miss::corrupt, std::move(detail)); };
  if (bytes.size() < header_bytes + checksum_bytes)
    return corrupt(fmt::format("{} bytes are too few for an entry", bytes.size()));
  if (bytes.size() > entry_limits::bytes)
    return corrupt(fmt::format("{} bytes are more than an entry may have", bytes.size()));
  if (std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    return corrupt("it does not start as an entry");

  auto const body = bytes.first(bytes.size() - checksum_bytes);
  cursor in(body.subspan(magic.size()));
  auto const version = in.number<std::uint32_t>();
  if (version != entry_format_version)
    return missed(miss::wrong_version, fmt::format("version {}, expected {}", version, entry_format_version));
  auto const section_count = in.number<std::uint32_t>();
  auto const file_size = in.number<std::uint64_t>();
  auto const key_size = in.number<std::uint64_t>();
  if (file_size != bytes.size())
    return corrupt(fmt::format("{} of {} bytes are there", bytes.size(), file_size));
  auto const checksum = checksum_of(body);
  if (std::memcmp(&checksum, bytes.data() + body.size(), checksum_bytes) != 0)
    return corrupt("its checksum is wrong");

  auto const key = in.take(key_size);
  if (!key) return corrupt(fmt::format("a key of {} bytes in {} bytes", key_size, in.left()));
  if (text_of(*key) != key_material)
    return missed(miss::wrong_key,
                  fmt::format("its key has {} bytes, this one {}", key_size, key_material.size()));

  if (section_count > entry_limits::sections) return corrupt(fmt::format("{} sections", section_count));
  cache_entry entry;
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < section_count; ++i) {
    if (in.left() < section_header_bytes) return corrupt(fmt::format("section {} is cut short", i));
    auto const name_size = in.number<std::uint32_t>();
    auto const how = in.number<std::uint32_t>();
    auto const stored_size = in.number<std::uint64_t>();
    auto const raw_size = in.number<std::uint64_t>();
    if (name_size == 0 || name_size > entry_limits::name_bytes)
      return corrupt(fmt::format("section {} has a name of {} bytes", i, name_size));
    auto const name = in.take(name_size);
    if (!name) return corrupt(fmt::format("the name of section {} is cut short", i));
    if (entry.section(text_of(*name)) != nullptr) return corrupt(fmt::format("section {} repeats a name", i));
    auto const stored = in.take(stored_size);
    if (!stored)
      return corrupt(fmt::format("section {} has {} bytes, {} are left", i, stored_size, in.left()));
    if (raw_size > entry_limits::bytes - total) return corrupt(fmt::format("section {} is too large", i));
    total += raw_size;

    std::vector<std::byte> raw;
    if (how == static_cast<std::uint32_t>(codec::plain)) {
      if (raw_size != stored_size) return corrupt(fmt::format("section {} has two sizes", i));
      raw.assign(stored->begin(), stored->end());
    } else if (how == static_cast<std::uint32_t>(codec::zstd)) {
      if (stored_size == 0 || stored_size >= raw_size || raw_size / stored_size >= entry_limits::expansion)
        return corrupt(fmt::format("section {} unpacks {} bytes to {}", i, stored_size, raw_size));
      raw.resize(raw_size);
      std::size_t const got = ZSTD_decompress(raw.data(), raw.size(), stored->data(), stored->size());
      if (ZSTD_isError(got) || got != raw_size) return corrupt(fmt::format("section {} does not unpack", i));
    } else {
      return corrupt(fmt::format("section {} has the unknown codec {}", i, how));
    }
    entry.sections.emplace_back(std::string(text_of(*name)), std::move(raw));
  }
  if (in.left() != 0) return corrupt(fmt::format("{} bytes too many", in.left()));
  return {std::move(entry), miss::none, {}};
}

}  // namespace reprise::jit
