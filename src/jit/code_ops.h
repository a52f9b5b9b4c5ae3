// From an operation of the table to instructions.
#pragma once

#include "jit/code.h"
#include "trace/ops.h"

namespace reprise::jit::code {

// An elementwise operation or `where` by its row's kernel column, or one combination of a reduction. Operands
// have the dtype that the program's node has them in, all of them (where: after its condition) the same;
// absent ones are val{}. Half operands are computed on in f32 and the result is rounded to the half type;
// boolean results stay boolean. Casts are code::convert.
val expand(ir::op op, val a, val b = {}, val c = {});

}  // namespace reprise::jit::code
