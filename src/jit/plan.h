// A plan: how a program will run. Steps (fused kernels, library calls, copies), the edges that order them,
// the buffers that they share and where each temporary lies in the arena. Made by compile.h from a program
// and read by a backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "jit/kernel.h"
#include "trace/program.h"

namespace reprise::jit {

using buffer_id = std::uint32_t;
using step_id = std::uint32_t;

enum class buffer_place : std::uint8_t { parameter, result, temporary };
struct plan_buffer {
  buffer_place place = buffer_place::temporary;
  std::uint32_t slot = 0;  // parameter: index into the program's parameters; result: into its results
  dtype type = dtype::f32;
  std::int64_t elements = 0;
  std::int64_t offset = -1;  // temporary: bytes into the arena, a multiple of 256
  std::int64_t bytes() const { return elements * size_of(type); }
};

enum class activation : std::uint8_t { none, relu };

// C[b] = act(A[b] @ B[b] + bias), row-major and dense, the batch strides in elements (0: the same matrix for
// all).
struct matmul_step {
  dtype type = dtype::f32;
  std::int64_t batch = 1, m = 0, n = 0, k = 0, stride_a = 0, stride_b = 0, stride_c = 0;
  bool transpose_a = false, transpose_b = false;  // the operand is stored transposed, dense
  bool bias = false;                              // operand 2, [n]
  activation act = activation::none;
};
struct conv2d_step {
  dtype type = dtype::f32;
  std::int64_t n = 0, c = 0, h = 0, w = 0, o = 0, kh = 0, kw = 0, stride_h = 1, stride_w = 1, pad_top = 0,
               pad_left = 0, pad_bottom = 0, pad_right = 0, dilation_h = 1, dilation_w = 1, groups = 1;
  bool bias = false;  // operand 2, [o]
  activation act = activation::none;
};
struct kernel_step {
  std::uint32_t kernel = 0;            // into plan::kernels
  std::vector<std::uint32_t> scalars;  // kernel scalar i is lifted parameter scalars[i] of the program
};
struct copy_step {};  // operand 0 to the written buffer, whole

// A library step may also have a generated alternative, to be measured against at compile time:
// kernels[alternative], whose buffers are the step's operands in order, then the written buffer. Which one
// runs is the plan's choice, once made.
enum class choice : std::uint8_t { undecided, library, generated };
struct step {
  std::variant<kernel_step, matmul_step, conv2d_step, copy_step> work;
  std::vector<buffer_id>
      operands;  // a kernel's buffers that are only read come from here, in order of buffers
  std::vector<buffer_id> written;
  std::vector<buffer_id> arguments;  // kernel_step: one for each kernel buffer, in the kernel's order
  std::int64_t alternative = -1;
  choice chosen = choice::undecided;
};
struct edge {
  step_id from, to;
  friend bool operator==(edge, edge) = default;
};

struct plan {
  std::vector<kernel> kernels;
  std::vector<step> steps;  // a legal sequential order
  std::vector<edge> edges;  // transitively reduced; all that must be ordered is
  std::vector<plan_buffer> buffers;
  std::vector<buffer_id>
      results;  // where each result of the program is; compile() gives each a buffer of its own
  std::int64_t arena_bytes = 0;
  std::vector<std::string> notes;  // reasons worth telling: why two operations were not fused, ...
};

// Throws compile_error (L1 ...): every read happens after the write it needs along edges, two temporaries
// share bytes only if every access of one happens before every access of the other along edges, results are
// each written once, arguments match kernels.
void verify(plan const& p, ir::program const& of);
std::string str(plan const& p);       // stable text for dumps and golden files
std::string to_bytes(plan const& p);  // for the disk cache; from_bytes throws format_error, verifies nothing
plan from_bytes(std::string_view bytes);

// The recipe, and each of its stages by itself (a stage's input and output are checked).
struct compile_options {
  bool libraries = true;  // matmul and conv2d as library steps; else as kernels
  bool fuse = true;       // off: each operation its own kernel (tests compare the bits)
};
// One line for each stage, for `reprise show --stages` and REPRISE_DUMP: name and text.
using stage_sink = std::function<void(std::string_view stage, std::string const& text)>;
plan compile(ir::program const& p, compile_options const& o, stage_sink const& sink = {});
ir::program simplify(ir::program const& p);

}  // namespace reprise::jit
