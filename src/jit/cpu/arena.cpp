#include "jit/cpu/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>

#include "reprise/error.h"

namespace reprise::cpu {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

// Class c holds blocks of (4 + c % 4) << (c / 4) times 64 bytes: 256, 320, 384, 448, 512, 640, ...
std::size_t class_bytes(std::size_t c) { return (4 + c % 4) * 64 << (c / 4); }

std::size_t class_of(std::size_t bytes) {
  std::size_t const units = std::max<std::size_t>((bytes + 63) / 64, 4);
  std::size_t const power = static_cast<std::size_t>(std::bit_width(units)) - 3;  // units in [4, 8) << power
  std::size_t const quarter = (units + (std::size_t{1} << power) - 1) >> power;   // 4 .. 8
  return power * 4 + quarter - 4;
}

std::size_t physical_memory() {
  long const pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                               : std::size_t{1} << 30;
}

}  // namespace

memory_pool::memory_pool(bool separate)
    : separate_(separate), most_kept_(std::max<std::size_t>(std::size_t{256} << 20, physical_memory() / 4)) {}

memory_pool::~memory_pool() { trim(); }

void* memory_pool::from_system(std::size_t bytes) {
  std::size_t const alignment = bytes >= huge_page ? huge_page : block_alignment;
  void* p = nullptr;
  if (posix_memalign(&p, alignment, bytes) != 0) return nullptr;
  if (bytes >= huge_page) madvise(p, bytes, MADV_HUGEPAGE);  // only a hint
  try {
    std::unique_lock const hold(known_lock_);
    known_.emplace(reinterpret_cast<std::uintptr_t>(p), bytes);
  } catch (std::bad_alloc const&) {
    std::free(p);
    return nullptr;
  }
  system_allocations_.fetch_add(1, std::memory_order_relaxed);
  return p;
}

void memory_pool::to_system(void* p) noexcept {
  {
    std::unique_lock const hold(known_lock_);
    known_.erase(reinterpret_cast<std::uintptr_t>(p));
  }
  std::free(p);
}

void* memory_pool::allocate(std::size_t bytes) {
  if (bytes > std::size_t{1} << 46)
    throw out_of_memory("cannot allocate " + std::to_string(bytes) + " bytes of host memory");
  if (separate_) {
    void* const p = from_system(std::max<std::size_t>(bytes, 1));
    if (!p) throw out_of_memory("cannot allocate " + std::to_string(bytes) + " bytes of host memory");
    std::memset(p, 0xff, bytes);
    return p;
  }
  std::size_t const c = class_of(bytes);
  {
    std::lock_guard const hold(lock_);
    if (c < free_.size() && !free_[c].empty()) {
      void* const p = free_[c].back();
      free_[c].pop_back();
      kept_ -= class_bytes(c);
      return p;
    }
  }
  void* p = from_system(class_bytes(c));
  if (!p) {
    trim();
    p = from_system(class_bytes(c));
  }
  if (!p) throw out_of_memory("cannot allocate " + std::to_string(bytes) + " bytes of host memory");
  return p;
}

void memory_pool::deallocate(void* p, std::size_t bytes) noexcept {
  if (!p) return;
  if (!separate_) {
    std::size_t const c = class_of(bytes);
    try {
      std::lock_guard const hold(lock_);
      if (kept_ + class_bytes(c) <= most_kept_) {
        if (c >= free_.size()) free_.resize(c + 1);
        free_[c].push_back(p);
        kept_ += class_bytes(c);
        return;
      }
    } catch (std::bad_alloc const&) {  // the list did not grow: give the block back
    }
  }
  to_system(p);
}

bool memory_pool::owns(void const* p) const {
  auto const address = reinterpret_cast<std::uintptr_t>(p);
  std::shared_lock const hold(known_lock_);
  auto const next = known_.upper_bound(address);
  if (next == known_.begin()) return false;
  auto const& [start, bytes] = *std::prev(next);
  return address < start + bytes;
}

void memory_pool::trim() noexcept {
  std::vector<std::vector<void*>> taken;
  {
    std::lock_guard const hold(lock_);
    taken.swap(free_);
    kept_ = 0;
  }
  for (auto const& blocks : taken)
    for (void* p : blocks) to_system(p);
}

std::size_t memory_pool::kept_bytes() const {
  std::lock_guard const hold(lock_);
  return kept_;
}

}  // namespace reprise::cpu
