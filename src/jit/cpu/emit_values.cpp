#include "jit/cpu/emit_values.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "reprise/error.h"

namespace reprise::cpu {

using jit::kop;
using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

llvm::Type* values::type(dtype t) const {
  auto& c = b_.getContext();
  switch (t) {
    case dtype::boolean: return llvm::Type::getInt1Ty(c);
    case dtype::u8: return llvm::Type::getInt8Ty(c);
    case dtype::i32: return llvm::Type::getInt32Ty(c);
    case dtype::i64: return llvm::Type::getInt64Ty(c);
    case dtype::f16:
    case dtype::bf16: return llvm::Type::getInt16Ty(c);
    case dtype::f32: return llvm::Type::getFloatTy(c);
    case dtype::f64: return llvm::Type::getDoubleTy(c);
  }
  throw compile_error("a dtype without an LLVM type");
}

llvm::Type* values::memory_type(dtype t) const {
  return t == dtype::boolean ? llvm::Type::getInt8Ty(b_.getContext()) : type(t);
}

llvm::Constant* values::constant(dtype t, std::uint64_t bits) const {
  llvm::Type* const as = type(t);
  if (t == dtype::boolean) return llvm::ConstantInt::get(as, bits != 0);
  if (t == dtype::f32)
    return llvm::ConstantFP::get(
        as, llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits & 0xffffffffu)));
  if (t == dtype::f64)
    return llvm::ConstantFP::get(as, llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits)));
  return llvm::ConstantInt::get(as, llvm::APInt(as->getIntegerBitWidth(), bits));
}

llvm::Type* values::shaped(llvm::Type* t, Value const* like) {
  if (auto const* v = llvm::dyn_cast<llvm::FixedVectorType>(like->getType()))
    return llvm::FixedVectorType::get(t, v->getNumElements());
  return t;
}

llvm::Constant* values::splat(Value const* like, llvm::Constant* c) const {
  if (auto const* v = llvm::dyn_cast<llvm::FixedVectorType>(like->getType()))
    return llvm::ConstantVector::getSplat(v->getElementCount(), c);
  return c;
}

llvm::Constant* values::number(Value const* like, dtype t, double v) const {
  return splat(like, llvm::ConstantFP::get(type(t), v));
}

llvm::Constant* values::integer(Value const* like, std::int64_t v) const {
  return llvm::ConstantInt::getSigned(like->getType(), v);
}

Value* values::from_memory(dtype t, Value* v) const {
  return t == dtype::boolean ? b_.CreateICmpNE(v, integer(v, 0)) : v;
}

Value* values::to_memory(dtype t, Value* v) const {
  return t == dtype::boolean ? b_.CreateZExt(v, shaped(memory_type(t), v)) : v;
}

Value* values::half_to_f32(dtype from, Value* v) {
  llvm::Type* const f32 = shaped(type(dtype::f32), v);
  if (from == dtype::f16 && host_.converts_halves)
    return b_.CreateFPExt(b_.CreateBitCast(v, shaped(b_.getHalfTy(), v)), f32);
  Value* const wide = b_.CreateZExt(v, shaped(b_.getInt32Ty(), v));
  if (from == dtype::bf16) return b_.CreateBitCast(b_.CreateShl(wide, integer(wide, 16)), f32);
  // The exponent moves by 112, of infinities and nan twice; a denormal is a whole number of 2^-24.
  Value* const magnitude = b_.CreateAnd(wide, integer(wide, 0x7fff));
  Value* const sign = b_.CreateShl(b_.CreateAnd(wide, integer(wide, 0x8000)), integer(wide, 16));
  Value* const normal = b_.CreateAdd(b_.CreateShl(magnitude, integer(wide, 13)), integer(wide, 112 << 23));
  Value* const special = b_.CreateAdd(normal, integer(wide, 112 << 23));
  Value* const tiny = b_.CreateBitCast(
      b_.CreateFMul(b_.CreateSIToFP(magnitude, f32), number(v, dtype::f32, 0x1p-24)), wide->getType());
  Value* const finite = b_.CreateSelect(b_.CreateICmpULT(magnitude, integer(wide, 0x400)), tiny, normal);
  Value* const bits = b_.CreateSelect(b_.CreateICmpULT(magnitude, integer(wide, 0x7c00)), finite, special);
  return b_.CreateBitCast(b_.CreateOr(bits, sign), f32);
}

Value* values::f32_to_half(dtype to, Value* v) {
  llvm::Type* const bits16 = shaped(b_.getInt16Ty(), v);
  if (to == dtype::f16 && host_.converts_halves)
    return b_.CreateBitCast(b_.CreateFPTrunc(v, shaped(b_.getHalfTy(), v)), bits16);
  Value* const isnan = b_.CreateFCmpUNO(v, v);
  Value* const bits = b_.CreateBitCast(v, shaped(b_.getInt32Ty(), v));
  if (to == dtype::f16) {
    // What is below 2^-14 gets its rounding from an addition of 0.5, whose last place is 2^-24.
    Value* const magnitude = b_.CreateAnd(bits, integer(bits, 0x7fffffff));
    Value* const sign = b_.CreateAnd(b_.CreateLShr(bits, integer(bits, 16)), integer(bits, 0x8000));
    Value* const sum = b_.CreateFAdd(b_.CreateBitCast(magnitude, v->getType()), number(v, dtype::f32, 0.5));
    Value* const tiny = b_.CreateSub(b_.CreateBitCast(sum, bits->getType()), integer(bits, 0x3f000000));
    Value* const moved = b_.CreateSub(magnitude, integer(bits, 112 << 23));
    Value* const odd = b_.CreateAnd(b_.CreateLShr(moved, integer(bits, 13)), integer(bits, 1));
    Value* const normal =
        b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(moved, odd), integer(bits, 0xfff)), integer(bits, 13));
    Value* r = b_.CreateSelect(b_.CreateICmpULT(magnitude, integer(bits, 0x38800000)), tiny, normal);
    r = b_.CreateSelect(b_.CreateICmpULT(magnitude, integer(bits, 0x477ff000)), r, integer(bits, 0x7c00));
    r = b_.CreateSelect(isnan, integer(bits, 0x7e00), r);
    return b_.CreateTrunc(b_.CreateOr(r, sign), bits16);
  }
  Value* const odd = b_.CreateAnd(b_.CreateLShr(bits, integer(bits, 16)), integer(bits, 1));
  Value* const rounded =
      b_.CreateLShr(b_.CreateAdd(bits, b_.CreateAdd(odd, integer(bits, 0x7fff))), integer(bits, 16));
  return b_.CreateTrunc(b_.CreateSelect(isnan, integer(bits, 0x7fc0), rounded), bits16);
}

// LLVM's own saturating conversion takes a lane at a time. Of select, what is not chosen may be poison.
Value* values::saturated(dtype from, dtype to, Value* v) {
  llvm::Type* const result = shaped(type(to), v);
  if (to == dtype::u8) {
    Value* const zero = number(v, from, 0);
    Value* const most = number(v, from, 255);
    v = b_.CreateSelect(b_.CreateFCmpOGT(v, zero), v, zero);
    v = b_.CreateSelect(b_.CreateFCmpOLT(v, most), v, most);
    return b_.CreateTrunc(b_.CreateFPToSI(v, shaped(b_.getInt32Ty(), v)), result);
  }
  double const end = to == dtype::i32 ? 0x1p31 : 0x1p63;
  Value* const inside = b_.CreateFPToSI(v, result);
  unsigned const bits = result->getScalarSizeInBits();
  auto* const high = llvm::ConstantInt::get(result, llvm::APInt::getSignedMaxValue(bits));
  auto* const low = llvm::ConstantInt::get(result, llvm::APInt::getSignedMinValue(bits));
  Value* r = b_.CreateSelect(b_.CreateFCmpOGE(v, number(v, from, end)), high, inside);
  r = b_.CreateSelect(b_.CreateFCmpOLT(v, number(v, from, -end)), low, r);
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), llvm::Constant::getNullValue(result), r);
}

Value* values::convert(dtype from, dtype to, Value* v) {
  if (from == to) return v;
  llvm::Type* const result = shaped(type(to), v);
  if (is_half(from)) {
    if (to == dtype::boolean) return b_.CreateICmpNE(b_.CreateAnd(v, integer(v, 0x7fff)), integer(v, 0));
    return convert(dtype::f32, to, half_to_f32(from, v));
  }
  if (is_half(to)) return f32_to_half(to, convert(from, dtype::f32, v));
  if (to == dtype::boolean) {
    if (is_floating(from)) return b_.CreateFCmpUNE(v, number(v, from, 0));
    return b_.CreateICmpNE(v, integer(v, 0));
  }
  if (from == dtype::boolean) {
    if (is_floating(to)) return b_.CreateSelect(v, number(v, to, 1), number(v, to, 0));
    return b_.CreateZExt(v, result);
  }
  if (is_floating(from) && is_floating(to)) return b_.CreateFPCast(v, result);
  if (is_floating(from)) return saturated(from, to, v);
  if (is_floating(to)) return from == dtype::u8 ? b_.CreateUIToFP(v, result) : b_.CreateSIToFP(v, result);
  return b_.CreateIntCast(v, result, from != dtype::u8);
}

// vminps(a, b) is a < b ? a : b: b where one is nan, and b for two zeros. So: put the zero that must win
// second by the bits (the or of two equal values is itself, of zeros -0 if one is; and likewise), and give
// nan where a is one.
Value* values::extreme(dtype t, bool largest, Value* a, Value* b) {
  if (t == dtype::boolean) return largest ? b_.CreateOr(a, b) : b_.CreateAnd(a, b);
  if (t == dtype::u8) return binary(largest ? intrinsic::umax : intrinsic::umin, a, b);
  if (!is_floating(t)) return binary(largest ? intrinsic::smax : intrinsic::smin, a, b);
  return binary(largest ? intrinsic::maximum : intrinsic::minimum, a, b);
}
Value* values::minimum(dtype t, Value* a, Value* b) { return extreme(t, false, a, b); }
Value* values::maximum(dtype t, Value* a, Value* b) { return extreme(t, true, a, b); }

Value* values::less(dtype t, Value* a, Value* b) {
  if (is_floating(t)) return b_.CreateFCmpOLT(a, b);
  return t == dtype::u8 || t == dtype::boolean ? b_.CreateICmpULT(a, b) : b_.CreateICmpSLT(a, b);
}

// Of integers, without a trap. A vector of i32 divides in f64 and one of u8 in f32: the quotient of two
// integers differs from every integer by more than the rounding of those, so its truncation is exact.
Value* values::quotient(dtype t, Value* a, Value* b) {
  Value* const by_zero = b_.CreateICmpEQ(b, integer(b, 0));
  Value* const zero = integer(a, 0);
  if (t == dtype::u8) {
    Value* const safe = b_.CreateSelect(by_zero, integer(b, 1), b);
    if (!a->getType()->isVectorTy() || llvm::isa<llvm::Constant>(b))
      return b_.CreateSelect(by_zero, zero, b_.CreateUDiv(a, safe));
    Value* const q = b_.CreateFDiv(convert(t, dtype::f32, a), convert(t, dtype::f32, safe));
    llvm::Type* const wide = shaped(b_.getInt32Ty(), a);
    return b_.CreateSelect(by_zero, zero, b_.CreateTrunc(b_.CreateFPToSI(q, wide), a->getType()));
  }
  Value* const by_minus_one = b_.CreateICmpEQ(b, integer(b, -1));
  Value* const safe = b_.CreateSelect(b_.CreateOr(by_zero, by_minus_one), integer(b, 1), b);
  Value* q = nullptr;
  if (t == dtype::i32 && a->getType()->isVectorTy() && !llvm::isa<llvm::Constant>(b)) {
    Value* const exact = b_.CreateFDiv(convert(t, dtype::f64, a), convert(t, dtype::f64, safe));
    q = b_.CreateFPToSI(exact, a->getType());
  } else {
    q = b_.CreateSDiv(a, safe);
  }
  return b_.CreateSelect(by_zero, zero, b_.CreateSelect(by_minus_one, b_.CreateNeg(a), q));
}

// 0 over -1 and 0 over 0 come out by themselves: a - (-a * -1) = 0; over 0 the whole is asked for.
Value* values::remainder(dtype t, Value* a, Value* b) {
  Value* const r = b_.CreateSub(a, b_.CreateMul(quotient(t, a, b), b));
  return b_.CreateSelect(b_.CreateICmpEQ(b, integer(b, 0)), integer(a, 0), r);
}

// A host function over n values in memory: void(T* inout, T const* second, i64 n). One call for a vector.
Value* values::call(char const* symbol, Value* a, Value* b) {
  llvm::Function* const f = b_.GetInsertBlock()->getParent();
  auto* const i64 = b_.getInt64Ty();
  auto callee = f->getParent()->getOrInsertFunction(
      symbol, llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), b_.getPtrTy(), i64}, false));
  auto slot = [&](Value* v) {
    llvm::IRBuilder<> entry(&f->getEntryBlock(), f->getEntryBlock().begin());
    auto* const memory = entry.CreateAlloca(v->getType());
    b_.CreateStore(v, memory);
    return memory;
  };
  auto* const first = slot(a);
  Value* const second = b ? static_cast<Value*>(slot(b)) : llvm::ConstantPointerNull::get(b_.getPtrTy());
  auto const* vector = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  b_.CreateCall(callee, {first, second, b_.getInt64(vector ? vector->getNumElements() : 1)})
      ->setDoesNotThrow();
  return b_.CreateLoad(a->getType(), first);
}

namespace {

char const* symbol_of(jit::libm which) {
  switch (which) {
    case jit::libm::exp: return "reprise_exp";
    case jit::libm::expm1: return "reprise_expm1";
    case jit::libm::log: return "reprise_log";
    case jit::libm::log1p: return "reprise_log1p";
    case jit::libm::sin: return "reprise_sin";
    case jit::libm::cos: return "reprise_cos";
    case jit::libm::tanh: return "reprise_tanh";
    case jit::libm::erf: return "reprise_erf";
    case jit::libm::erfc: return "reprise_erfc";
    case jit::libm::pow: return "reprise_pow";
  }
  throw compile_error("a libm function without a symbol");
}

}  // namespace

Value* values::apply(jit::instruction const& i, dtype from, Value* a, Value* b, Value* c) {
  bool const floating = is_floating(from);
  switch (i.code) {
    case kop::add: return floating ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case kop::sub: return floating ? b_.CreateFSub(a, b) : b_.CreateSub(a, b);
    case kop::mul: return floating ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    case kop::div: return floating ? b_.CreateFDiv(a, b) : quotient(from, a, b);
    case kop::rem:
      if (floating) return call(from == dtype::f32 ? "reprise_fmodf" : "reprise_fmod", a, b);
      return remainder(from, a, b);
    case kop::neg: return floating ? b_.CreateFNeg(a) : b_.CreateNeg(a);
    case kop::abs:
      if (floating) return unary(intrinsic::fabs, a);
      return from == dtype::u8 ? a : binary(intrinsic::abs, a, b_.getFalse());
    case kop::sqrt: return unary(intrinsic::sqrt, a);
    case kop::fma: return b_.CreateIntrinsic(intrinsic::fma, {a->getType()}, {a, b, c});
    case kop::floor: return unary(intrinsic::floor, a);
    case kop::ceil: return unary(intrinsic::ceil, a);
    case kop::trunc: return unary(intrinsic::trunc, a);
    case kop::rint: return unary(intrinsic::roundeven, a);
    case kop::minimum: return minimum(from, a, b);
    case kop::maximum: return maximum(from, a, b);
    case kop::lt: return less(from, a, b);
    case kop::le:
      if (floating) return b_.CreateFCmpOLE(a, b);
      return from == dtype::u8 || from == dtype::boolean ? b_.CreateICmpULE(a, b) : b_.CreateICmpSLE(a, b);
    case kop::eq: return floating ? b_.CreateFCmpOEQ(a, b) : b_.CreateICmpEQ(a, b);
    case kop::ne: return floating ? b_.CreateFCmpUNE(a, b) : b_.CreateICmpNE(a, b);
    case kop::band: return b_.CreateAnd(a, b);
    case kop::bor: return b_.CreateOr(a, b);
    case kop::bxor: return b_.CreateXor(a, b);
    case kop::bnot: return b_.CreateNot(a);
    case kop::shl: return b_.CreateShl(a, b);
    case kop::lshr: return b_.CreateLShr(a, b);
    case kop::ashr: return from == dtype::u8 ? b_.CreateLShr(a, b) : b_.CreateAShr(a, b);
    case kop::select: return b_.CreateSelect(a, b, c);
    case kop::convert: return convert(from, i.type, a);
    case kop::bitcast: return b_.CreateBitCast(a, shaped(type(i.type), a));
    case kop::call: return call(symbol_of(static_cast<jit::libm>(i.slot)), a, b);
    case kop::const_:
    case kop::scalar:
    case kop::index:
    case kop::row:
    case kop::load:
    case kop::load_local:
    case kop::store:
    case kop::store_local: break;
  }
  throw compile_error("an instruction that is not arithmetic");
}

}  // namespace reprise::cpu
