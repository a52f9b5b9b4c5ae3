// Kernels on the host, plainly: what each instruction means and in which order each reduction adds, by
// docs/numbers.md and nothing else. Code generators are compared with it, and constants fold by it, so a
// constant cannot differ from a computation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "jit/kernel.h"

namespace reprise::jit {

// Runs every phase at every point of the grid. `buffers` are the kernel's, at least `elements` long each;
// `scalars` its scalars, bits zero-extended. Throws compile_error where an access leaves its buffer or local
// array.
void interpret(kernel const& k, std::span<void* const> buffers, std::span<std::uint64_t const> scalars);

// THE meaning of the instructions that compute (arithmetic, comparisons, bits, select, convert, bitcast,
// call), over n lanes: arrays of element_t, booleans as bytes 0 and 1. `from` is the dtype of the operands
// (of select: of its second and third).
void apply(instruction const& i, dtype from, std::size_t n, void const* a, void const* b, void const* c,
           void* result);

// What a reduction of these n values leaves (for `contract`, of their products with `factors`), in its fixed
// order; the bits of `r.type`, zero-extended. `from` is the values' dtype. Destroys the values.
std::uint64_t reduce(reduction const& r, dtype from, std::size_t n, void* values, void const* factors);

}  // namespace reprise::jit
