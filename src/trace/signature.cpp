#include "trace/signature.h"

#include <algorithm>
#include <mutex>

#include <xxhash.h>

namespace reprise::record {

std::uint64_t hash64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::shared_ptr<signature_entry const> signature_table::find(std::string_view key, std::uint64_t hash) {
  std::shared_lock hold(lock_);
  auto [first, last] = rows_.equal_range(hash);
  for (auto i = first; i != last; ++i) {
    if (i->second->key != key) continue;
    i->second->used.store(clock_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return i->second->entry;
  }
  return nullptr;
}

namespace {

std::uint64_t cost(std::string const& key, signature_entry const& e) {
  return key.size() + 256 + e.parameters.size() * 8 + e.outputs.size() * sizeof(ir::tensor_type) +
         (e.results.size() + e.rebound.size()) * 8;
}

}  // namespace

void signature_table::publish(std::string key, std::uint64_t hash, std::shared_ptr<signature_entry const> e) {
  std::unique_lock hold(lock_);
  auto [first, last] = rows_.equal_range(hash);
  for (auto i = first; i != last; ++i)
    if (i->second->key == key) return;  // another thread was first; both entries say the same
  bytes_ += cost(key, *e);
  auto r = std::make_unique<row>();
  r->key = std::move(key);
  r->hash = hash;
  r->entry = std::move(e);
  r->used = clock_.fetch_add(1, std::memory_order_relaxed) + 1;
  rows_.emplace(hash, std::move(r));
  if (bytes_ > cap_) evict();
}

// Drops the least recently used tenth, so that a table at its cap does not search on every insertion.
void signature_table::evict() {
  std::vector<std::uint64_t> ages;
  for (auto const& [h, r] : rows_) ages.push_back(r->used);
  auto const tenth = ages.begin() + static_cast<std::ptrdiff_t>(ages.size() / 10);
  std::nth_element(ages.begin(), tenth, ages.end());
  std::uint64_t const limit = *tenth;
  for (auto i = rows_.begin(); i != rows_.end();) {
    if (i->second->used <= limit) {
      bytes_ -= cost(i->second->key, *i->second->entry);
      i = rows_.erase(i);
    } else {
      ++i;
    }
  }
}

void signature_table::forget_callable(void const* callable) {
  std::string_view const prefix(reinterpret_cast<char const*>(&callable), sizeof callable);
  std::unique_lock hold(lock_);
  for (auto i = rows_.begin(); i != rows_.end();) {
    if (std::string_view(i->second->key).substr(0, prefix.size()) == prefix) {
      bytes_ -= cost(i->second->key, *i->second->entry);
      i = rows_.erase(i);
    } else {
      ++i;
    }
  }
}

std::size_t signature_table::size() const {
  std::shared_lock hold(lock_);
  return rows_.size();
}

}  // namespace reprise::record
