// Entries that are damaged, and writers that are killed: results stay right, a bad entry is replaced, nothing
// crashes. Damage under a valid checksum goes past the entry's own check to the plan's parser and verifier
// and to the object's loader.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "jit/disk_entry.h"
#include "process/support.h"
#include "process/worker/programs.h"

namespace process {
namespace {

namespace jit = reprise::jit;

std::span<std::byte const> bytes_of(std::string const& text) { return std::as_bytes(std::span(text)); }

// docs of the format: jit/disk_entry.h.
std::string key_material(std::string const& entry) {
  std::uint64_t size = 0;
  std::memcpy(&size, entry.data() + 24, sizeof size);
  return entry.substr(32, size);
}

// A real entry, and what a context makes of a changed one.
class damaged : public testing::Test {
 protected:
  void SetUp() override {
    first_ = in_this_process();
    auto const made = keys(folder_ / "cache");
    ASSERT_EQ(made.size(), 1u);
    file_ = folder_ / "cache" / made[0];
    good_ = contents(file_);
    key_ = key_material(good_);
    ASSERT_EQ(jit::key_name(key_) + ".entry", made[0]);
    ASSERT_TRUE(jit::decode_entry(bytes_of(good_), key_).entry);
    EXPECT_EQ(first_.compiled, 1u);
  }

  struct result {
    std::uint64_t checksum = 0, compiled = 0, hits = 0;
  };
  result in_this_process() const {
    reprise::context_options o;
    o.device = reprise::device::cpu;
    o.threads = 1;
    o.cache_directory = (folder_ / "cache").string();
    reprise::context const ctx(o);
    reprise::use const here(ctx);
    result r;
    r.checksum = run_one();
    ctx.flush();
    auto const t = ctx.totals();
    r.compiled = t.llvm_compiles;
    r.hits = t.disk_hits;
    return r;
  }

  // The entry is refused, and replaced by one that loads.
  void expect_replaced(std::string const& bytes, std::string const& what) {
    write(file_, bytes);
    auto const r = in_this_process();
    EXPECT_EQ(r.checksum, first_.checksum) << what;
    EXPECT_EQ(r.compiled, 1u) << what;
    EXPECT_EQ(r.hits, 0u) << what;
    ASSERT_TRUE(std::filesystem::exists(file_)) << what;
    ASSERT_NE(contents(file_), bytes) << what;
    ASSERT_TRUE(jit::decode_entry(bytes_of(contents(file_)), key_).entry) << what;
  }

  scratch folder_;
  std::filesystem::path file_;
  std::string good_, key_;
  result first_;
};

TEST_F(damaged, EachFlippedByteIsAMiss) {  // TRAPS 27, 30
  std::size_t const step = std::max<std::size_t>(1, good_.size() / 200);
  std::mt19937 random(1);
  int tried = 0;
  for (std::size_t at = 0; at < good_.size(); at += step, ++tried) {
    std::string bent = good_;
    bent[at] = static_cast<char>(bent[at] ^ (1u << random() % 8));
    ASSERT_NO_FATAL_FAILURE(expect_replaced(bent, "byte " + std::to_string(at)));
  }
  EXPECT_GE(tried, 200);
  auto const last = in_this_process();
  EXPECT_EQ(last.compiled, 0u);
  EXPECT_EQ(last.hits, 1u);
  EXPECT_EQ(last.checksum, first_.checksum);
}

TEST_F(damaged, EachTruncationIsAMiss) {  // TRAPS 27
  for (std::size_t i = 0; i < 24; ++i)
    ASSERT_NO_FATAL_FAILURE(
        expect_replaced(good_.substr(0, good_.size() * i / 24), "cut " + std::to_string(i)));
  ASSERT_NO_FATAL_FAILURE(expect_replaced(good_.substr(0, good_.size() - 1), "the last byte"));
  ASSERT_NO_FATAL_FAILURE(expect_replaced(good_ + '\0', "one byte more"));
}

class resigned : public damaged {
 protected:
  std::string entry_with(jit::cache_entry const& e) const {
    auto const bytes = jit::encode_entry(key_, e);
    return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  }
  jit::cache_entry good_entry() const { return *jit::decode_entry(bytes_of(good_), key_).entry; }
  // Either refused and replaced, or used, and then right.
  bool used(std::string const& bytes, std::string const& what) {
    write(file_, bytes);
    auto const r = in_this_process();
    EXPECT_EQ(r.checksum, first_.checksum) << what;
    EXPECT_EQ(r.compiled + r.hits, 1u) << what;
    if (r.hits == 0) { EXPECT_NE(contents(file_), bytes) << what << ": not replaced"; }
    return r.hits != 0;
  }
};

TEST_F(resigned, PlansAreParsedAndProved) {
  auto const good = good_entry();
  std::mt19937 random(2);
  auto const* plan = good.section("plan");
  ASSERT_NE(plan, nullptr);
  std::size_t const step = std::max<std::size_t>(1, plan->size() / 300);
  int refused = 0, tried = 0;
  for (std::size_t at = 0; at < plan->size() && !HasFailure(); at += step, ++tried) {
    auto bent = good;
    auto& bytes = bent.sections[0].second;
    ASSERT_EQ(bent.sections[0].first, "plan");
    bytes[at] ^= std::byte{static_cast<unsigned char>(1u << random() % 8)};
    refused += !used(entry_with(bent), "plan byte " + std::to_string(at));
  }
  EXPECT_GT(refused, tried / 2);
  for (std::size_t i = 0; i < 16 && !HasFailure(); ++i) {
    auto cut = good;
    cut.sections[0].second.resize(plan->size() * i / 16);
    EXPECT_FALSE(used(entry_with(cut), "plan cut " + std::to_string(i)));
  }
}

TEST_F(resigned, SectionsMustBeThere) {
  auto const good = good_entry();
  for (std::size_t i = 0; i < good.sections.size(); ++i) {
    auto less = good;
    less.sections.erase(less.sections.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(used(entry_with(less), "without section " + good.sections[i].first));
    auto renamed = good;
    renamed.sections[i].first += "x";
    EXPECT_FALSE(used(entry_with(renamed), "another name for " + good.sections[i].first));
    auto empty = good;
    empty.sections[i].second.clear();
    EXPECT_FALSE(used(entry_with(empty), "nothing in " + good.sections[i].first));
  }
}

// Machine code cannot be proved; what says that it is machine code of this machine can.
TEST_F(resigned, ObjectsAreThoseOfThisMachine) {
  auto const good = good_entry();
  std::size_t object = 0;
  while (object < good.sections.size() && !good.sections[object].first.starts_with("object")) ++object;
  ASSERT_LT(object, good.sections.size());
  auto const& code = good.sections[object].second;
  ASSERT_EQ(std::memcmp(code.data(), "\177ELF", 4), 0);
  constexpr std::size_t header = 64;
  for (std::size_t at = 0; at < header && !HasFailure(); ++at)
    for (unsigned bit : {0u, 7u}) {
      auto bent = good;
      bent.sections[object].second[at] ^= std::byte{static_cast<unsigned char>(1u << bit)};
      bool const ran = used(entry_with(bent), "object byte " + std::to_string(at));
      EXPECT_FALSE(ran && at < 6) << "object byte " << at;  // magic, class, byte order
    }
  for (std::size_t i = 0; i < 16 && !HasFailure(); ++i) {
    auto cut = good;
    cut.sections[object].second.resize(code.size() * i / 16);
    EXPECT_FALSE(used(entry_with(cut), "object cut " + std::to_string(i)));
  }
}

TEST(Killed, WritersLeaveNoWrongEntry) {  // TRAPS 27
  scratch const folder;
  auto const cache = folder / "cache";
  auto const began = std::chrono::steady_clock::now();
  ASSERT_EQ(run({in(cache)}).checksum(), right_checksum("all"));
  auto const whole =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began);
  auto const all = keys(cache);
  std::mt19937 random(3);
  int killed = 0, finished = 0, found = 0, missing = 0;
  for (int round = 0; round < 50; ++round) {
    for (auto const& name : keys(cache))
      if (random() % 2) std::filesystem::remove(cache / name);
    worker w({in(cache)});
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % static_cast<unsigned>(whole.count() / 2 + 1)));
    kill(w.id(), SIGKILL);
    (w.finish().status == 1000 + SIGKILL ? killed : finished) += 1;
    for (auto const& name : keys(cache)) {
      std::string const entry = contents(cache / name), key = key_material(entry);
      ASSERT_EQ(jit::key_name(key) + ".entry", name);
      ASSERT_TRUE(jit::decode_entry(bytes_of(entry), key).entry) << name;
    }
    found += static_cast<int>(keys(cache).size());
    missing += static_cast<int>(all.size() - keys(cache).size());
  }
  EXPECT_GT(killed, 10);
  EXPECT_GT(found, 0);
  EXPECT_GT(missing, 0);
  RecordProperty("killed", killed);
  RecordProperty("finished_before", finished);
  RecordProperty("left_temporaries", static_cast<int>(files(cache, ".tmp").size()));

  auto const after = run({in(cache)});  // no lock of a killed process holds anyone up
  EXPECT_EQ(after.checksum(), right_checksum("all")) << after.err;
  EXPECT_EQ(keys(cache), all);
  EXPECT_EQ(run({in(cache, {{"REPRISE_FORBID", "compile"}})}).total("disk_hits"), all.size());
}

}  // namespace
}  // namespace process
