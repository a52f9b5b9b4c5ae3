// ops.def's kernel column, called by enumerator.
#include "jit/code_ops.h"

#include <string>

#include <reprise/error.h>

namespace reprise::jit {
namespace {

using code::val;

[[noreturn]] void no_kernel_column(ir::op op) {
  throw compile_error(std::string(ir::info(op).name) + ": this operation has no kernel column");
}

val row(ir::op op, val a, [[maybe_unused]] val b, [[maybe_unused]] val c) {
  switch (op) {
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc) \
  case ir::op::id: return kernel;
#define SELECT(id, doc) \
  case ir::op::id: return code::select(a, b, c);
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc) \
  case ir::op::id: return kernel;
#define CAST(id, attributes, doc) \
  case ir::op::id: no_kernel_column(op);
#define ARG_REDUCTION(id, better, doc) \
  case ir::op::id: no_kernel_column(op);
#define MOVEMENT(id, arity, attributes, doc) \
  case ir::op::id: no_kernel_column(op);
#define SOURCE(id, arity, attributes, doc) \
  case ir::op::id: no_kernel_column(op);
#define LIBRARY(id, arity, attributes, doc) \
  case ir::op::id: no_kernel_column(op);
#define REGION(id, attributes, doc) \
  case ir::op::id: no_kernel_column(op);
#include <reprise/ops.def>
#undef ELEMENTWISE
#undef SELECT
#undef REDUCTION
#undef CAST
#undef ARG_REDUCTION
#undef MOVEMENT
#undef SOURCE
#undef LIBRARY
#undef REGION
  }
  no_kernel_column(op);
}

}  // namespace

namespace code {

val expand(ir::op op, val a, val b, val c) {
  dtype const t = a.type();
  if (!is_half(t)) return row(op, a, b, c);
  auto const widened = [](val v) { return v.in ? convert(v, dtype::f32) : v; };
  val const r = row(op, widened(a), widened(b), widened(c));
  return r.type() == dtype::boolean ? r : convert(r, t);
}

}  // namespace code
}  // namespace reprise::jit
