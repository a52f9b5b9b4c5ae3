#include "jit/lower_writer.h"

#include <algorithm>
#include <utility>

#include <reprise/error.h>

#include "jit/code_ops.h"
#include "jit/lower_philox.h"

namespace reprise::jit {

using code::val;
using ir::node_id;
using ir::op;

namespace {

reduction_kind kind_of(op code) {
  switch (code) {
    case op::sum: return reduction_kind::sum;
    case op::prod: return reduction_kind::prod;
    case op::max: return reduction_kind::max;
    case op::min: return reduction_kind::min;
    case op::any: return reduction_kind::any;
    case op::all: return reduction_kind::all;
    case op::argmax: return reduction_kind::argmax;
    case op::argmin: return reduction_kind::argmin;
    case op::matmul:
    case op::conv2d: return reduction_kind::sum;
    default: throw compile_error(std::string("lowering: ") + ir::info(code).name + " is not a reduction");
  }
}

// What changes nothing: -0 for a floating sum.
val identity(code::body& b, reduction_kind kind, dtype t) {
  switch (kind) {
    case reduction_kind::sum: return is_floating(t) ? b.number(t, -0.0) : b.constant(t, 0);
    case reduction_kind::prod: return b.number(t, 1);
    case reduction_kind::any: return b.constant(t, 0);
    case reduction_kind::all: return b.constant(t, 1);
    case reduction_kind::max:
    case reduction_kind::argmax:
      if (is_floating(t)) return b.number(t, -__builtin_inf());
      if (t == dtype::u8 || t == dtype::boolean) return b.constant(t, 0);
      return b.constant(t, std::uint64_t{1} << (8 * size_of(t) - 1));
    case reduction_kind::min:
    case reduction_kind::argmin:
      if (is_floating(t)) return b.number(t, __builtin_inf());
      if (t == dtype::boolean) return b.constant(t, 1);
      if (t == dtype::u8) return b.constant(t, 0xff);
      return b.constant(t, (std::uint64_t{1} << (8 * size_of(t) - 1)) - 1);
  }
  return {};
}

}  // namespace

dtype accumulator(ir::program const& p, node_id reduction) {
  dtype const t = p.nodes[reduction].type;
  return is_half(t) ? dtype::f32 : t;
}

kernel_writer::kernel_writer(kernel_group const& g, buffer_table& buffers, std::string name,
                             std::vector<buffer_id> const& first)
    : group_(g), buffers_(buffers) {
  code_.name = std::move(name);
  for (buffer_id b : first) {
    slots_.try_emplace(b, static_cast<std::uint32_t>(arguments_.size()));
    arguments_.push_back(b);
    code_.buffers.push_back({buffers_.at(b).type, buffers_.at(b).elements, false});
  }
}

void kernel_writer::loops(std::vector<std::int64_t> const& grid, std::int64_t inner) {
  code_.grid = grid;
  for (std::int64_t e : grid) code_.index.add_variable(e);
  code_.index.add_variable(inner);
  by_.assign(group_.space->arena().variables(), code_.index.constant(0));
}

void kernel_writer::place(std::span<axis_loop const> loops, index_id at) {
  for (std::size_t i = loops.size(); i-- > 0;) {
    index_id const own = i == 0 ? at : code_.index.modulo(at, loops[i].extent);
    spread(group_.space->arena(), loops[i], code_.index, own, by_);
    if (i > 0) at = code_.index.divide(at, loops[i].extent);
  }
  map_.reset();
}

index_map& kernel_writer::map() {
  if (!map_) map_.emplace(group_.space->arena(), code_.index, by_);
  return *map_;
}

void kernel_writer::limit(index_id element, std::int64_t last) {
  element_ = element;
  last_ = last;
}

void kernel_writer::begin_phase(int number) {
  phase_ = number;
  body_ = std::make_unique<code::body>();
  done_.clear();
  conditions_.clear();
  reductions_.clear();
}

void kernel_writer::end_phase(std::int64_t extent) {
  code_.phases.push_back({extent, body_->take(), std::move(reductions_)});
  body_.reset();
}

std::uint32_t kernel_writer::slot(buffer_id b, bool written) {
  auto const [at, fresh] = slots_.try_emplace(b, static_cast<std::uint32_t>(arguments_.size()));
  if (fresh) {
    arguments_.push_back(b);
    code_.buffers.push_back({buffers_.at(b).type, buffers_.at(b).elements, false});
  }
  if (written) code_.buffers[at->second].written = true;
  return at->second;
}

std::uint32_t kernel_writer::row_slot(node_id reduction) {
  auto const [at, fresh] = row_slots_.try_emplace(reduction, static_cast<std::uint32_t>(code_.rows.size()));
  if (fresh) code_.rows.push_back(accumulator(program(), reduction));
  return at->second;
}

val kernel_writer::index(index_id e) {
  return body_->append({.code = kop::index, .type = dtype::i64, .index = e});
}

val kernel_writer::constant(node_id n) {
  return body_->constant(program().nodes[n].type, static_cast<std::uint64_t>(program().int_of(n, "value")));
}

// The reduction's value, in the dtype that its node has.
val kernel_writer::row(node_id reduction) {
  val const r = body_->append(
      {.code = kop::row, .type = accumulator(program(), reduction), .slot = row_slot(reduction)});
  return code::convert(r, program().nodes[reduction].type);
}

val kernel_writer::condition(guard_id g) {
  if (auto const known = conditions_.find(g); known != conditions_.end()) return known->second;
  guard_test const& t = group_.space->guards()[g];
  range const r = group_.space->arena().bounds(t.expression);
  val const e = index(map()(t.expression));
  val result;
  if (r.low < t.low) result = code::le(code::integer(e, t.low), e);
  if (r.high > t.high) {
    val const below = code::le(e, code::integer(e, t.high));
    result = result.in ? code::band(result, below) : below;
  }
  if (t.parent != no_guard)
    result = result.in ? code::band(condition(t.parent), result) : condition(t.parent);
  conditions_.emplace(g, result);
  return result;
}

bool kernel_writer::beyond(index_id at) const {
  if (!element_) return false;
  for (std::uint32_t v = 0; v < code_.index.variables(); ++v)
    if (code_.index.depends(*element_, v) && code_.index.depends(at, v)) return true;
  return false;
}

val kernel_writer::inside() {
  val const e = index(*element_);
  return code::le(e, code::integer(e, last_));
}

value_id kernel_writer::guard_of(point const& p, index_id at) {
  val g;
  if (p.guard != no_guard) g = condition(p.guard);
  if (beyond(at)) g = g.in ? code::band(g, inside()) : inside();
  return g.in ? g.id : no_value;
}

val kernel_writer::value(point_id p) {
  if (auto const known = done_.find(p); known != done_.end()) return known->second;
  auto const kept = kept_.find(p);
  val result;
  if (kept != kept_.end() && kept->second.home != phase_) {
    result = body_->append({.code = kop::load_local,
                            .type = code_.locals[kept->second.local].type,
                            .slot = kept->second.local,
                            .index = inner_variable()});
  } else {
    result = made(p);
    if (kept != kept_.end())
      body_->append({.code = kop::store_local,
                     .type = result.type(),
                     .a = result.id,
                     .slot = kept->second.local,
                     .index = inner_variable()});
  }
  done_.emplace(p, result);
  return result;
}

// Depth is bounded by the budget of instructions that fusion gives a kernel.
val kernel_writer::made(point_id id) {
  point const& p = group_.space->points()[id];
  switch (p.kind) {
    case point_kind::load: {
      buffer_id const from = buffers_.read(p.node);
      index_id const at = map()(p.index);
      return body_->append({.code = kop::load,
                            .type = program().nodes[p.node].type,
                            .slot = slot(from, false),
                            .index = at,
                            .guard = guard_of(p, at)});
    }
    case point_kind::scalar: {
      auto const [at, fresh] = scalar_slots_.try_emplace(p.node, static_cast<std::uint32_t>(scalars_.size()));
      dtype const t = program().nodes[p.node].type;
      if (fresh) {
        scalars_.push_back(static_cast<std::uint32_t>(program().int_of(p.node, "index")));
        code_.scalars.push_back(t);
      }
      return body_->append({.code = kop::scalar, .type = t, .slot = at->second});
    }
    case point_kind::constant: return constant(p.node);
    case point_kind::index: return index(map()(p.index));
    case point_kind::row: return row(p.node);
    case point_kind::philox: {
      index_arena& a = code_.index;
      index_id const e = map()(p.index);
      std::int64_t const words = std::int64_t{1} << 32;
      return philox_word(value(p.operand[0]), index(a.modulo(a.divide(e, 4), words)),
                         index(a.divide(e, 4 * words)), index(a.modulo(e, 4)));
    }
    case point_kind::choose: {
      val const yes = value(p.operand[0]), no = value(p.operand[1]);
      return code::select(condition(p.guard), yes, no);
    }
    case point_kind::apply: {
      std::array<val, 3> o{};
      for (std::size_t i = 0; i < 3; ++i)
        if (p.operand[i] != no_point) o[i] = value(p.operand[i]);
      ir::node const& n = program().nodes[p.node];
      if (n.code == op::cast) return code::convert(o[0], n.type);
      return code::expand(n.code, o[0], o[1], o[2]);
    }
  }
  return {};
}

void kernel_writer::store(kernel_output const& o) {
  val const v = value(o.value);
  index_id const at = map()(store_index(group_, o.row));
  value_id const guard = beyond(at) ? inside().id : no_value;
  for (buffer_id b : buffers_.written(o.node))
    body_->append({.code = kop::store,
                   .type = program().nodes[o.node].type,
                   .a = v.id,
                   .slot = slot(b, true),
                   .index = at,
                   .guard = guard});
}

void kernel_writer::store_row(node_id reduction, buffer_id to, index_id at) {
  dtype const t = accumulator(program(), reduction);
  val const r = body_->append({.code = kop::row, .type = t, .slot = row_slot(reduction)});
  body_->append({.code = kop::store, .type = t, .a = r.id, .slot = slot(to, true), .index = at});
}

void kernel_writer::reduce(kernel_reduction const& r, jit::order order, bool of_nothing) {
  ir::node const& n = program().nodes[r.node];
  reduction_kind const kind = kind_of(n.code);
  bool const arg = kind == reduction_kind::argmax || kind == reduction_kind::argmin;
  dtype const total = accumulator(program(), r.node);
  dtype const of = program().nodes[program().operands_of(r.node)[0]].type;
  dtype const taken = arg ? (is_half(of) ? dtype::f32 : of) : total;
  auto const prepared = [&](point_id p) {
    if (of_nothing) return body_->constant(taken, 0);
    val const v = code::convert(value(p), taken);
    return element_ ? code::select(inside(), v, identity(*body_, kind, taken)) : v;
  };
  reduction made{.kind = kind, .order = order, .type = total};
  made.value = prepared(r.value).id;
  if (r.factor != no_point) made.factor = prepared(r.factor).id;
  made.row = row_slot(r.node);
  reductions_.push_back(made);
}

void kernel_writer::reduce_again(node_id reduction_node, buffer_id from, index_id at) {
  dtype const t = accumulator(program(), reduction_node);
  val const v = body_->append({.code = kop::load, .type = t, .slot = slot(from, false), .index = at});
  reductions_.push_back({.kind = kind_of(program().nodes[reduction_node].code),
                         .order = jit::order::tree,
                         .type = t,
                         .value = v.id,
                         .row = row_slot(reduction_node)});
}

lowered_kernel kernel_writer::take() {
  return {std::move(code_), std::move(arguments_), std::move(scalars_)};
}

}  // namespace reprise::jit
