// What the files of elementary functions share.
#pragma once

#include <initializer_list>

#include "jit/code.h"

namespace reprise::jit::code {

val polynomial(val x, std::initializer_list<double> highest_first);  // Horner's rule, fused
val at_most(val bound, val x);  // x, or bound where x is above it; nan stays
val at_least(val bound, val x);
val sign_bit(val x);                     // of an f32, as i32
val with_sign_of(val magnitude, val x);  // f32; magnitude is not negative

}  // namespace reprise::jit::code
