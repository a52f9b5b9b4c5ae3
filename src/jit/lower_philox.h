// Philox 4x32-10 as instructions.
#pragma once

#include "jit/code.h"

namespace reprise::jit {

// Word `word` (0 to 3) of the block with counter words (low, high, 0, 0), all i64 in [0, 2^32), under an i64
// key.
code::val philox_word(code::val key, code::val low, code::val high, code::val word);

}  // namespace reprise::jit
