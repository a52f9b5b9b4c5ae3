// The orders of docs/numbers.md over the loops.
//
// Along the inner loop, `lanes` is 128 accumulators in vectors, and every reduction whose order does not
// matter goes the same way; few instructions keep them in registers, many keep them in memory and are written
// once. Along the grid, each lane is a row of its own. Where partial results outnumber registers they lie in
// scratch memory, [partial][tile][vectors][lanes], and the tree over them is one loop over contiguous memory.
#include <algorithm>
#include <bit>

#include "jit/cpu/emit_state.h"
#include "reprise/error.h"

namespace reprise::cpu {

using jit::order;
using jit::reduction;
using jit::reduction_kind;

namespace {

constexpr std::int64_t lane_count = 128, block_size = 4096, run_length = 128;

bool ordered(reduction const& r) {
  return is_floating(r.type) && (r.kind == reduction_kind::sum || r.kind == reduction_kind::prod);
}
bool has_index(reduction const& r) {
  return r.kind == reduction_kind::argmax || r.kind == reduction_kind::argmin;
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A flat list of the values of accumulators, for the phis of a loop, and back.
std::vector<Value*> flat(std::vector<accumulator> const& a) {
  std::vector<Value*> f;
  for (auto const& x : a) {
    f.push_back(x.value);
    if (x.index) f.push_back(x.index);
  }
  return f;
}
std::vector<accumulator> unflat(std::vector<Value*> const& f, std::vector<accumulator> const& like) {
  std::vector<accumulator> a;
  std::size_t n = 0;
  for (auto const& x : like) {
    accumulator y;
    y.value = f[n++];
    if (x.index) y.index = f[n++];
    a.push_back(y);
  }
  return a;
}

}  // namespace

std::pair<Value*, Value*> emitter::accumulator_memory(reduction const& r, std::int64_t elements) {
  Value* const values = scratch(elements * size_of(operand_type(r)));
  return {values, has_index(r) ? scratch(elements * index_type()->getBitWidth() / 8) : nullptr};
}

accumulator emitter::load_accumulator(reduction const& r, std::pair<Value*, Value*> memory, Value* element) {
  dtype const t = operand_type(r);
  llvm::Type* const type = ops_.memory_type(t);
  llvm::Align const align(static_cast<std::uint64_t>(size_of(t)));
  accumulator a;
  a.value =
      ops_.from_memory(t, b_.CreateAlignedLoad(vector_type(type), at(memory.first, element, type), align));
  if (memory.second)
    a.index = b_.CreateAlignedLoad(vector_type(index_type()), at(memory.second, element, index_type()),
                                   llvm::Align(4));
  return a;
}

void emitter::store_accumulator(reduction const& r, accumulator a, std::pair<Value*, Value*> memory,
                                Value* element) {
  dtype const t = operand_type(r);
  llvm::Type* const type = ops_.memory_type(t);
  llvm::Align const align(static_cast<std::uint64_t>(size_of(t)));
  b_.CreateAlignedStore(ops_.to_memory(t, a.value), at(memory.first, element, type), align);
  if (memory.second) b_.CreateAlignedStore(a.index, at(memory.second, element, index_type()), llvm::Align(4));
}

// tree(p, m), p an array of `width` values each, in place.
void emitter::tree(reduction const& r, Value* p, Value* m, std::int64_t width) {
  dtype const t = operand_type(r);
  llvm::Type* const type = ops_.type(t);
  llvm::Align const align(static_cast<std::uint64_t>(size_of(t)));
  int const lanes_before = lanes_;
  auto combine_at = [&](Value* i, Value* offset, int lanes) {
    lanes_ = lanes;
    Value* const to = at(p, i, type);
    accumulator a, b;
    a.value = b_.CreateAlignedLoad(vector_type(type), to, align);
    b.value = b_.CreateAlignedLoad(vector_type(type), at(p, b_.CreateAdd(i, offset), type), align);
    b_.CreateAlignedStore(combine(r, a, b).value, to, align);
  };
  int const lanes = width % host_.lanes == 0 || width == 1 ? host_.lanes : lanes_before;
  auto& c = b_.getContext();
  auto* const before = b_.GetInsertBlock();
  auto* const head = llvm::BasicBlock::Create(c, "tree", f_);
  auto* const body = llvm::BasicBlock::Create(c, "level", f_);
  auto* const after = llvm::BasicBlock::Create(c, "after", f_);
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  auto* const left = b_.CreatePHI(b_.getInt64Ty(), 2);
  left->addIncoming(m, before);
  b_.CreateCondBr(b_.CreateICmpSGT(left, b_.getInt64(1)), body, after);
  b_.SetInsertPoint(body);
  Value* const half = b_.CreateLShr(b_.CreateAdd(left, b_.getInt64(1)), b_.getInt64(1));
  Value* const count = scaled(b_.CreateSub(left, half), width);
  Value* const offset = scaled(half, width);
  Value* const whole =
      b_.CreateAnd(count, b_.getInt64(static_cast<std::uint64_t>(-static_cast<std::int64_t>(lanes))));
  loop(b_.getInt64(0), whole, lanes, {},
       [&](Value* i, carried const&) { return combine_at(i, offset, lanes), carried{}; });
  if (width % lanes != 0)
    loop(whole, count, 1, {}, [&](Value* i, carried const&) { return combine_at(i, offset, 1), carried{}; });
  lanes_ = lanes_before;
  left->addIncoming(half, b_.GetInsertBlock());
  b_.CreateBr(head);
  b_.SetInsertPoint(after);
}

// Elements base + l of the reductions whose order wants all of them in memory first (null: not so).
void emitter::store_elements(std::vector<Value*> const& elements, Value* base) {
  for (std::size_t n = 0; n < elements.size(); ++n) {
    if (!elements[n]) continue;
    reduction const& r = phase_->reductions[n];
    dtype const t = operand_type(r);
    llvm::Align const align(static_cast<std::uint64_t>(size_of(t)));
    for (int v = 0; v < vectors_; ++v) {
      Value* const x = ops_.convert(phase_->body[r.value].type, t, vector(r.value, 0, v));
      Value* const to = at(
          elements[n], b_.CreateAdd(base, b_.getInt64(static_cast<std::uint64_t>(v * lanes_))), ops_.type(t));
      if (Value* const mask = lane_mask(v)) b_.CreateMaskedStore(x, to, align, mask);
      else b_.CreateAlignedStore(x, to, align);
    }
  }
}

// Elements [start, start + size) of every reduction that is not given a place for its elements, each to one
// scalar.
std::vector<accumulator> emitter::block_along_inner(Value* start, std::int64_t size,
                                                    std::vector<Value*> const& elements) {
  auto const& reductions = phase_->reductions;
  std::int64_t const used =
      std::min(lane_count, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size))));
  int const vectors = static_cast<int>(std::max<std::int64_t>(1, used / lanes_));
  auto offset = [&](std::int64_t n) {
    return b_.CreateAdd(start, b_.getInt64(static_cast<std::uint64_t>(n)));
  };
  auto body = [&](Value* i) {
    variables_[inner_] = i;
    loop_level();
    store_elements(elements, i);
  };
  auto index = [&](std::size_t r, int v) {
    return r * static_cast<std::size_t>(vectors) + static_cast<std::size_t>(v);
  };
  // The index of the first element of each lane, for what equals the identity; behind all where a lane has
  // none.
  auto first_index = [&](int v) -> Value* {
    Value* const first = splat(b_.CreateAdd(b_.CreateIntCast(start, index_type(), true),
                                            llvm::ConstantInt::getSigned(index_type(), v * lanes_)));
    Value* const ascending = lanes_ == 1 ? first : b_.CreateAdd(first, iota(index_type(), 1));
    std::int64_t const there = std::clamp<std::int64_t>(size - v * lanes_, 0, lanes_);
    if (there == lanes_) return ascending;
    return b_.CreateSelect(first_lanes(static_cast<int>(there)), ascending, splat(behind_all()));
  };
  std::vector<accumulator> acc(reductions.size() * static_cast<std::size_t>(vectors));
  for (std::size_t r = 0; r < reductions.size(); ++r)
    for (int v = 0; v < vectors; ++v)
      acc[index(r, v)] = identity(reductions[r], has_index(reductions[r]) ? first_index(v) : nullptr);
  std::int64_t const tail = size % lanes_;
  bool const light = vectors == 1 || heaviness() + 2 * static_cast<int>(reductions.size()) <= 10;
  if (light) {
    auto steps = [&](std::vector<accumulator> a, Value* i) {
      body(i);
      for (std::size_t r = 0; r < reductions.size(); ++r)
        for (int v = 0; v < vectors_ && !elements[r]; ++v) {
          auto& x = a[index(r, v)];
          accumulator const next = step(reductions[r], x, 0, v, i);
          x = lane_mask(v) ? choose(lane_mask(v), next, x) : next;
        }
      return a;
    };
    std::int64_t const wide = static_cast<std::int64_t>(vectors) * lanes_;
    std::int64_t const main = size / wide * wide;
    vectors_ = vectors;
    acc = unflat(loop(
                     start, offset(main), wide, flat(acc),
                     [&](Value* i, carried const& c) { return flat(steps(unflat(c, acc), i)); }, main > 0),
                 acc);
    vectors_ = static_cast<int>((size - main) / lanes_);
    if (vectors_ > 0) acc = steps(acc, offset(main));
    if (tail != 0) {
      // The tail belongs to the vector behind those: move it to the front for a step of one vector.
      int const behind = vectors_;
      vectors_ = 1;
      tail_mask_ = first_lanes(static_cast<int>(tail));
      auto shifted = acc;
      for (std::size_t r = 0; r < reductions.size(); ++r) shifted[index(r, 0)] = acc[index(r, behind)];
      shifted = steps(shifted, offset(size - tail));
      for (std::size_t r = 0; r < reductions.size(); ++r) acc[index(r, behind)] = shifted[index(r, 0)];
      tail_mask_ = nullptr;
    }
    vectors_ = 1;
  } else {
    std::vector<std::pair<Value*, Value*>> memory;
    auto const scratch_before = scratch_at_;
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      memory.push_back(accumulator_memory(reductions[r], static_cast<std::int64_t>(vectors) * lanes_));
      for (int v = 0; v < vectors; ++v)
        store_accumulator(reductions[r], acc[index(r, v)], memory[r],
                          b_.getInt64(static_cast<std::uint64_t>(v * lanes_)));
    }
    vectors_ = 1;
    auto one = [&](Value* i) {
      body(i);
      Value* const lane =
          b_.CreateAnd(b_.CreateSub(i, start), b_.getInt64(static_cast<std::uint64_t>(vectors * lanes_ - 1)));
      for (std::size_t r = 0; r < reductions.size(); ++r) {
        if (elements[r]) continue;
        accumulator const x = load_accumulator(reductions[r], memory[r], lane);
        accumulator const next = step(reductions[r], x, 0, 0, i);
        store_accumulator(reductions[r], lane_mask(0) ? choose(lane_mask(0), next, x) : next, memory[r],
                          lane);
      }
      return carried{};
    };
    loop(
        start, offset(size - tail), lanes_, {}, [&](Value* i, carried const&) { return one(i); },
        size >= lanes_);
    if (tail != 0) {
      tail_mask_ = first_lanes(static_cast<int>(tail));
      one(offset(size - tail));
      tail_mask_ = nullptr;
    }
    for (std::size_t r = 0; r < reductions.size(); ++r)
      for (int v = 0; v < vectors; ++v)
        acc[index(r, v)] =
            load_accumulator(reductions[r], memory[r], b_.getInt64(static_cast<std::uint64_t>(v * lanes_)));
    scratch_at_ = scratch_before;
  }
  std::vector<accumulator> results;
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    for (int m = vectors / 2; m > 0; m /= 2)
      for (int v = 0; v < m; ++v)
        acc[index(r, v)] = combine(reductions[r], acc[index(r, v)], acc[index(r, v + m)]);
    results.push_back(fold_lanes(reductions[r], acc[index(r, 0)]));
  }
  return results;
}

void emitter::reductions_along_inner() {
  auto const& reductions = phase_->reductions;
  std::int64_t const n = phase_->extent;
  auto constant = [&](std::int64_t c) { return b_.getInt64(static_cast<std::uint64_t>(c)); };
  // Elements first, then sequential runs and a tree over them.
  std::vector<Value*> elements(reductions.size(), nullptr);
  bool blocks = false;
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    if (!ordered(reductions[r]) || n == 1) continue;
    if (reductions[r].order == order::tree || reductions[r].order == order::runs)
      elements[r] = scratch(n * size_of(operand_type(reductions[r])));
    blocks |= reductions[r].order == order::lanes && n > block_size;
  }
  std::vector<accumulator> results;
  if (n == 1) {
    variables_[inner_] = constant(0);
    loop_level();
    for (auto const& r : reductions)
      results.push_back(step(r, identity(r, llvm::ConstantInt::get(index_type(), 0)), 0, 0, constant(0)));
  } else if (!blocks) {
    results = block_along_inner(constant(0), n, elements);
  } else {
    std::int64_t const count = ceil_div(n, block_size), whole = n / block_size;
    std::vector<std::pair<Value*, Value*>> partial;
    for (auto const& r : reductions)
      partial.push_back(ordered(r) && r.order == order::lanes ? accumulator_memory(r, count)
                                                              : std::pair<Value*, Value*>{});
    int const lanes = lanes_;
    std::vector<accumulator> sofar;
    lanes_ = 1;
    for (auto const& r : reductions) sofar.push_back(identity(r));
    lanes_ = lanes;
    auto block = [&](Value* number, std::int64_t size, std::vector<accumulator> a) {
      auto const found = block_along_inner(scaled(number, block_size), size, elements);
      lanes_ = 1;
      for (std::size_t r = 0; r < reductions.size(); ++r) {
        if (partial[r].first) store_accumulator(reductions[r], found[r], partial[r], number);
        else if (!elements[r]) a[r] = combine(reductions[r], a[r], found[r]);
      }
      lanes_ = lanes;
      return a;
    };
    results =
        unflat(loop(constant(0), constant(whole), 1, flat(sofar),
                    [&](Value* i, carried const& c) { return flat(block(i, block_size, unflat(c, sofar))); }),
               sofar);
    if (n % block_size != 0) results = block(constant(whole), n % block_size, results);
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      if (!partial[r].first) continue;
      tree(reductions[r], partial[r].first, constant(count), 1);
      lanes_ = 1;
      results[r] = load_accumulator(reductions[r], partial[r], constant(0));
      lanes_ = lanes;
    }
  }
  for (std::size_t n_reduction = 0; n_reduction < reductions.size(); ++n_reduction) {
    reduction const& r = reductions[n_reduction];
    Value* result = has_index(r) ? results[n_reduction].index : results[n_reduction].value;
    if (Value* const p = elements[n_reduction]) {
      int const lanes = lanes_;
      lanes_ = 1;
      std::pair<Value*, Value*> const memory{p, nullptr};
      Value* left = constant(n);
      if (r.order == order::runs) {
        // The sum of a run takes the place of an element that was read before.
        std::int64_t const runs = ceil_div(n, run_length);
        loop(constant(0), constant(runs), 1, {}, [&](Value* run, carried const&) {
          Value* const first = scaled(run, run_length);
          Value* const end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                      b_.CreateAdd(first, constant(run_length)), constant(n));
          carried const total =
              loop(b_.CreateAdd(first, constant(1)), end, 1, {load_accumulator(r, memory, first).value},
                   [&](Value* i, carried const& c) {
                     accumulator a;
                     a.value = c[0];
                     return carried{combine(r, a, load_accumulator(r, memory, i)).value};
                   });
          accumulator a;
          a.value = total[0];
          store_accumulator(r, a, memory, run);
          return carried{};
        });
        left = constant(runs);
      }
      tree(r, p, left, 1);
      result = load_accumulator(r, memory, constant(0)).value;
      lanes_ = lanes;
    }
    leave(r, 0, 0, result);
  }
}

void emitter::reductions_along_grid() {
  auto const& reductions = phase_->reductions;
  std::int64_t const n = phase_->extent;
  auto constant = [&](std::int64_t c) { return b_.getInt64(static_cast<std::uint64_t>(c)); };
  std::int64_t const points = static_cast<std::int64_t>(tile_) * vectors_ * lanes_;
  auto const replica = [&](int t, int v) { return (static_cast<std::int64_t>(t) * vectors_ + v) * lanes_; };
  auto const each = [&](auto const& f) {
    for (int t = 0; t < tile_; ++t)
      for (int v = 0; v < vectors_; ++v) f(t, v);
  };
  enum class way { sequence, runs, lanes, elements };
  std::vector<way> ways;
  bool any_runs = false, any_blocks = false;
  for (auto const& r : reductions) {
    way w = way::sequence;
    if (ordered(r) && n > 1) {
      switch (r.order) {
        case order::lanes: w = way::lanes; break;
        case order::runs: w = n > run_length ? way::runs : way::sequence; break;
        case order::tree: w = way::elements; break;
        case order::contract: break;
      }
    }
    any_runs |= w == way::runs;
    any_blocks |= w == way::lanes && n > block_size;
    ways.push_back(w);
  }
  if (any_runs && any_blocks)
    throw compile_error("kernel " + k_.name + ": one loop cannot reduce both in runs and in blocks of lanes");
  std::int64_t const piece = any_runs ? run_length : any_blocks ? block_size : std::max<std::int64_t>(n, 1);
  std::int64_t const pieces = ceil_div(n, piece);
  std::int64_t const used =
      std::min(lane_count, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n))));
  std::vector<std::pair<Value*, Value*>> partial(reductions.size()), lane_memory(reductions.size());
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    if (ways[r] == way::elements) partial[r] = accumulator_memory(reductions[r], n * points);
    if (ways[r] == way::runs || (ways[r] == way::lanes && any_blocks))
      partial[r] = accumulator_memory(reductions[r], pieces * points);
    if (ways[r] == way::lanes) lane_memory[r] = accumulator_memory(reductions[r], used * points);
  }
  // The taps of a convolution are so few that the places of all of them can be constants.
  bool unrolled = pieces == 1 && n * points / lanes_ <= most_unrolled && divides_inner();
  for (auto const& r : reductions) unrolled = unrolled && r.order == order::contract;
  // Accumulators in registers: [reduction][tile][vectors] of those that add in sequence.
  auto const fresh = [&](bool runs_only, std::vector<accumulator> a) {
    std::size_t k = 0;
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      if (ways[r] != way::sequence && ways[r] != way::runs) continue;
      each([&](int, int) {
        if (k == a.size()) a.push_back(identity(reductions[r], llvm::ConstantInt::get(index_type(), 0)));
        else if (runs_only && ways[r] == way::runs) a[k] = identity(reductions[r]);
        ++k;
      });
    }
    return a;
  };
  std::vector<accumulator> const start = fresh(false, {});
  auto one_piece = [&](Value* number, std::vector<accumulator> a) {
    Value* const first = scaled(number, piece);
    Value* end = constant(n);
    if (pieces > 1) {
      end = b_.CreateAdd(first, constant(piece));
      if (n % piece != 0) end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, constant(n));
      a = fresh(true, a);
    }
    for (std::size_t r = 0; r < reductions.size(); ++r)
      if (ways[r] == way::lanes)
        loop(constant(0), constant(used * points), lanes_, {}, [&](Value* i, carried const&) {
          return store_accumulator(reductions[r], identity(reductions[r]), lane_memory[r], i), carried{};
        });
    auto body = [&](Value* i, carried const& c) {
      auto now = unflat(c, a);
      variables_[inner_] = i;
      loop_level();
      std::size_t k = 0;
      for (std::size_t r = 0; r < reductions.size(); ++r) {
        reduction const& red = reductions[r];
        switch (ways[r]) {
          case way::sequence:
          case way::runs:
            each([&](int t, int v) {
              now[k] = step(red, now[k], t, v, i);
              ++k;
            });
            break;
          case way::lanes: {
            Value* lane = b_.CreateSub(i, first);
            if (used == lane_count) lane = b_.CreateAnd(lane, constant(lane_count - 1));
            lane = scaled(lane, points);
            each([&](int t, int v) {
              Value* const element = b_.CreateAdd(lane, constant(replica(t, v)));
              store_accumulator(red, step(red, load_accumulator(red, lane_memory[r], element), t, v, i),
                                lane_memory[r], element);
            });
            break;
          }
          case way::elements:
            each([&](int t, int v) {
              Value* const element = b_.CreateAdd(scaled(i, points), constant(replica(t, v)));
              store_accumulator(red, step(red, identity(red), t, v, i), partial[r], element);
            });
            break;
        }
      }
      return flat(now);
    };
    if (unrolled) {
      auto values = flat(a);
      for (std::int64_t i = 0; i < n; ++i) values = body(constant(i), values);
      a = unflat(values, a);
    } else {
      a = unflat(loop(first, end, 1, flat(a), body, true), a);
    }

    std::size_t k = 0;
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      if (ways[r] == way::sequence || ways[r] == way::runs) {
        each([&](int t, int v) {
          if (ways[r] == way::runs)
            store_accumulator(reductions[r], a[k], partial[r],
                              b_.CreateAdd(scaled(number, points), constant(replica(t, v))));
          ++k;
        });
      }
      if (ways[r] == way::lanes) {
        tree(reductions[r], lane_memory[r].first, constant(used), points);
        if (any_blocks)
          each([&](int t, int v) {
            store_accumulator(reductions[r],
                              load_accumulator(reductions[r], lane_memory[r], constant(replica(t, v))),
                              partial[r], b_.CreateAdd(scaled(number, points), constant(replica(t, v))));
          });
      }
    }
    return a;
  };
  auto const results =
      unflat(loop(constant(0), constant(pieces), 1, flat(start),
                  [&](Value* i, carried const& c) { return flat(one_piece(i, unflat(c, start))); }),
             start);
  std::size_t k = 0;
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    reduction const& red = reductions[r];
    if (ways[r] == way::sequence) {
      each([&](int t, int v) {
        leave(red, t, v, has_index(red) ? results[k].index : results[k].value);
        ++k;
      });
      continue;
    }
    if (ways[r] == way::runs) k += static_cast<std::size_t>(tile_ * vectors_);
    auto const where = partial[r].first ? partial[r] : lane_memory[r];
    if (partial[r].first)
      tree(red, partial[r].first, constant(ways[r] == way::elements ? n : pieces), points);
    each(
        [&](int t, int v) { leave(red, t, v, load_accumulator(red, where, constant(replica(t, v))).value); });
  }
}

}  // namespace reprise::cpu
