// Host memory of the CPU backend. Blocks come in size classes, four to a power of two, and are kept for the
// next one of their class, so that a replay asks the system for nothing. `separate` (REPRISE_ARENA=separate)
// keeps nothing and fills each block with nan before it is used, for sanitizers to see what touches what.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace reprise::cpu {

inline constexpr std::size_t block_alignment = 256;

class memory_pool {
 public:
  explicit memory_pool(bool separate);
  ~memory_pool();
  memory_pool(memory_pool const&) = delete;
  memory_pool& operator=(memory_pool const&) = delete;

  void* allocate(std::size_t bytes);                     // 256-byte aligned; throws out_of_memory
  void deallocate(void* p, std::size_t bytes) noexcept;  // `bytes` as asked for
  bool owns(void const* p) const;                        // inside a block that the system gave
  void trim() noexcept;                                  // gives the kept blocks back
  bool separate() const noexcept { return separate_; }
  std::uint64_t system_allocations() const noexcept {
    return system_allocations_.load(std::memory_order_relaxed);
  }
  std::size_t kept_bytes() const;

 private:
  void* from_system(std::size_t bytes);
  void to_system(void* p) noexcept;

  bool const separate_;
  std::size_t const most_kept_;
  mutable std::mutex lock_;               // of free_ and kept_
  std::vector<std::vector<void*>> free_;  // by class
  std::size_t kept_ = 0;
  mutable std::shared_mutex known_lock_;
  std::map<std::uintptr_t, std::size_t> known_;  // all blocks of the system
  std::atomic<std::uint64_t> system_allocations_{0};
};

}  // namespace reprise::cpu
