// Loads and stores. A vector whose lanes follow each other in memory is one access; a few small strides are
// whole vectors shuffled together; everything else is a gather or a scatter. What a guard or the end of a
// loop forbids is never touched: vectors have masks, and a scalar that may not be touched goes to memory of
// the kernel's own.
#include <llvm/IR/Intrinsics.h>

#include "jit/cpu/emit_state.h"
#include "reprise/error.h"

namespace reprise::cpu {

using jit::kop;

Value* emitter::scratch(std::int64_t bytes) {
  std::int64_t const at = scratch_at_;
  scratch_at_ += (bytes + 63) / 64 * 64;
  scratch_bytes_ = std::max(scratch_bytes_, scratch_at_);
  return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scratch_argument_, static_cast<std::uint64_t>(at));
}

emitter::access emitter::locate_access(jit::instruction const& i, int t, int v) {
  access a{};
  a.local = i.code == kop::load_local || i.code == kop::store_local;
  dtype const type = a.local ? k_.locals[i.slot].type : k_.buffers[i.slot].type;
  a.type = ops_.memory_type(type);
  a.where = locate(i.index, t, v);
  if (a.local && along_grid_) {
    // Element e of every point of the block lies together: [e][tile][vectors][lanes].
    std::int64_t const points = static_cast<std::int64_t>(tile_) * vectors_ * lanes_;
    place& p = a.where;
    if (p.row) p.row = scaled(p.row, points);
    if (p.loop) p.loop = scaled(p.loop, points);
    if (p.spread)
      p.spread = b_.CreateMul(p.spread, llvm::ConstantInt::getSigned(p.spread->getType(), points));
    p.constant = p.constant * points + (static_cast<std::int64_t>(t) * vectors_ + v) * lanes_;
    p.stride = p.stride * points + 1;
  }
  Value* p = a.local ? locals_[i.slot] : buffers_[i.slot];
  if (a.where.row) {
    auto const known = row_pointers_.find({p, a.where.row});
    if (known != row_pointers_.end()) {
      p = known->second;
    } else {
      Value* const moved = at(p, a.where.row, a.type);
      if (!in_loop_) row_pointers_[{p, a.where.row}] = moved;
      p = moved;
    }
  }
  if (a.where.loop) p = at(p, a.where.loop, a.type);
  if (a.where.constant != 0)
    p = b_.CreateConstInBoundsGEP1_64(a.type, p, static_cast<std::uint64_t>(a.where.constant));
  a.first = p;
  return a;
}

llvm::Constant* emitter::first_lanes(int n) {
  std::vector<llvm::Constant*> c;
  for (int l = 0; l < lanes_; ++l) c.push_back(b_.getInt1(l < n));
  return llvm::ConstantVector::get(c);
}

Value* emitter::mask_of(jit::instruction const& i, int t, int v) {
  Value* const tail = lane_mask(v);
  if (i.guard == jit::no_value) return tail;
  Value* const guard = vector(i.guard, t, v);
  return tail ? b_.CreateAnd(guard, tail) : guard;
}

namespace {

std::vector<int> reversed(int n) {
  std::vector<int> m;
  for (int l = 0; l < n; ++l) m.push_back(n - 1 - l);
  return m;
}

}  // namespace

Value* emitter::strided_load(access const& a, Value* mask) {
  llvm::Type* const type = vector_type(a.type);
  auto const size = static_cast<unsigned>(m_.getDataLayout().getTypeStoreSize(a.type));
  llvm::Align const align(size);
  std::int64_t const s = a.where.stride;
  auto offset = [&](std::int64_t elements) {
    return elements == 0
               ? a.first
               : b_.CreateConstInBoundsGEP1_64(a.type, a.first, static_cast<std::uint64_t>(elements));
  };
  if (!a.where.spread && s == 1) {
    if (!mask) return b_.CreateAlignedLoad(type, a.first, align);
    return b_.CreateMaskedLoad(type, a.first, align, mask, llvm::Constant::getNullValue(type));
  }
  if (!a.where.spread && s == -1) {
    auto const order = reversed(lanes_);
    Value* const first = offset(1 - lanes_);
    if (!mask) return b_.CreateShuffleVector(b_.CreateAlignedLoad(type, first, align), order);
    Value* const backward = b_.CreateShuffleVector(mask, order);
    return b_.CreateShuffleVector(
        b_.CreateMaskedLoad(type, first, align, backward, llvm::Constant::getNullValue(type)), order);
  }
  if (!a.where.spread && !mask && s >= 2 && s <= 4 && s <= lanes_) {
    // Element l * s lies in vector l * s / lanes; the last vector ends with the last element, so that nothing
    // behind it is read.
    std::int64_t const last_start = s * (lanes_ - 1) - (lanes_ - 1);
    Value* result = b_.CreateAlignedLoad(type, a.first, align);
    for (std::int64_t part = 1; part < s; ++part) {
      std::int64_t const start = part == s - 1 ? last_start : part * lanes_;
      Value* const next = b_.CreateAlignedLoad(type, offset(start), align);
      std::vector<int> pick;
      for (std::int64_t l = 0; l < lanes_; ++l) {
        std::int64_t const e = l * s;
        if (e / lanes_ < part) pick.push_back(static_cast<int>(part == 1 ? e : l));
        else pick.push_back(e / lanes_ == part ? static_cast<int>(lanes_ + e - start) : 0);
      }
      result = b_.CreateShuffleVector(result, next, pick);
    }
    return result;
  }
  Value* const lanes = lane_offsets(a.where);
  // Narrow elements have no gather instruction: lanes that may not be touched read memory of ours, or each
  // would be a branch.
  if (mask && size < 4) {
    auto* const wide = llvm::FixedVectorType::get(b_.getInt64Ty(), static_cast<unsigned>(lanes_));
    Value* const base_bits = b_.CreatePtrToInt(a.first, b_.getInt64Ty());
    Value* const bytes =
        b_.CreateMul(b_.CreateSExtOrTrunc(lanes, wide), llvm::ConstantInt::getSigned(wide, size));
    Value* const addresses =
        b_.CreateAdd(b_.CreateVectorSplat(static_cast<unsigned>(lanes_), base_bits), bytes);
    Value* const harmless =
        b_.CreateVectorSplat(static_cast<unsigned>(lanes_), b_.CreatePtrToInt(dummy_, b_.getInt64Ty()));
    Value* const chosen = b_.CreateSelect(mask, addresses, harmless);
    Value* const pointers =
        b_.CreateIntToPtr(chosen, llvm::FixedVectorType::get(b_.getPtrTy(), static_cast<unsigned>(lanes_)));
    Value* const all = llvm::Constant::getAllOnesValue(mask->getType());
    Value* const loaded = b_.CreateMaskedGather(type, pointers, align, all);
    return b_.CreateSelect(mask, loaded, llvm::Constant::getNullValue(type));
  }
  Value* const pointers = b_.CreateGEP(a.type, a.first, lanes);
  return b_.CreateMaskedGather(type, pointers, align, mask, llvm::Constant::getNullValue(type));
}

Value* emitter::load(jit::instruction const& i, int t, int v) {
  access const a = locate_access(i, t, v);
  dtype const type = a.local ? k_.locals[i.slot].type : k_.buffers[i.slot].type;
  llvm::Align const align(m_.getDataLayout().getTypeStoreSize(a.type));
  auto const id = static_cast<jit::value_id>(&i - phase_->body.data());
  Value* const zero = ops_.constant(type, 0);
  bool const one_place = lanes_ == 1 || (!a.where.spread && a.where.stride == 0);
  if (!one_place) return ops_.from_memory(type, strided_load(a, mask_of(i, t, v)));
  if (i.guard == jit::no_value) {
    Value* const x = ops_.from_memory(type, b_.CreateAlignedLoad(a.type, a.first, align));
    return is_vector(id) ? splat(x) : x;
  }
  Value* const guard = is_vector(id) ? mask_of(i, t, v) : get(i.guard, t, v);
  Value* const anyone = guard->getType()->isVectorTy() ? b_.CreateOrReduce(guard) : guard;
  Value* const x =
      ops_.from_memory(type, b_.CreateAlignedLoad(a.type, b_.CreateSelect(anyone, a.first, dummy_), align));
  return b_.CreateSelect(guard, is_vector(id) ? splat(x) : x, is_vector(id) ? splat(zero) : zero);
}

void emitter::store(jit::instruction const& i, int t, int v) {
  access const a = locate_access(i, t, v);
  dtype const type = a.local ? k_.locals[i.slot].type : k_.buffers[i.slot].type;
  llvm::Align const align(m_.getDataLayout().getTypeStoreSize(a.type));
  bool const one_place = lanes_ == 1 || (!a.where.spread && a.where.stride == 0);
  bool const uniform = !is_vector(i.a) && (i.guard == jit::no_value || !is_vector(i.guard));
  if (lanes_ == 1 || (one_place && uniform)) {
    Value* to = a.first;
    if (i.guard != jit::no_value) to = b_.CreateSelect(get(i.guard, t, v), to, dummy_);
    b_.CreateAlignedStore(ops_.to_memory(type, get(i.a, t, v)), to, align);
    return;
  }
  Value* value = ops_.to_memory(type, vector(i.a, t, v));
  Value* mask = mask_of(i, t, v);
  if (!a.where.spread && a.where.stride == 1) {
    if (mask) {
      b_.CreateMaskedStore(value, a.first, align, mask);
    } else if (streams_ && !a.local && alignment(i.index) % lanes_ == 0) {
      // The buffer starts a line of the cache, and lane 0 is a whole number of vectors behind.
      auto const bytes = static_cast<std::uint64_t>(lanes_) * static_cast<std::uint64_t>(size_of(type));
      auto* const past =
          b_.CreateAlignedStore(value, a.first, llvm::Align(std::min<std::uint64_t>(bytes, 64)));
      auto* const one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
      past->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b_.getContext(), {one}));
    } else {
      b_.CreateAlignedStore(value, a.first, align);
    }
    return;
  }
  if (!a.where.spread && a.where.stride == -1) {
    auto const order = reversed(lanes_);
    Value* const first = b_.CreateConstInBoundsGEP1_64(
        a.type, a.first, static_cast<std::uint64_t>(static_cast<std::int64_t>(1 - lanes_)));
    value = b_.CreateShuffleVector(value, order);
    if (mask) b_.CreateMaskedStore(value, first, align, b_.CreateShuffleVector(mask, order));
    else b_.CreateAlignedStore(value, first, align);
    return;
  }
  // Of lanes with one place the last one stays, as in the loop.
  b_.CreateMaskedScatter(value, b_.CreateGEP(a.type, a.first, lane_offsets(a.where)), align, mask);
}

}  // namespace reprise::cpu
