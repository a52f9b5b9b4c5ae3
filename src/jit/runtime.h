// From a canonical program to a run of it: the content table of a context. Looks a program up by what it
// computes, in memory and on disk; compiles it once however many threads ask; lifts numbers that change into
// parameters. No lock is held while compiling.
#pragma once

#include <cstdint>
#include <memory>

#include "jit/backend.h"
#include "jit/disk_cache.h"
#include "trace/engine.h"

namespace reprise::jit {

struct runtime_options {
  disk_options disk;
  bool disk_was_asked_for =
      false;  // a folder named in the program: one that is refused is an error, not a log line
  std::uint64_t memory_cap = std::uint64_t{1} << 30;  // bytes of executables
};

std::unique_ptr<record::engine> make_engine(std::unique_ptr<backend> device, runtime_options o);

}  // namespace reprise::jit
