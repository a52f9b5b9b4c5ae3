// The entry format: what was written is read, and no bytes whatsoever are read as something that was not
// written.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>

#include "cache/support.h"
#include "reprise/error.h"

namespace {
// The largest allocation of this program since it was last set to 0: lengths in an entry must not cause any.
std::atomic<std::size_t> largest_allocation{0};
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  auto seen = largest_allocation.load();
  while (size > seen && !largest_allocation.compare_exchange_weak(seen, size)) {}
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace reprise::jit {
namespace {

using namespace testing;

constexpr std::size_t header_bytes = 32;
constexpr std::size_t checksum_bytes = 16;
std::string const key("the key\0with zero", 17);

cache_entry sample() {
  return {{{"plan", text(std::string(200, 'p') + std::string(100, 'q'))},  // packed
           {"objects", noise(150, 1)},                                     // plain
           {"tuning", {}}}};
}

template <class T>
void patch(std::vector<std::byte>& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

TEST(CacheEntry, RoundTrip) {
  for (auto const& entry :
       {sample(), cache_entry{}, entry_of(100000, 3), cache_entry{{{"x", std::vector<std::byte>(70000)}}}}) {
    auto const bytes = encode_entry(key, entry);
    auto const found = decode_entry(bytes, key);
    ASSERT_TRUE(found.entry) << found.detail;
    EXPECT_EQ(*found.entry, entry);
    EXPECT_EQ(found.reason, miss::none);
    EXPECT_EQ(encode_entry(key, *found.entry), bytes);
  }
}

TEST(CacheEntry, PacksWhatPaysOnly) {
  EXPECT_LT(encode_entry(key, {{{"x", std::vector<std::byte>(100000)}}}).size(), 1000u);
  EXPECT_EQ(encode_entry("", {{{"x", noise(1000, 1)}}}).size(),
            header_bytes + 24 + 1 + 1000 + checksum_bytes);
}

// As far as packing can go, and not refused by the reader for it.
TEST(CacheEntry, ExtremelyCompressibleSectionStaysReadable) {
  cache_entry const entry{{{"zeros", std::vector<std::byte>(32 << 20)}}};
  auto const found = decode_entry(encode_entry(key, entry), key);
  ASSERT_TRUE(found.entry) << found.detail;
  EXPECT_EQ(*found.entry, entry);
}

TEST(CacheEntry, FindsSections) {
  auto const entry = sample();
  ASSERT_NE(entry.section("objects"), nullptr);
  EXPECT_EQ(*entry.section("objects"), noise(150, 1));
  EXPECT_EQ(entry.section("object"), nullptr);
}

TEST(CacheEntry, RefusesWhatTheReaderWouldRefuse) {
  EXPECT_THROW(encode_entry(key, {{{"", {}}}}), argument_error);
  EXPECT_THROW(encode_entry(key, {{{std::string(256, 'n'), {}}}}), argument_error);
  EXPECT_THROW(encode_entry(key, {{{"a", {}}, {"b", {}}, {"a", {}}}}), argument_error);
  cache_entry many;
  for (int i = 0; i <= static_cast<int>(entry_limits::sections); ++i)
    many.sections.push_back({std::to_string(i), {}});
  EXPECT_THROW(encode_entry(key, many), argument_error);
  many.sections.pop_back();
  auto const found = decode_entry(encode_entry(key, many), key);
  ASSERT_TRUE(found.entry) << found.detail;
  EXPECT_EQ(*found.entry, many);
}

TEST(CacheEntry, EveryFlippedByteIsAMiss) {
  auto const good = encode_entry(key, sample());
  for (std::size_t at = 0; at < good.size(); ++at)
    for (auto const flip : {0x01, 0x80, 0xff}) {
      auto bad = good;
      bad[at] ^= static_cast<std::byte>(flip);
      auto const found = decode_entry(bad, key);
      EXPECT_FALSE(found.entry) << at;
      EXPECT_EQ(found.reason, at >= 8 && at < 12 ? miss::wrong_version : miss::corrupt)
          << at << ": " << found.detail;
    }
}

TEST(CacheEntry, EveryTruncationAndEveryExtensionIsAMiss) {
  auto const good = encode_entry(key, sample());
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(decode_entry(std::span(good).first(size), key).reason, miss::corrupt) << size;
  auto longer = good;
  for (int i = 0; i < 40; ++i) {
    longer.push_back(std::byte{0});
    EXPECT_EQ(decode_entry(longer, key).reason, miss::corrupt) << i;
  }
}

// With a checksum that fits: a bent header or key never passes, a bent name or payload changes that alone.
TEST(CacheEntry, ResignedFlipsAreAMissOrThatOtherContent) {
  auto const entry = sample();
  auto const good = encode_entry(key, entry);
  int decoded = 0;
  for (std::size_t at = 0; at < good.size() - checksum_bytes; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      auto bad = good;
      bad[at] ^= static_cast<std::byte>(1 << bit);
      sign_entry(bad);
      auto const found = decode_entry(bad, key);
      if (!found.entry) {
        EXPECT_NE(found.reason, miss::none);
        continue;
      }
      ++decoded;
      EXPECT_GE(at, header_bytes + key.size());
      auto const& sections = found.entry->sections;
      ASSERT_EQ(sections.size(), entry.sections.size());
      int changed = 0;
      for (std::size_t i = 0; i < sections.size(); ++i) {
        EXPECT_EQ(sections[i].second.size(), entry.sections[i].second.size());
        changed += sections[i].first != entry.sections[i].first;
        changed += sections[i].second != entry.sections[i].second;
      }
      EXPECT_LE(changed, 1) << at;
    }
  EXPECT_GE(decoded, 150 * 8);  // at least all bits of the plain payload
}

TEST(CacheEntry, ResignedTruncationsAreAMiss) {
  auto const good = encode_entry(key, sample());
  for (std::size_t size = header_bytes + checksum_bytes; size < good.size(); ++size) {
    auto bad = good;
    bad.resize(size);
    patch(bad, 16, static_cast<std::uint64_t>(size));
    sign_entry(bad);
    EXPECT_FALSE(decode_entry(bad, key).entry) << size;
  }
}

// Every number of the format replaced by hostile ones, checksum valid: a miss, and no allocation that the
// numbers asked for.
TEST(CacheEntry, HostileLengthsAllocateNothing) {
  auto const good = encode_entry(key, sample());
  std::set<std::size_t> words{12};
  std::set<std::size_t> longs{24};
  std::size_t at = header_bytes + key.size();
  for (auto const& section : sample().sections) {
    words.insert({at, at + 4});
    longs.insert({at + 8, at + 16});
    std::uint64_t stored = 0;
    std::memcpy(&stored, good.data() + at + 8, sizeof stored);
    at += 24 + section.first.size() + stored;
  }
  ASSERT_EQ(at + checksum_bytes, good.size());
  std::vector<std::uint64_t> const hostile{
      4,        255,        256,        good.size(),        1u << 20,   (1u << 30) - 1,
      1u << 30, 0x7fffffff, 0xffffffff, 0xffffffffffffffff, 1ull << 63, 0xffffffffffffffff - good.size() + 1};
  int tried = 0;
  auto const refused = [&](std::vector<std::byte> bad) {
    if (bad == good) return true;
    ++tried;
    sign_entry(bad);
    largest_allocation = 0;
    auto const found = decode_entry(bad, key);
    EXPECT_LT(largest_allocation.load(), std::size_t{1} << 20);
    return !found.entry;
  };
  for (auto const value : hostile) {
    for (auto const offset : words) {
      auto bad = good;
      patch(bad, offset, static_cast<std::uint32_t>(value));
      EXPECT_TRUE(refused(bad)) << offset << " = " << value;
    }
    for (auto const offset : longs) {
      auto bad = good;
      patch(bad, offset, value);
      EXPECT_TRUE(refused(bad)) << offset << " = " << value;
    }
  }
  EXPECT_GT(tried, 100);
}

TEST(CacheEntry, RandomBytesAreAMiss) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    auto bytes = noise(seed % 200, seed);
    EXPECT_FALSE(decode_entry(bytes, key).entry);
    sign_entry(bytes);
    EXPECT_FALSE(decode_entry(bytes, key).entry);
  }
}

// The full key is compared: one differing byte anywhere (a compiler version, an option) is another key.
TEST(CacheEntry, AnyOtherKeyIsAMiss) {
  auto const bytes = encode_entry(key, sample());
  for (std::size_t i = 0; i < key.size(); ++i) {
    auto other = key;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_EQ(decode_entry(bytes, other).reason, miss::wrong_key);
  }
  EXPECT_EQ(decode_entry(bytes, key.substr(0, 7)).reason, miss::wrong_key);
  EXPECT_EQ(decode_entry(bytes, key + '\0').reason, miss::wrong_key);
  EXPECT_EQ(decode_entry(bytes, "").reason, miss::wrong_key);
}

TEST(CacheEntry, NamesAreStable) {
  EXPECT_EQ(key_name(""),
            "99aa06d3014798d86001c324468d497f");  // xxh3-128 of nothing, as its authors publish it
  EXPECT_NE(key_name("a"), key_name("b"));
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < miss_count; ++i) {
    names.insert(to_string(static_cast<miss>(i)));
    EXPECT_FALSE(sentence_of(static_cast<miss>(i)).empty());
  }
  EXPECT_EQ(names.size(), miss_count);
  EXPECT_EQ(to_string(miss::wrong_key), "wrong_key");
}

}  // namespace
}  // namespace reprise::jit
