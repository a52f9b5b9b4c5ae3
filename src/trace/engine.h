// What recording needs from below: somewhere to keep memory and something that runs programs. The runtime of
// src/jit is one; nothing here knows how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trace/program.h"

namespace reprise::record {

// Numbers of a report, by the names of its JSON. What counts where: docs/environment.md.
// clang-format off
#define REPRISE_COUNTERS(X)                                                                            \
  X(recorded) X(replayed) X(signature_hits) X(content_hits) X(disk_hits) X(lifted) X(kernels_compiled) \
  X(nvrtc_calls) X(llvm_compiles) X(heuristic_queries) X(graphs_instantiated) X(graph_nodes)           \
  X(graph_launches) X(kernel_launches) X(library_calls) X(bytes_to_device) X(bytes_to_host)            \
  X(device_allocations) X(fallbacks)
// clang-format on

struct tally {
#define X(name) std::uint64_t name = 0;
  REPRISE_COUNTERS(X)
#undef X
  tally& operator+=(tally const& o) {
#define X(name) name += o.name;
    REPRISE_COUNTERS(X)
#undef X
    return *this;
  }
};

// A program that is ready to run, owned jointly by caches and runs.
class compiled {
 public:
  virtual ~compiled() = default;
};

struct prepared {
  std::shared_ptr<compiled> code;
  std::vector<std::uint64_t>
      numbers;  // values of constants that became lifted parameters, after the program's own parameters
};

class engine {
 public:
  virtual ~engine() = default;
  virtual std::string device() const = 0;  // "cpu", "gpu"
  virtual std::string description() const = 0;

  // Finds, loads or compiles. `why` is the reason of the recording, for the log and the report; counts go
  // into `t`, reasons of compilations are appended to `reasons`. Throws compile_error and forbidden_error
  // (REPRISE_FORBID); keeps nothing then.
  virtual prepared prepare(ir::program const& canonical, tally& t, std::vector<std::string>& reasons) = 0;
  // Parameters and results by the program's lists; `scalars` has a word for each parameter (those that are
  // lifted).
  virtual void run(prepared const& p, std::span<void* const> parameters, std::span<void* const> results,
                   std::span<std::uint64_t const> scalars, tally& t) = 0;
  // Why a step of it runs another way than intended (a library is missing); empty when none does.
  virtual std::string const& fallback(prepared const& p) const = 0;
  // The programs that are in memory, oldest first, with the stages of their compilation: for dumps.
  virtual void dump(std::string const& directory) = 0;

  // One line for REPRISE_LOG=trace.
  virtual void note_recording(std::string_view text) = 0;

  virtual void* allocate(std::size_t bytes) = 0;  // throws out_of_memory
  virtual void deallocate(void* p, std::size_t bytes) noexcept = 0;
  virtual void to_device(void* device, void const* host, std::size_t bytes) = 0;
  virtual void to_host(void* host, void const* device, std::size_t bytes) = 0;
  virtual bool host_visible() const = 0;
  virtual bool owns(void const* p) const = 0;
  virtual std::uint64_t allocations() const = 0;  // of device memory, really made
  virtual void wait() = 0;
  virtual void flush() = 0;
  virtual void trim() = 0;
};

}  // namespace reprise::record
