// The contract between the runtime and a device. A backend owns its memory, turns a plan into an executable
// and back into bytes, and knows nothing of arrays, signatures or caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/plan.h"

namespace reprise::jit {

// What really happened, counted where it happened. Added up by contexts, reported by ctx.report() and
// ctx.totals().
struct counters {
  std::uint64_t kernels_compiled = 0, nvrtc_calls = 0, llvm_compiles = 0, heuristic_queries = 0,
                graphs_instantiated = 0, graph_nodes = 0, graph_launches = 0, kernel_launches = 0,
                library_calls = 0, bytes_to_device = 0, bytes_to_host = 0, device_allocations = 0,
                fallbacks = 0, tunings = 0;
};

// One run's addresses, in the order of the program's parameters (lifted ones: null) and results. A result's
// memory never overlaps a parameter's, except where the caller names the same address for an in-out pair that
// the plan allows.
struct bindings {
  std::span<void* const> parameters;
  std::span<void* const> results;
  std::span<std::uint64_t const>
      scalars;  // lifted numbers by index of the program's parameter, bits zero-extended; others 0
};

class executable {
 public:
  virtual ~executable() = default;
  // Runs or enqueues the plan once. Thread-safe: the backend serialises or not, as it needs.
  virtual void run(bindings const& b) = 0;
  virtual std::uint64_t bytes() const = 0;  // memory that keeping it costs
  virtual std::uint32_t kernels() const = 0;
  virtual std::uint32_t library_calls() const = 0;
};

// How a note in plan::notes begins that tells of a fallback, one for each that is counted.
inline constexpr std::string_view fallback_note = "generated instead of a library call";

// What a disk entry holds besides the key: enough to load the executable without any compiler.
using sections = std::vector<std::pair<std::string, std::vector<std::byte>>>;

class backend {
 public:
  virtual ~backend() = default;
  virtual std::string name() const = 0;         // "cpu", "gpu"
  virtual std::string description() const = 0;  // for people: "x86-64 avx512f, 2 threads"
  // Everything that compiled code depends on: toolchain, device, features, library versions, generator hash.
  // Part of each key.
  virtual std::string fingerprint() const = 0;
  virtual compile_options options() const = 0;

  // Builds code for the plan, makes the choices that are undecided by measuring, and writes them into the
  // plan. Throws compile_error; nothing is kept after a throw. Counts into `c`. `out` receives what load()
  // needs.
  virtual std::unique_ptr<executable> build(plan& p, sections& out, counters& c) = 0;
  // From what build() gave, in another process. No compiler, no measuring. Throws format_error for bytes that
  // do not fit.
  virtual std::unique_ptr<executable> load(plan const& p, sections const& in, counters& c) = 0;

  // Memory of the device, 256-byte aligned. allocate throws out_of_memory. On a CPU device memory is host
  // memory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* p, std::size_t bytes) noexcept = 0;
  virtual void to_device(void* device, void const* host, std::size_t bytes) = 0;
  virtual void to_host(void* host, void const* device,
                       std::size_t bytes) = 0;  // waits for the work that writes it
  virtual void copy(void* to, void const* from, std::size_t bytes) = 0;
  virtual void wait() = 0;
  virtual bool host_visible() const = 0;       // device pointers can be dereferenced by the host
  virtual bool owns(void const* p) const = 0;  // asks the allocator (a GPU: the driver)
  virtual void trim() = 0;
  virtual counters counts() const = 0;  // totals of allocations, launches, copies
};

}  // namespace reprise::jit
