#include "jit/library_rules.h"

#include <algorithm>
#include <numeric>

namespace reprise::jit {
namespace {

using ir::node_id;
using ir::op;

bool is_movement(op code) {
  return code == op::reshape || code == op::transpose || code == op::broadcast_to || code == op::slice;
}

// Walks through views down to one array.
class view_policy : public point_policy {
 public:
  view_policy(ir::program const& p, node_id stop) : p_(p), stop_(stop) {}
  access at(node_id n, coordinates const&) override {
    return n != stop_ && is_movement(p_.nodes[n].code) ? access::through : access::load;
  }
  bool made(node_id, coordinates const&, point_id) override { return false; }

 private:
  ir::program const& p_;
  node_id stop_;
};

// An array behind a view, and how its elements lie: one stride for each axis of the view.
struct strided {
  node_id array = ir::no_node;
  std::vector<std::int64_t> stride;
};

// nullopt when n's elements are not at a linear place, from the beginning, of the array.
std::optional<strided> as_strided(ir::program const& p, node_id n, node_id stop) {
  point_space space(p, p.nodes[n].shape);
  view_policy policy(p, stop);
  auto const got = space.pull(n, space.identity(), policy);
  if (!got || space.points()[*got].kind != point_kind::load) return std::nullopt;
  point const& at = space.points()[*got];
  index_arena const& a = space.arena();
  if (at.guard != no_guard || a.at(at.index).constant != 0) return std::nullopt;
  strided s{at.node, {}};
  for (std::uint32_t v = 0; v < a.variables(); ++v) {
    auto const stride = a.stride(at.index, v);
    if (!stride) return std::nullopt;
    s.stride.push_back(*stride);
  }
  return s;
}

// The views over n, outermost first, and what lies below them.
std::vector<node_id> views_of(ir::program const& p, node_id n) {
  std::vector<node_id> all{n};
  while (is_movement(p.nodes[n].code)) all.push_back(n = p.operands_of(n)[0]);
  return all;
}

struct matrix {
  node_id array = ir::no_node;
  bool transposed = false;
  std::int64_t batch_stride = 0;
};

// The operand as dense matrices, stored as they are or transposed, one for each of `batch` or one for all.
std::optional<matrix> as_matrices(ir::program const& p, node_id n, std::int64_t batch) {
  reprise::shape const& s = p.nodes[n].shape;
  int const rank = s.rank();
  std::int64_t const rows = s[rank - 2], columns = s[rank - 1];
  std::vector<node_id> const views = views_of(p, n);
  for (std::size_t i = views.size(); i-- > 0;) {
    auto const at = as_strided(p, n, views[i]);
    if (!at) continue;
    auto const stride = [&](int axis) { return at->stride[static_cast<std::size_t>(axis)]; };
    auto const lies = [&](std::int64_t row, std::int64_t column) {
      return (rows == 1 || stride(rank - 2) == row) && (columns == 1 || stride(rank - 1) == column);
    };
    matrix m{at->array, false, 0};
    if (!lies(columns, 1)) {
      if (!lies(1, rows)) continue;
      m.transposed = true;
    }
    std::int64_t own = 1, next = rows * columns;
    bool dense = true, same = true;
    for (int axis = rank - 3; axis >= 0; --axis) {
      own *= s[axis];
      if (s[axis] == 1) continue;
      dense = dense && stride(axis) == next;
      same = same && stride(axis) == 0;
      next *= s[axis];
    }
    if (own == batch && dense && own > 1) m.batch_stride = rows * columns;
    else if (!same) continue;
    return m;
  }
  return std::nullopt;
}

// A broadcast of one number for each index of `axis`: a bias.
std::optional<node_id> as_bias(ir::program const& p, node_id n, int axis) {
  reprise::shape const& s = p.nodes[n].shape;
  if (s.rank() <= axis) return std::nullopt;
  std::vector<node_id> const views = views_of(p, n);
  node_id const below = views.back();
  if (p.nodes[below].shape.size() != s[axis] || p.nodes[below].code == op::constant) return std::nullopt;
  auto const at = as_strided(p, n, below);
  if (!at || at->array != without_reshapes(p, below)) return std::nullopt;
  for (int i = 0; i < s.rank(); ++i) {
    std::int64_t const want = i == axis ? 1 : 0;
    if (s[i] != 1 && at->stride[static_cast<std::size_t>(i)] != want) return std::nullopt;
  }
  return at->array;
}

bool is_zero(ir::program const& p, node_id n) {
  while (is_movement(p.nodes[n].code)) n = p.operands_of(n)[0];
  if (p.nodes[n].code != op::constant) return false;
  return p.int_of(n, "value") == 0;  // +0, or the integer
}

struct user_table {
  std::vector<node_id> only;  // the one node that uses a node, when its only use is that
  user_table(ir::program const& p, std::vector<std::uint32_t> const& uses)
      : only(p.nodes.size(), ir::no_node) {
    for (node_id n = 0; n < p.nodes.size(); ++n)
      for (node_id o : p.operands_of(n))
        if (uses[o] == 1) only[o] = n;
  }
};

void follow_epilogue(ir::program const& p, user_table const& users, library_call& call, bool& bias,
                     activation& act) {
  int const axis = p.nodes[call.node].code == op::conv2d ? 1 : p.nodes[call.node].shape.rank() - 1;
  auto const other = [&](node_id user) {
    auto const o = p.operands_of(user);
    return o[0] == call.result ? o[1] : o[0];
  };
  auto const step_to = [&](node_id user) {
    call.absorbed.push_back(call.result);
    call.result = user;
  };
  node_id next = users.only[call.result];
  if (next != ir::no_node && p.nodes[next].code == op::add) {
    if (auto const b = as_bias(p, other(next), axis)) {
      call.operands.push_back(*b);
      bias = true;
      step_to(next);
      next = users.only[call.result];
    }
  }
  if (next == ir::no_node) return;
  op const code = p.nodes[next].code;
  if (code == op::relu || (code == op::maximum && is_zero(p, other(next)))) {
    act = activation::relu;
    step_to(next);
  }
}

bool library_dtype(dtype t) { return is_floating(t); }

// What the library is likely to do badly or not at all, or what a kernel does well: few products for each
// result.
bool wants_alternative(dtype t, std::int64_t products) { return t != dtype::f32 || products <= 256; }

library_call matmul_call(ir::program const& p, node_id n) {
  auto const o = p.operands_of(n);
  ir::node const& at = p.nodes[n];
  reprise::shape const& s = at.shape;
  library_call call{.node = n, .result = n, .operands = {}, .absorbed = {}, .step = {}, .alternative = false};
  std::int64_t batch = 1;
  for (int i = 0; i < s.rank() - 2; ++i) batch *= s[i];
  matmul_step step{.type = at.type,
                   .batch = batch,
                   .m = s[s.rank() - 2],
                   .n = s[s.rank() - 1],
                   .k = p.nodes[o[0]].shape.back()};
  auto const a = as_matrices(p, o[0], batch), b = as_matrices(p, o[1], batch);
  if (a && b && library_dtype(at.type) && s.size() != 0 && step.k != 0) {
    step.stride_a = a->batch_stride;
    step.stride_b = b->batch_stride;
    step.stride_c = batch > 1 ? step.m * step.n : 0;
    step.transpose_a = a->transposed;
    step.transpose_b = b->transposed;
    call.operands = {a->array, b->array};
    call.step = step;
    call.alternative = wants_alternative(at.type, step.k);
  } else {
    call.operands = {without_reshapes(p, o[0]), without_reshapes(p, o[1])};
  }
  return call;
}

library_call conv2d_call(ir::program const& p, node_id n) {
  auto const o = p.operands_of(n);
  ir::node const& at = p.nodes[n];
  reprise::shape const &x = p.nodes[o[0]].shape, &w = p.nodes[o[1]].shape;
  ir::words const stride = p.ints_of(n, "stride"), padding = p.ints_of(n, "padding"),
                  dilation = p.ints_of(n, "dilation");
  library_call call{.node = n, .result = n, .operands = {}, .absorbed = {}, .step = {}, .alternative = false};
  call.operands = {without_reshapes(p, o[0]), without_reshapes(p, o[1])};
  std::int64_t const products = w[1] * w[2] * w[3];
  if (!library_dtype(at.type) || at.shape.size() == 0 || products == 0) return call;
  call.step = conv2d_step{.type = at.type,
                          .n = x[0],
                          .c = x[1],
                          .h = x[2],
                          .w = x[3],
                          .o = w[0],
                          .kh = w[2],
                          .kw = w[3],
                          .stride_h = stride[0],
                          .stride_w = stride[1],
                          .pad_top = padding[0],
                          .pad_left = padding[1],
                          .pad_bottom = padding[2],
                          .pad_right = padding[3],
                          .dilation_h = dilation[0],
                          .dilation_w = dilation[1],
                          .groups = p.int_of(n, "groups")};
  call.alternative = wants_alternative(at.type, products);
  return call;
}

// Reads what the call reads from memory; the contraction itself is the row.
class contraction_policy : public point_policy {
 public:
  explicit contraction_policy(library_call const& call) : call_(call) {}
  access at(node_id n, coordinates const&) override {
    if (n == call_.node) return access::row;
    bool const stored = std::find(call_.operands.begin(), call_.operands.end(), n) != call_.operands.end();
    return stored ? access::load : access::through;
  }
  bool made(node_id, coordinates const&, point_id) override { return false; }

 private:
  library_call const& call_;
};

reprise::shape with_axes(reprise::shape s, std::initializer_list<std::int64_t> more) {
  for (std::int64_t e : more) s.push_back(e);
  return s;
}

}  // namespace

std::vector<library_call> find_library_calls(ir::program const& p, std::vector<std::uint32_t> const& uses,
                                             bool epilogues) {
  std::vector<library_call> calls;
  std::optional<user_table> users;
  for (node_id n = 0; n < p.nodes.size(); ++n) {
    op const code = p.nodes[n].code;
    if (uses[n] == 0 || (code != op::matmul && code != op::conv2d)) continue;
    library_call call = code == op::matmul ? matmul_call(p, n) : conv2d_call(p, n);
    if (epilogues) {
      if (!users) users.emplace(p, uses);
      bool bias = false;
      activation act = activation::none;
      follow_epilogue(p, *users, call, bias, act);
      if (auto* m = std::get_if<matmul_step>(&call.step)) m->bias = bias, m->act = act;
      if (auto* c = std::get_if<conv2d_step>(&call.step)) c->bias = bias, c->act = act;
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

// The axes of the space: those of the result, then those of the products.
kernel_group contraction(ir::program const& p, library_call const& call) {
  auto const o = p.operands_of(call.node);
  reprise::shape const& result = p.nodes[call.node].shape;
  reprise::shape const &a = p.nodes[o[0]].shape, &b = p.nodes[o[1]].shape;
  bool const conv = p.nodes[call.node].code == op::conv2d;
  kernel_group g;
  g.contract = true;
  int const rank = result.rank();
  // a matmul may have 8 axes already: leading ones are flattened into coordinates below
  std::int64_t batch = 1;
  for (int i = 0; i < rank - 2; ++i) batch *= result[i];
  g.space = std::make_unique<point_space>(
      p, conv ? with_axes(result, {b[1], b[2], b[3]})
              : reprise::shape{batch, result[rank - 2], result[rank - 1], a.back()});
  point_space& space = *g.space;
  index_arena& arena = space.arena();
  auto const axis = [&](int i) { return space.identity().at[static_cast<std::size_t>(i)]; };
  contraction_policy policy(call);
  kernel_reduction r{.node = call.node};
  coordinates out, left, right;
  guard_id guard = no_guard;
  if (conv) {
    g.reduced = 0b1110000;
    g.tile_axis = 1;
    ir::words const stride = p.ints_of(call.node, "stride"), padding = p.ints_of(call.node, "padding"),
                    dilation = p.ints_of(call.node, "dilation");
    std::int64_t const per_group = result[1] / std::max<std::int64_t>(p.int_of(call.node, "groups"), 1);
    index_id channel = axis(4);
    if (per_group > 0 && per_group != result[1])
      channel = arena.add(arena.mul(arena.divide(axis(1), per_group), b[1]), channel);
    auto const place = [&](int k) {
      auto const i = static_cast<std::size_t>(k);
      index_id const at = arena.add(
          arena.add(arena.mul(axis(2 + k), stride[i]), arena.mul(axis(5 + k), dilation[i])), -padding[i]);
      guard = space.within(guard, at, 0, a[2 + k] - 1);
      return at;
    };
    index_id const row = place(0), column = place(1);
    out = {{axis(0), axis(1), axis(2), axis(3)}, 4};
    left = {{axis(0), channel, row, column}, 4};
    right = {{axis(1), axis(4), axis(5), axis(6)}, 4};
  } else {
    g.reduced = 0b1000;
    g.tile_axis = 1;
    reprise::shape leading;
    for (int i = 0; i < rank - 2; ++i) leading.push_back(result[i]);
    coordinates const at = space.reshaped({{axis(0)}, 1}, reprise::shape{batch}, leading);
    auto const operand = [&](reprise::shape const& s, index_id row, index_id column) {
      coordinates c;
      c.rank = s.rank();
      int const lead = rank - s.rank();
      for (int i = 0; i < s.rank() - 2; ++i)
        c.at[static_cast<std::size_t>(i)] =
            s[i] == 1 ? arena.constant(0) : at.at[static_cast<std::size_t>(i + lead)];
      c.at[static_cast<std::size_t>(s.rank() - 2)] = row;
      c.at[static_cast<std::size_t>(s.rank() - 1)] = column;
      return c;
    };
    out = operand(result, axis(1), axis(2));
    left = operand(a, axis(1), axis(3));
    right = operand(b, axis(3), axis(2));
  }
  space.set_row_level(call.node, 0);
  r.value = *space.pull(o[0], left, policy, guard);
  r.factor = *space.pull(o[1], right, policy);
  g.reductions.push_back(r);
  g.outputs.push_back({.node = call.result, .value = *space.pull(call.result, out, policy), .row = true});
  return g;
}

}  // namespace reprise::jit
