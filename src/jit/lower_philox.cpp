#include "jit/lower_philox.h"

#include <array>

namespace reprise::jit {

using namespace code;

val philox_word(val key, val low, val high, val word) {
  std::int64_t const mask = 0xffffffff;
  val const m = integer(key, mask), half = integer(key, 32);
  val const zero_word = integer(key, 0);
  std::array<val, 4> c{low, high, zero_word, zero_word};
  std::array<val, 2> k{band(key, m), band(lshr(key, half), m)};
  for (int round = 0; round < 10; ++round) {
    // 32 by 32 bits give 64, which is what wrapping i64 multiplication leaves
    val const p0 = mul(c[0], integer(key, 0xd2511f53)), p1 = mul(c[2], integer(key, 0xcd9e8d57));
    c = {bxor(bxor(lshr(p1, half), c[1]), k[0]), band(p1, m), bxor(bxor(lshr(p0, half), c[3]), k[1]),
         band(p0, m)};
    k = {band(add(k[0], integer(key, 0x9e3779b9)), m), band(add(k[1], integer(key, 0xbb67ae85)), m)};
  }
  val const upper = select(eq(word, integer(key, 2)), c[2], c[3]);
  return select(eq(word, integer(key, 0)), c[0], select(eq(word, integer(key, 1)), c[1], upper));
}

}  // namespace reprise::jit
