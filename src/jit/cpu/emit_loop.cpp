// Loops and branches. Everything that is known to run once, or never, is no loop.
#include "jit/cpu/emit_state.h"

namespace reprise::cpu {

emitter::carried emitter::loop(Value* from, Value* to, std::int64_t step, carried init,
                               std::function<carried(Value*, carried const&)> const& body,
                               bool at_least_once) {
  auto const* low = llvm::dyn_cast<llvm::ConstantInt>(from);
  auto const* high = llvm::dyn_cast<llvm::ConstantInt>(to);
  if (low && high) {
    std::int64_t const count = high->getSExtValue() - low->getSExtValue();
    if (count <= 0) return init;
    if (count <= step) return body(from, init);
    at_least_once = true;
  }
  auto& c = b_.getContext();
  auto* const before = b_.GetInsertBlock();
  auto* const head = llvm::BasicBlock::Create(c, "loop", f_);
  auto* const after = llvm::BasicBlock::Create(c, "after", f_);
  if (at_least_once) b_.CreateBr(head);
  else b_.CreateCondBr(b_.CreateICmpSLT(from, to), head, after);
  b_.SetInsertPoint(head);
  auto* const i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(from, before);
  std::vector<llvm::PHINode*> phis;
  carried now;
  for (Value* v : init) {
    phis.push_back(b_.CreatePHI(v->getType(), 2));
    phis.back()->addIncoming(v, before);
    now.push_back(phis.back());
  }
  carried const next = body(i, now);
  auto* const end = b_.GetInsertBlock();
  Value* const following = b_.CreateNSWAdd(i, b_.getInt64(static_cast<std::uint64_t>(step)));
  i->addIncoming(following, end);
  for (std::size_t n = 0; n < phis.size(); ++n) phis[n]->addIncoming(next[n], end);
  b_.CreateCondBr(b_.CreateICmpSLT(following, to), head, after);
  b_.SetInsertPoint(after);
  if (at_least_once) return next;
  carried result;
  for (std::size_t n = 0; n < init.size(); ++n) {
    auto* const phi = b_.CreatePHI(init[n]->getType(), 2);
    phi->addIncoming(init[n], before);
    phi->addIncoming(next[n], end);
    result.push_back(phi);
  }
  return result;
}

void emitter::when_else(Value* condition, std::function<void()> const& then,
                        std::function<void()> const& otherwise) {
  if (auto const* known = llvm::dyn_cast<llvm::ConstantInt>(condition))
    return known->isOne() ? then() : otherwise();
  auto* const yes = llvm::BasicBlock::Create(b_.getContext(), "then", f_);
  auto* const no = llvm::BasicBlock::Create(b_.getContext(), "else", f_);
  auto* const after = llvm::BasicBlock::Create(b_.getContext(), "after", f_);
  b_.CreateCondBr(condition, yes, no);
  b_.SetInsertPoint(yes);
  then();
  b_.CreateBr(after);
  b_.SetInsertPoint(no);
  otherwise();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

}  // namespace reprise::cpu
