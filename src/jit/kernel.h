// The loop-nest form that both code generators read: what a kernel computes, in which loops, in which order
// it reduces. CUDA C++ text and LLVM IR are two printers of it, so what the CPU tests prove is what a GPU
// runs.
//
// A kernel runs its phases one after the other for each point of its grid (the rows: independent of each
// other, any order, any thread). A phase is one inner loop with variable `inner` over `extent`; its body is a
// list of instructions in SSA form, evaluated for each inner index; reductions accumulate an instruction's
// value over that loop and leave it in a row register, which later phases of the same row read. Local arrays
// hold one row's values from a phase to a later one.
//
// Loop variables: 0 .. grid.size()-1 are the grid's, the last varying fastest; variable grid.size() is
// `inner` and is shared by all phases: in each, it runs over that phase's extent (bounds() in the arena uses
// the largest).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jit/index.h"
#include "trace/ops.h"

namespace reprise::jit {

// Instructions. Values have a dtype of ops.def's table; boolean is a mask. Half dtypes appear only in load,
// store, convert, const_ and select: arithmetic on them is f32 with a convert after each operation of the
// canonical program.
enum class kop : std::uint8_t {
  // sources
  const_,  // bits
  scalar,  // lifted number `slot`, of the kernel's scalars
  index,   // the value of index expression `index`, as i64
  row,     // row register `slot`, left by a reduction of an earlier phase
  load,  // buffer `slot` at element `index`; when `guard` is set, lanes where it is false give const 0 and do
         // not touch memory
  load_local,  // local array `slot` at element `index`
  // arithmetic: floating by IEEE, integers wrap; both operands and the result have the same dtype
  add,
  sub,
  mul,
  div,  // integers: truncates, x / 0 = 0, smallest / -1 = smallest
  rem,  // C's % and fmod; integers: x % 0 = 0, smallest % -1 = 0; floating: exact, as C's fmod
  neg,
  abs,
  sqrt,
  fma,  // a * b + c rounded once; written by rows, never formed from mul and add behind their back
  floor,
  ceil,
  trunc,
  rint,
  minimum,
  maximum,  // nan if either is nan; -0 below +0
  // comparisons give boolean; false when an operand is nan, except ne
  lt,
  le,
  eq,
  ne,
  // bits: integers and boolean
  band,
  bor,
  bxor,
  bnot,
  shl,
  lshr,
  ashr,     // integers by 0 <= b < width (the row's expansion guarantees it); lshr fills with zeros
  select,   // a ? b : c
  convert,  // by docs/numbers.md
  bitcast,  // f32 <-> i32, f64 <-> i64
  call,     // f64 elementary function `slot` (enum class libm): a host libm call, the device's own function
  // effects
  store,        // operand 0 to buffer `slot` at `index`; when `guard` is set only where it is true
  store_local,  // operand 0 to local array `slot` at `index`
};
enum class libm : std::uint8_t { exp, expm1, log, log1p, sin, cos, tanh, erf, erfc, pow };

using value_id = std::uint32_t;
inline constexpr value_id no_value = 0xffffffffu;

struct instruction {
  kop code = kop::const_;
  dtype type = dtype::f32;
  value_id a = no_value, b = no_value, c = no_value;  // earlier instructions of the same phase
  std::uint32_t slot = 0;
  index_id index = 0;
  value_id guard = no_value;  // a boolean instruction of the same phase
  std::uint64_t bits = 0;     // of const_
};

// The fixed orders of docs/numbers.md. `lanes`: 128 interleaved lanes in blocks of 4096, trees over lanes,
// then over blocks. `runs`: runs of 128 in sequence, a tree over runs. `tree`: operands are block results
// already, only the last tree. `contract`: in sequence with fma, for matmul and conv2d, whose rows have a
// tolerance. Orders matter for sum and prod only.
enum class order : std::uint8_t { lanes, runs, tree, contract };
enum class reduction_kind : std::uint8_t { sum, prod, max, min, any, all, argmax, argmin };

struct reduction {
  reduction_kind kind = reduction_kind::sum;
  jit::order order = jit::order::lanes;
  dtype type = dtype::f32;     // of the accumulator: f32 for halves, i64 for argmax and argmin's result
  value_id value = no_value;   // what is accumulated; for `contract`: the first factor
  value_id factor = no_value;  // `contract`: the second factor
  std::uint32_t row = 0;       // the row register it leaves; argmax: the inner index of the best, as i64
};

struct phase {
  std::int64_t extent = 1;
  std::vector<instruction>
      body;  // effects in order; instructions that do not depend on `inner` are the printer's to hoist
  std::vector<reduction> reductions;  // two of one phase may share their loop
};

struct kernel_buffer {
  dtype type = dtype::f32;
  std::int64_t elements = 0;
  bool written =
      false;  // a buffer that is read and written is listed once, written; the planner proves it legal
};
struct kernel_local {
  dtype type = dtype::f32;
  std::int64_t elements = 0;
};

// Which loop the lanes of a vector (the threads of a warp) run along: the inner loop, or the last loop of the
// grid, each lane then running the whole inner loop by itself. With `grid`, `tile` points of grid loop
// `tile_loop` are computed together, so that loads which do not depend on it are shared (register tiling); 1:
// no tiling.
enum class lanes_along : std::uint8_t { inner, grid };

struct kernel {
  std::string name;  // a valid C identifier; the same in symbols, files and logs
  std::vector<std::int64_t> grid;
  std::vector<kernel_buffer> buffers;
  std::vector<dtype> scalars;
  std::vector<kernel_local> locals;
  std::vector<dtype> rows;  // row registers
  std::vector<phase> phases;
  lanes_along lanes = lanes_along::inner;
  std::uint32_t tile_loop = 0;
  std::int64_t tile = 1;
  index_arena index;

  std::int64_t points() const {  // of the grid
    std::int64_t n = 1;
    for (auto e : grid) n *= e;
    return n;
  }
  std::uint32_t inner() const { return static_cast<std::uint32_t>(grid.size()); }
};

// Throws compile_error naming what is not legal (K1 ...): operand order, dtypes, slots, index variables,
// guards, every unguarded access inside its buffer by bounds(), orders. Run after each stage that makes or
// changes kernels.
void verify(kernel const& k);
// A stable, readable text of the kernel, for dumps and golden files.
std::string str(kernel const& k);
// The bytes that say what the kernel computes, without its name.
std::string key_bytes(kernel const& k);

}  // namespace reprise::jit
