// One combination of each reduction, over whatever shape the lanes have: its identity, a step, two partial
// results, the lanes of a vector. Identities change nothing: -0 for a sum, 1 for a product.
#include "jit/cpu/emit_state.h"
#include "reprise/error.h"

namespace reprise::cpu {

using jit::reduction_kind;

namespace {

bool is_arg(jit::reduction const& r) {
  return r.kind == reduction_kind::argmax || r.kind == reduction_kind::argmin;
}

}  // namespace

dtype emitter::operand_type(jit::reduction const& r) const {
  if (!is_arg(r)) return r.type;
  dtype const t = phase_->body[r.value].type;
  return is_half(t) ? dtype::f32 : t == dtype::boolean ? dtype::u8 : t;
}

// Of an index: 32 bits where they suffice.
llvm::IntegerType* emitter::index_type() {
  return phase_->extent < INT32_MAX ? b_.getInt32Ty() : b_.getInt64Ty();
}

llvm::Constant* emitter::behind_all() {
  return llvm::ConstantInt::get(index_type(), llvm::APInt::getSignedMaxValue(index_type()->getBitWidth()));
}

accumulator emitter::identity(jit::reduction const& r, Value* first) {
  dtype const t = operand_type(r);
  llvm::Type* const type = ops_.type(t);
  auto lowest = [&](bool low) -> llvm::Constant* {
    if (is_floating(t)) return llvm::ConstantFP::getInfinity(type, low);
    unsigned const bits = type->getIntegerBitWidth();
    if (t == dtype::u8 || t == dtype::boolean)
      return llvm::ConstantInt::get(type, low ? llvm::APInt::getZero(bits) : llvm::APInt::getMaxValue(bits));
    return llvm::ConstantInt::get(
        type, low ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
  };
  llvm::Constant* c = nullptr;
  switch (r.kind) {
    case reduction_kind::sum:
      c = is_floating(t) ? llvm::ConstantFP::getNegativeZero(type) : llvm::Constant::getNullValue(type);
      break;
    case reduction_kind::prod:
      c = is_floating(t) ? llvm::ConstantFP::get(type, 1) : llvm::ConstantInt::get(type, 1);
      break;
    case reduction_kind::max:
    case reduction_kind::argmax: c = lowest(true); break;
    case reduction_kind::min:
    case reduction_kind::argmin: c = lowest(false); break;
    case reduction_kind::any: c = b_.getFalse(); break;
    case reduction_kind::all: c = b_.getTrue(); break;
  }
  accumulator a;
  a.value = splat(c);
  if (is_arg(r)) a.index = splat(first ? first : behind_all());
  return a;
}

Value* emitter::empty(jit::reduction const& r) {
  int const lanes = lanes_;
  lanes_ = 1;
  Value* const e = r.kind == reduction_kind::sum ? ops_.constant(r.type, 0)
                   : is_arg(r)                   ? b_.getInt64(0)
                                                 : identity(r).value;
  lanes_ = lanes;
  return e;
}

accumulator emitter::choose(Value* mask, accumulator yes, accumulator no) {
  accumulator a;
  a.value = b_.CreateSelect(mask, yes.value, no.value);
  if (yes.index) a.index = b_.CreateSelect(mask, yes.index, no.index);
  return a;
}

accumulator emitter::combine(jit::reduction const& r, accumulator a, accumulator b) {
  dtype const t = operand_type(r);
  bool const floating = is_floating(t);
  accumulator c;
  switch (r.kind) {
    case reduction_kind::sum:
      c.value = floating ? b_.CreateFAdd(a.value, b.value) : b_.CreateAdd(a.value, b.value);
      break;
    case reduction_kind::prod:
      c.value = floating ? b_.CreateFMul(a.value, b.value) : b_.CreateMul(a.value, b.value);
      break;
    case reduction_kind::max: c.value = ops_.maximum(t, a.value, b.value); break;
    case reduction_kind::min: c.value = ops_.minimum(t, a.value, b.value); break;
    case reduction_kind::any: c.value = b_.CreateOr(a.value, b.value); break;
    case reduction_kind::all: c.value = b_.CreateAnd(a.value, b.value); break;
    case reduction_kind::argmax:
    case reduction_kind::argmin: {
      // The first nan, else the first extreme: b if it is better, or as good and earlier.
      bool const largest = r.kind == reduction_kind::argmax;
      Value* better = largest ? ops_.less(t, a.value, b.value) : ops_.less(t, b.value, a.value);
      Value* as_good = floating ? b_.CreateFCmpOEQ(a.value, b.value) : b_.CreateICmpEQ(a.value, b.value);
      if (floating) {
        Value* const nan_a = b_.CreateFCmpUNO(a.value, a.value);
        Value* const nan_b = b_.CreateFCmpUNO(b.value, b.value);
        better = b_.CreateOr(better, b_.CreateAnd(nan_b, b_.CreateNot(nan_a)));
        as_good = b_.CreateOr(as_good, b_.CreateAnd(nan_a, nan_b));
      }
      Value* const earlier = b_.CreateICmpSLT(b.index, a.index);
      return choose(b_.CreateOr(better, b_.CreateAnd(as_good, earlier)), b, a);
    }
  }
  return c;
}

accumulator emitter::step(jit::reduction const& r, accumulator a, int t, int v, Value* base) {
  dtype const type = operand_type(r);
  dtype const given = phase_->body[r.value].type;
  Value* const x = ops_.convert(given, type, vector(r.value, t, v));
  if (r.order == jit::order::contract && r.factor != jit::no_value) {
    Value* const y = ops_.convert(phase_->body[r.factor].type, type, vector(r.factor, t, v));
    accumulator c;
    if (is_floating(type))
      c.value = b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, a.value});
    else c.value = b_.CreateAdd(b_.CreateMul(x, y), a.value);
    return c;
  }
  accumulator e;
  e.value = x;
  if (!a.index) return combine(r, a, e);
  // Indices ascend here, so only what is really better replaces.
  e.index = b_.CreateIntCast(base, index_type(), true);
  if (!along_grid_ && v != 0)
    e.index = b_.CreateAdd(e.index, llvm::ConstantInt::getSigned(index_type(), v * lanes_));
  e.index = splat(e.index);
  if (!along_grid_ && lanes_ > 1) e.index = b_.CreateAdd(e.index, iota(index_type(), 1));
  Value *low = a.value, *high = x;
  if (r.kind == reduction_kind::argmin) std::swap(low, high);
  if (!is_floating(type)) return choose(ops_.less(type, low, high), e, a);
  Value* const better_or_nan = b_.CreateFCmpULT(low, high);
  return choose(b_.CreateAnd(better_or_nan, b_.CreateFCmpORD(a.value, a.value)), e, a);
}

accumulator emitter::fold_lanes(jit::reduction const& r, accumulator a) {
  for (int m = lanes_; m > 1; m /= 2) {
    std::vector<int> low, high;
    for (int l = 0; l < m / 2; ++l) {
      low.push_back(l);
      high.push_back(l + m / 2);
    }
    auto half = [&](std::vector<int> const& which) {
      accumulator h;
      h.value = b_.CreateShuffleVector(a.value, which);
      if (a.index) h.index = b_.CreateShuffleVector(a.index, which);
      return h;
    };
    a = combine(r, half(low), half(high));
  }
  if (lanes_ > 1) {
    a.value = b_.CreateExtractElement(a.value, std::uint64_t{0});
    if (a.index) a.index = b_.CreateExtractElement(a.index, std::uint64_t{0});
  }
  return a;
}

void emitter::leave(jit::reduction const& r, int t, int v, Value* result) {
  if (is_arg(r)) result = b_.CreateSExt(result, values::shaped(b_.getInt64Ty(), result));
  rows_[r.row][along_grid_ ? static_cast<std::size_t>(t * vectors_ + v) : 0] = result;
}

}  // namespace reprise::cpu
