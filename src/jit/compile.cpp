// The recipe: a list of sentences. Each stage is checked before the next one reads it.
#include "jit/fuse.h"
#include "jit/fuse_plan.h"
#include "jit/memory_plan.h"
#include "jit/plan.h"
#include "jit/schedule.h"

namespace reprise::jit {

plan compile(ir::program const& p, compile_options const& o, stage_sink const& sink) {
  ir::verify_runnable(p);
  if (sink) sink("program", ir::to_json(p));
  ir::program const simple = o.fuse ? simplify(p) : p;
  ir::verify_runnable(simple);
  if (sink) sink("simplified", ir::to_json(simple));

  plan made = make_steps(simple, fuse(simple, o), o);
  for (kernel const& k : made.kernels) verify(k);
  verify_steps(made, simple);
  if (sink) {
    std::string text;
    for (kernel const& k : made.kernels) text += str(k);
    sink("kernels", text);
  }

  schedule(made);
  verify_schedule(made, simple);
  plan_memory(made);
  verify(made, simple);
  if (sink) sink("plan", str(made));
  return made;
}

}  // namespace reprise::jit
