// A program on a device: what `run` and `time` do after reading it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trace/engine.h"

namespace reprise::cli {

class execution {
 public:
  // Copies the parameters to the device. Throws unsupported_error for a program that this version only reads.
  execution(ir::program const& p, std::vector<std::vector<std::byte>> const& parameters);
  ~execution();

  // Compiles or loads, runs, waits. The first call does what a first call does, later ones replay.
  void run();
  std::vector<std::byte> result(std::size_t index) const;

  std::string device() const;
  record::tally const& counts() const { return counts_; }  // of everything so far
  // Everything that was compiled reaches the disk cache.
  void flush();

 private:
  struct memory {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  memory allocate(ir::tensor_type const& type);

  ir::program program_;
  std::unique_ptr<record::engine> engine_;
  record::prepared ready_;
  record::tally counts_;
  std::vector<memory> owned_, results_;
  std::vector<void*> parameter_pointers_, result_pointers_;
  std::vector<std::uint64_t> scalars_;
};

}  // namespace reprise::cli
