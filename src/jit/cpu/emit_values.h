// One instruction of the kernel form as LLVM IR, for a scalar or for a vector of any length: the type of the
// operands says which. Every operation is total and means what docs/numbers.md says; no fast-math flag is
// ever set.
//
// In registers a boolean is i1, the half types are i16 (their bits), the rest is itself. In memory a boolean
// is a byte.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "jit/cpu/target.h"
#include "jit/kernel.h"

namespace reprise::cpu {

class values {
 public:
  values(llvm::IRBuilder<>& b, target const& host) : b_(b), host_(host) {}

  llvm::Type* type(dtype t) const;
  llvm::Type* memory_type(dtype t) const;
  llvm::Constant* constant(dtype t, std::uint64_t bits) const;
  llvm::Value* from_memory(dtype t, llvm::Value* v) const;  // a loaded memory_type
  llvm::Value* to_memory(dtype t, llvm::Value* v) const;

  // The arithmetic of the table: everything but sources and effects. `from`: the dtype of operand a.
  llvm::Value* apply(jit::instruction const& i, dtype from, llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* convert(dtype from, dtype to, llvm::Value* v);
  llvm::Value* minimum(dtype t, llvm::Value* a, llvm::Value* b);
  llvm::Value* maximum(dtype t, llvm::Value* a, llvm::Value* b);
  llvm::Value* less(dtype t, llvm::Value* a, llvm::Value* b);

  // t, or a vector of t as long as `like` is one.
  static llvm::Type* shaped(llvm::Type* t, llvm::Value const* like);
  llvm::Constant* splat(llvm::Value const* like, llvm::Constant* c) const;
  llvm::Constant* number(llvm::Value const* like, dtype t,
                         double v) const;  // a floating constant in the shape of like
  llvm::Constant* integer(llvm::Value const* like, std::int64_t v) const;  // of like's own type

 private:
  llvm::Value* unary(llvm::Intrinsic::ID id, llvm::Value* a) { return b_.CreateUnaryIntrinsic(id, a); }
  llvm::Value* binary(llvm::Intrinsic::ID id, llvm::Value* a, llvm::Value* b) {
    return b_.CreateBinaryIntrinsic(id, a, b);
  }
  llvm::Value* extreme(dtype t, bool largest, llvm::Value* a, llvm::Value* b);
  llvm::Value* quotient(dtype t, llvm::Value* a, llvm::Value* b);
  llvm::Value* remainder(dtype t, llvm::Value* a, llvm::Value* b);
  llvm::Value* call(char const* symbol, llvm::Value* a, llvm::Value* b);
  llvm::Value* saturated(dtype from, dtype to, llvm::Value* v);
  llvm::Value* half_to_f32(dtype from, llvm::Value* v);
  llvm::Value* f32_to_half(dtype to, llvm::Value* v);

  llvm::IRBuilder<>& b_;
  target const& host_;
};

}  // namespace reprise::cpu
