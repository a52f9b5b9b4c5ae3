// The processor that kernels are compiled for: what LLVM is told of it, and the compiler itself. A target
// machine is made once for each thread that compiles, when it first does; loading compiled code never makes
// one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace reprise::cpu {

struct target {
  std::string cpu;       // LLVM's name of the processor: its scheduling model only
  std::string features;  // what may be used, complete: "+avx512f,-amx-tile,..."
  int lanes = 4;         // binary32 values of one vector register: 16, 8 or 4

  bool converts_halves = false;  // binary16 to binary32 and back is an instruction

  int register_bytes() const { return lanes * 4; }
  std::string description() const;
  friend bool operator==(target const&, target const&) = default;
};

// This processor, with registers of at most `most_lanes` values; fewer than it has turns the features off
// that need more.
target detect(int most_lanes = 16);

std::string llvm_version();

// Triple, data layout; attributes that make vectors of the target's width legal.
void prepare(llvm::Module& m, target const& t);
void prepare(llvm::Function& f, target const& t);

// The object file. Throws compile_error.
std::vector<std::byte> compile(llvm::Module& m, target const& t);

}  // namespace reprise::cpu
