// Library call or generated kernel: what a matrix product or convolution runs as. Decided once, when a plan
// is built; the decision is part of the plan.
#pragma once

#include <memory>
#include <string>

#include "jit/cpu/executable.h"
#include "jit/cpu/onednn.h"
#include "jit/cpu/target.h"
#include "jit/plan.h"

namespace reprise::cpu {

// Null, with the reason, when the library is not there or has nothing for this step. Throws for steps that
// are no library step.
std::unique_ptr<library_call> make_library_call(onednn const& library, pool& threads, jit::step const& s,
                                                std::string& reason);

bool is_library_step(jit::step const& s);

// The choice as a function of shapes alone, for REPRISE_TUNE=off and where there is too much memory to
// measure with.
jit::choice fixed_choice(jit::step const& s);

// Measured on memory of its own, some 20 ms in all. `function` is the step's alternative, loaded.
jit::choice measured_choice(jit::plan const& p, jit::step const& s, library_call const& call,
                            kernel_function function, launch how, shared_state& shared);

}  // namespace reprise::cpu
