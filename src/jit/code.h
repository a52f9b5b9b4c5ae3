// Building instructions: `code::` is the vocabulary of the kernel column of ops.def. A value under
// construction knows its body; equal instructions are one value and constants fold by docs/numbers.md.
// Elementary functions (code_math*.cpp) are built of these instructions only, so that every code generator
// gives the same bits; in f64 they are `call`s.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "jit/kernel.h"

namespace reprise::jit::code {

class body;  // the instructions of one phase under construction

struct val {
  body* in = nullptr;
  value_id id = no_value;
  dtype type() const;
};

class body {
 public:
  body();
  ~body();
  val append(instruction i);  // value-numbered unless it is a store
  val constant(dtype t, std::uint64_t bits);
  val number(dtype t, double value);  // rounded to t
  std::vector<instruction> const& instructions() const;
  std::vector<instruction> take();
  instruction const& at(value_id id) const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

// kop by kop; operands share a dtype unless kernel.h says otherwise
val add(val, val);
val sub(val, val);
val mul(val, val);
val div(val, val);
val rem(val, val);
val neg(val);
val abs(val);
val sqrt(val);
val fma(val, val, val);
val floor(val);
val ceil(val);
val trunc(val);
val rint(val);
val minimum(val, val);
val maximum(val, val);
val lt(val, val);
val le(val, val);
val eq(val, val);
val ne(val, val);
val band(val, val);
val bor(val, val);
val bxor(val, val);
val bnot(val);
val shl(val, val);
val lshr(val, val);
val ashr(val, val);
val select(val condition, val yes, val no);
val convert(val, dtype);
val bitcast(val, dtype);
val call(libm, val);
val call(libm, val, val);
// the same dtype as `like`
val number(val like, double value);
val integer(val like, std::int64_t value);
val bits(val like, std::uint64_t pattern);
val zero(val like);
val truth(val);  // is it not zero: boolean

// composed, total over all inputs
val floor_divide(val, val);
val mod(val, val);
val sign(val);
val isfinite(val);
val isinf(val);
val left_shift(val, val);
val right_shift(val, val);

// elementary functions: f32 by instructions within the row's ulps over all finite inputs, right at 0, -0,
// inf, nan, denormals; f64 by call
val rsqrt(val);
val exp(val);
val expm1(val);
val log(val);
val log1p(val);
val sin(val);
val cos(val);
val tanh(val);
val sigmoid(val);
val erf(val);
val gelu(val);
val gelu_tanh(val);
val pow(val, val);

}  // namespace reprise::jit::code
