// "The same call again": what a call of a traced callable is compared by. A key is bytes, compared in full;
// the hash only finds the bucket. An entry says how to run the program that was recorded for it, and is
// published after its first run has succeeded.
#pragma once

#include <atomic>
#include <cstdint>

#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/engine.h"

namespace reprise::record {

// Where a parameter of the program comes from in a call: an array leaf of the arguments, or a run-time
// number.
struct parameter_source {
  bool scalar = false;
  std::uint32_t leaf = 0;
};
// What a result leaf, or a rebound argument, is after a call.
enum class outcome_kind : std::uint8_t { unchanged, output, leaf, empty };
struct outcome {
  outcome_kind kind = outcome_kind::unchanged;
  std::uint32_t index = 0;  // of the output, or of the argument leaf
};

struct signature_entry {
  prepared program;
  std::vector<parameter_source> parameters;
  std::vector<ir::tensor_type> outputs;
  std::vector<outcome> results;  // result leaves in order
  std::vector<outcome> rebound;  // for each array leaf of the arguments
  std::shared_ptr<void const> prototype;
  std::shared_ptr<ir::program const> source;
};

class signature_table {
 public:
  explicit signature_table(std::uint64_t byte_cap) : cap_(byte_cap) {}
  std::shared_ptr<signature_entry const> find(std::string_view key, std::uint64_t hash);
  void publish(std::string key, std::uint64_t hash, std::shared_ptr<signature_entry const> e);
  void forget_callable(void const* callable);  // keys begin with the callable's address
  std::size_t size() const;

 private:
  struct row {
    std::string key;
    std::uint64_t hash;
    std::shared_ptr<signature_entry const> entry;
    std::atomic<std::uint64_t> used{0};
  };
  void evict();
  mutable std::shared_mutex lock_;
  std::unordered_multimap<std::uint64_t, std::unique_ptr<row>> rows_;
  std::atomic<std::uint64_t> clock_{0};
  std::uint64_t bytes_ = 0, cap_;
};

std::uint64_t hash64(std::string_view bytes);

}  // namespace reprise::record
