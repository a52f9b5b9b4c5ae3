// The kernels of a plan as object files, compiled on all threads, and the facts a run needs of them as bytes:
// together what a disk entry holds.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "jit/backend.h"
#include "jit/cpu/emit.h"
#include "jit/cpu/parallel.h"
#include "jit/cpu/target.h"

namespace reprise::cpu {

std::string symbol_of(jit::plan const& p, std::uint32_t kernel);

struct compiled_kernels {
  std::vector<std::vector<std::byte>> objects;
  std::vector<launch> launches;  // by kernel of the plan; those that were not wanted have no units
  std::size_t bytes() const;
};

// Throws compile_error.
compiled_kernels compile_kernels(jit::plan const& p, std::span<std::uint32_t const> wanted,
                                 target const& host, pool& threads, jit::counters& c);

void write_sections(compiled_kernels const& k, jit::sections& out);
compiled_kernels read_sections(jit::plan const& p, jit::sections const& in);  // throws format_error

}  // namespace reprise::cpu
