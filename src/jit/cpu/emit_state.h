// What the parts of the emitter share: the kernel's shape on this processor, the loop variables where code is
// being written, and the values that exist already. Only emit*.cpp include this.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "jit/cpu/emit_values.h"
#include "jit/cpu/target.h"
#include "jit/kernel.h"

namespace reprise::cpu {

using llvm::Value;

// What a value changes with. In a kernel along the inner loop, lane and inner come together.
namespace dependence {
inline constexpr unsigned none = 0, inner = 1, lane = 2, tile = 4;
}

// An index expression at one replica: row + loop + constant + stride * l for lane l, and `spread` where the
// lanes do not follow a stride. `row` is known before the inner loop, `loop` is not. A null value is 0.
struct place {
  Value* row = nullptr;
  Value* loop = nullptr;
  std::int64_t constant = 0;
  std::int64_t stride = 0;
  Value* spread = nullptr;  // a vector of i32 or i64
};

// The accumulator of a reduction: one value, or the best value and its index.
struct accumulator {
  Value* value = nullptr;
  Value* index = nullptr;
};

// Steps of all replicas of a contraction that are written out.
inline constexpr std::int64_t most_unrolled = 256;

class emitter {
 public:
  emitter(jit::kernel const& k, target const& host, llvm::Module& m, llvm::Function* f);

  struct work {
    std::int64_t units = 0, scratch_bytes = 0;
  };
  work emit();

 private:
  static constexpr std::uint32_t no_variable = 0xffffffffu;

  // emit.cpp: phases
  void begin_phase(jit::phase const& p);
  void row_level();
  void loop_level();
  void decode(Value* unit, std::span<std::uint32_t const> loops, std::span<std::int64_t const> counts);
  void for_replicas(unsigned deps, std::function<void(int, int)> const& each);
  int heaviness() const;

  // emit_inner.cpp
  void emit_along_inner();
  void unit_along_inner(Value* chunk);
  void block_along_rows(Value* chunk);
  void elementwise_loop(Value* start, Value* stop, bool whole);
  void load_square(jit::instruction const& i);
  bool crosses_rows(jit::instruction const& i) const;
  std::vector<std::uint32_t> streamed_buffers();
  std::pair<Value*, Value*> chunk_bounds(Value* chunk, std::int64_t extent);

  // emit_grid.cpp
  void emit_along_grid();
  void grid_block(int tile, int vectors, int used);

  // emit_loop.cpp
  using carried = std::vector<Value*>;
  carried loop(Value* from, Value* to, std::int64_t step, carried init,
               std::function<carried(Value*, carried const&)> const& body, bool at_least_once = false);
  void when(Value* condition, std::function<void()> const& then) {
    when_else(condition, then, [] {});
  }
  void when_else(Value* condition, std::function<void()> const& then, std::function<void()> const& otherwise);

  // emit_index.cpp
  unsigned dependences(jit::index_id e);
  unsigned dependences_of_atom(std::uint32_t atom);
  bool divides_inner();                     // a place has a quotient or remainder of the inner loop
  std::int64_t alignment(jit::index_id e);  // a divisor of the expression wherever lane 0 of a vector is
  std::optional<std::int64_t> lane_stride(jit::index_id e);
  std::optional<std::int64_t> lane_stride_of_atom(std::uint32_t atom);
  place locate(jit::index_id e, int t, int v);
  Value* scalar_index(jit::index_id e, int t, int v);
  Value* scalar_atom(std::uint32_t atom, int t, int v);
  Value* variable_at(std::uint32_t variable, int t, int v);
  Value* vector_index(jit::index_id e, int t, int v, llvm::IntegerType* as);
  Value* vector_atom(std::uint32_t atom, int t, int v, llvm::IntegerType* as);
  bool fits_32(jit::index_id e);
  Value* sum(Value* a, Value* b) { return !a ? b : !b ? a : b_.CreateAdd(a, b); }
  Value* scaled(Value* a, std::int64_t c) {
    return c == 1 ? a : b_.CreateMul(a, b_.getInt64(static_cast<std::uint64_t>(c)));
  }
  Value* iota(llvm::IntegerType* as, std::int64_t stride);
  Value* lane_offsets(place const& p);  // spread + stride * l, as a vector of i64 or i32

  // emit_memory.cpp
  Value* load(jit::instruction const& i, int t, int v);
  void store(jit::instruction const& i, int t, int v);
  struct access {
    llvm::Type* type;  // in memory
    Value* first;      // the address of lane 0, without the lane's part
    place where;       // scaled to the memory's own elements
    bool local;
  };
  access locate_access(jit::instruction const& i, int t, int v);
  Value* mask_of(jit::instruction const& i, int t, int v);  // a vector's lanes that may be touched; null: all
  Value* strided_load(access const& a, Value* mask);
  Value* scratch(std::int64_t bytes);  // a piece of the thread's memory, for the kernel's whole run
  Value* at(Value* base, Value* element, llvm::Type* type) {
    return b_.CreateInBoundsGEP(type, base, element);
  }

  // emit.cpp: values
  bool is_vector(jit::value_id id) const;
  Value*& known(jit::value_id id, int t, int v);
  Value* get(jit::value_id id, int t, int v);     // as it is
  Value* vector(jit::value_id id, int t, int v);  // a vector when lanes_ > 1
  Value* splat(Value* x) {
    if (lanes_ == 1 || x->getType()->isVectorTy()) return x;
    return b_.CreateVectorSplat(static_cast<unsigned>(lanes_), x);
  }
  void define(jit::value_id id, int t, int v);
  llvm::Type* vector_type(llvm::Type* t) const {
    return lanes_ > 1 ? llvm::FixedVectorType::get(t, static_cast<unsigned>(lanes_)) : t;
  }
  Value* lane_mask(int v) const { return v == vectors_ - 1 ? tail_mask_ : nullptr; }
  llvm::Constant* first_lanes(int n);

  // emit_reduce.cpp: one combination
  dtype operand_type(jit::reduction const& r) const;  // what is accumulated or compared
  // In the shape of the lanes; `first`: the index that it has, null: one behind all.
  accumulator identity(jit::reduction const& r, Value* first = nullptr);
  llvm::IntegerType* index_type();
  llvm::Constant* behind_all();
  Value* empty(jit::reduction const& r);  // the result over no elements
  accumulator step(jit::reduction const& r, accumulator a, int t, int v, Value* base);
  accumulator combine(jit::reduction const& r, accumulator a, accumulator b);
  accumulator choose(Value* mask, accumulator yes, accumulator no);
  accumulator fold_lanes(jit::reduction const& r, accumulator a);
  void leave(jit::reduction const& r, int t, int v, Value* result);

  // emit_reduce_loops.cpp: the orders
  void reductions_along_inner();
  void reductions_along_grid();
  std::vector<accumulator> block_along_inner(Value* start, std::int64_t size,
                                             std::vector<Value*> const& elements);
  void store_elements(std::vector<Value*> const& elements, Value* base);
  accumulator load_accumulator(jit::reduction const& r, std::pair<Value*, Value*> memory, Value* element);
  void store_accumulator(jit::reduction const& r, accumulator a, std::pair<Value*, Value*> memory,
                         Value* element);
  std::pair<Value*, Value*> accumulator_memory(jit::reduction const& r, std::int64_t elements);
  void tree(jit::reduction const& r, Value* p, Value* m, std::int64_t width);

  jit::kernel const& k_;
  target const& host_;
  llvm::Module& m_;
  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  values ops_;

  bool along_grid_ = false;
  std::uint32_t inner_ = 0;  // the inner loop's variable
  std::uint32_t lane_variable_ = no_variable, tile_variable_ = no_variable;
  int lanes_ = 1;                  // of the code being written
  int vectors_ = 1, tile_ = 1;     // replicas of the code being written
  Value* tail_mask_ = nullptr;     // lanes of the last replica that exist; null: all
  std::vector<Value*> variables_;  // loop variables, of lane 0 of the first replica

  std::vector<Value*> buffers_, scalars_, locals_;
  Value* scratch_argument_ = nullptr;
  Value* dummy_ = nullptr;  // memory that may be read and written when a guard is false
  std::int64_t scratch_at_ = 0, scratch_bytes_ = 0;

  jit::phase const* phase_ = nullptr;
  std::vector<unsigned> deps_;                    // of the phase's values
  std::vector<Value*> row_values_, loop_values_;  // [id][tile][vectors]
  bool in_loop_ = false;
  std::map<std::pair<Value*, Value*>, Value*> row_pointers_;  // (base, row part)
  std::map<std::tuple<jit::index_id, int, int>, Value*> row_parts_, row_spreads_;
  std::map<std::tuple<std::uint32_t, int, int>, Value*> row_atoms_, loop_atoms_;
  std::map<std::uint32_t, unsigned> atom_deps_;
  std::vector<std::vector<Value*>> rows_;  // row registers [slot][tile * vectors]
  std::int64_t units_ = 0;
  // Along the inner loop: rows and inner indices of a unit (0: all of a row), whether a block of rows goes by
  // squares, and whether stores go past the caches.
  std::int64_t block_rows_ = 1, chunk_ = 0;
  int most_lanes_ = 1;
  bool squares_ = false, streams_ = false;
};

}  // namespace reprise::cpu
