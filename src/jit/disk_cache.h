// The disk cache: key material in, an entry of named sections out, shared by all processes of one user. It
// knows nothing of programs. Whatever goes wrong with the disk is a miss or an entry not written, counted and
// logged, never an exception and never a wrong entry.
//
// The use that compiles once per key over all processes:
//   if (auto found = cache.load(key); found.entry) return *found.entry;
//   auto lock = cache.lock(key);                                   // waits for whoever compiles it now
//   if (auto found = cache.load(key); found.entry) return *found.entry;
//   auto entry = compile();
//   cache.store(key, entry, std::move(lock));                      // released when the entry is on disk
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "jit/disk_entry.h"
#include "jit/disk_lock.h"

namespace reprise::jit {

struct disk_options {
  std::filesystem::path directory;  // empty: there is no place for a cache, so it is off
  std::uint64_t cap_bytes = std::uint64_t{1} << 30;
  bool enabled = true;
};

// REPRISE_CACHE_DIR, else XDG_CACHE_HOME/reprise, else HOME/.cache/reprise (the latter two only when
// absolute); REPRISE_CACHE=on|off; REPRISE_CACHE_CAP in bytes. Throws argument_error for any other value of
// the last two.
disk_options disk_options_from_environment();

class disk_cache {
 public:
  using key_lock = disk_lock;

  struct counters {
    std::uint64_t loads = 0;
    std::uint64_t hits = 0;
    std::array<std::uint64_t, miss_count> misses{};  // by reason
    std::uint64_t stores = 0;                        // entries of ours that are on disk
    std::uint64_t already_there = 0;  // entries that another store of the key had put there first
    std::uint64_t store_failures = 0;
    std::uint64_t evictions = 0;
    std::uint64_t swept = 0;  // stale temporaries and locks removed

    std::uint64_t misses_of(miss reason) const { return misses[static_cast<std::size_t>(reason)]; }
  };

  // `log` gets one line an event; it is called from any thread that uses the cache and from its worker.
  explicit disk_cache(disk_options options, std::function<void(std::string_view)> log = {});
  // Flushes and joins the worker; in a forked child, where there is no worker, it does nothing.
  ~disk_cache();
  disk_cache(disk_cache const&) = delete;
  disk_cache& operator=(disk_cache const&) = delete;

  // Why the cache is off, empty when it is on.
  std::string const& why_off() const;

  lookup load(std::string_view key_material);

  // The entry that load() gave is whole and yet cannot be used: its file goes, unless another one took its
  // place meanwhile, so that the next store is not refused because one is there already.
  void reject(std::string_view key_material, cache_entry const& bad);

  // Queued for the worker, which releases `held` once the entry is on disk or has failed.
  void store(std::string key_material, cache_entry entry, key_lock held = {});

  // Returns when everything queued before is on disk or has failed.
  void flush();

  // Not held (see disk_lock::held) when the folder does not allow it or after `patience`: go on without.
  key_lock lock(std::string_view key_material, std::chrono::milliseconds patience = std::chrono::seconds(60));

  counters counts() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace reprise::jit
