// Programs as users record them, in the operations of the table: for the tests of fusion and lowering and for
// golden files.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "support/build.h"

namespace reprise::test {

// A program under construction, with NumPy's manners.
struct sketch {
  program p;
  builder b{p};

  sketch() = default;
  sketch(sketch const&) = delete;
  sketch& operator=(sketch const&) = delete;

  node_id input(dtype t, reprise::shape const& s) {
    return b.parameter({t, s}, ir::parameter_role::argument, std::to_string(p.parameters.size()));
  }
  node_id lifted(dtype t) { return b.parameter({t, {}}, ir::parameter_role::lifted, "number"); }
  node_id number(dtype t, double v) { return b.constant(t, v); }
  node_id number_like(node_id x, double v) { return number(p.nodes[x].type, v); }
  reprise::shape shape(node_id n) const { return p.nodes[n].shape; }  // a copy: nodes move

  node_id add(op code, std::vector<node_id> const& in, ir::words attributes = {}) {
    return b.add(code, in, attributes);
  }
  node_id list(op code, node_id x, std::vector<std::int64_t> const& values) {
    return add(code, {x}, attribute_words().list(values));
  }
  node_id reshape(node_id x, std::vector<std::int64_t> const& s) { return list(op::reshape, x, s); }
  node_id transpose(node_id x, std::vector<std::int64_t> const& axes) { return list(op::transpose, x, axes); }
  node_id broadcast(node_id x, std::vector<std::int64_t> const& s) { return list(op::broadcast_to, x, s); }
  node_id reduce(op code, node_id x, std::vector<std::int64_t> const& axes) { return list(code, x, axes); }
  node_id slice(node_id x, std::vector<std::int64_t> const& start, std::vector<std::int64_t> const& step,
                std::vector<std::int64_t> const& s) {
    return add(op::slice, {x}, attribute_words().list(start).list(step).list(s));
  }
  // The reduced value, beside x again.
  node_id spread(node_id reduced, node_id x, std::vector<std::int64_t> const& axes) {
    reprise::shape const whole = shape(x);
    std::vector<std::int64_t> kept(whole.begin(), whole.end());
    for (std::int64_t a : axes) kept[static_cast<std::size_t>(a)] = 1;
    return b.broadcast(reshape(reduced, kept), whole);
  }
  node_id softmax(node_id x, int axis) {
    node_id const d = add(op::sub, {x, spread(reduce(op::max, x, {axis}), x, {axis})});
    node_id const e = add(op::exp, {d});
    return add(op::div, {e, spread(reduce(op::sum, e, {axis}), e, {axis})});
  }
  node_id mean(node_id x, int axis) {
    node_id const s = reduce(op::sum, x, {axis});
    return add(op::div, {s, number_like(s, static_cast<double>(shape(x)[axis]))});
  }

  program done(std::vector<node_id> const& results) {
    finish(p, results);
    return ir::canonical(p);
  }
};

inline program softmax_program(std::int64_t rows, std::int64_t columns) {
  sketch s;
  return s.done({s.softmax(s.input(dtype::f32, {rows, columns}), 1)});
}

inline program layer_norm_program(std::int64_t rows, std::int64_t columns) {
  sketch s;
  node_id const x = s.input(dtype::f32, {rows, columns}), w = s.input(dtype::f32, {columns}),
                b = s.input(dtype::f32, {columns});
  node_id const d = s.add(op::sub, {x, s.spread(s.mean(x, 1), x, {1})});
  node_id const v = s.mean(s.add(op::mul, {d, d}), 1);
  node_id const r = s.add(op::rsqrt, {s.add(op::add, {v, s.number(dtype::f32, 1e-5)})});
  node_id const n = s.add(op::mul, {s.add(op::mul, {d, s.spread(r, x, {1})}), s.b.broadcast(w, s.shape(x))});
  return s.done({s.add(op::add, {n, s.b.broadcast(b, s.shape(x))})});
}

// x = x * c - sum(x) * d + e, again and again.
inline program tiny_chain_program(std::int64_t n, int times) {
  sketch s;
  node_id x = s.input(dtype::f32, {n});
  for (int i = 0; i < times; ++i) {
    node_id const sum = s.reduce(op::sum, x, {0});
    node_id const scaled = s.add(op::mul, {x, s.number(dtype::f32, 0.999)});
    x = s.add(op::add, {s.add(op::sub, {scaled, s.add(op::mul, {sum, s.number(dtype::f32, 1e-6)})}),
                        s.number(dtype::f32, 1e-3)});
  }
  return s.done({x});
}

// Prices of a call and a put.
inline program black_scholes_program(std::int64_t n) {
  sketch s;
  node_id const spot = s.input(dtype::f32, {n}), strike = s.input(dtype::f32, {n}),
                years = s.input(dtype::f32, {n});
  auto const c = [&](double v) { return s.number(dtype::f32, v); };
  auto const normal = [&](node_id x) {
    node_id const scaled = s.add(op::mul, {x, c(0.7071067811865476)});
    return s.add(op::mul, {s.add(op::add, {s.add(op::erf, {scaled}), c(1)}), c(0.5)});
  };
  double const rate = 0.02, volatility = 0.3;
  node_id const spread = s.add(op::mul, {s.add(op::sqrt, {years}), c(volatility)});
  node_id const drift = s.add(op::mul, {years, c(rate + volatility * volatility / 2)});
  node_id const d1 =
      s.add(op::div, {s.add(op::add, {s.add(op::log, {s.add(op::div, {spot, strike})}), drift}), spread});
  node_id const d2 = s.add(op::sub, {d1, spread});
  node_id const now = s.add(op::mul, {strike, s.add(op::exp, {s.add(op::mul, {years, c(-rate)})})});
  node_id const call =
      s.add(op::sub, {s.add(op::mul, {spot, normal(d1)}), s.add(op::mul, {now, normal(d2)})});
  node_id const put = s.add(op::add, {s.add(op::sub, {call, spot}), now});
  return s.done({call, put});
}

// Where x is inside, the mean of its four neighbours.
inline program stencil_program(std::int64_t n, int times) {
  sketch s;
  node_id x = s.input(dtype::f32, {n, n});
  for (int i = 0; i < times; ++i) {
    auto const part = [&](std::int64_t r, std::int64_t c) {
      return s.slice(x, {r, c}, {1, 1}, {n - 2, n - 2});
    };
    node_id const sum =
        s.add(op::add, {s.add(op::add, {part(0, 1), part(2, 1)}), s.add(op::add, {part(1, 0), part(1, 2)})});
    node_id const mean = s.add(op::mul, {sum, s.number(dtype::f32, 0.25)});
    x = s.add(op::slice_update, {x, mean}, attribute_words().list({1, 1}).list({1, 1}));
  }
  return s.done({x});
}

// A layer: conv2d, a bias for each filter, relu.
inline program conv_layer_program(dtype t, std::int64_t n, std::int64_t c, std::int64_t o,
                                  std::int64_t size) {
  sketch s;
  node_id const x = s.input(t, {n, c, size, size}), w = s.input(t, {o, c, 3, 3}), b = s.input(t, {o});
  node_id const y =
      s.add(op::conv2d, {x, w}, attribute_words().list({1, 1}).list({1, 1, 1, 1}).list({1, 1}).one(1));
  node_id const biased = s.add(op::add, {y, s.b.broadcast(s.reshape(b, {o, 1, 1}), s.shape(y))});
  return s.done({s.add(op::relu, {biased})});
}

// x @ transpose(w) + b, relu, twice.
inline program mlp_program(dtype t, std::int64_t rows, std::int64_t in, std::int64_t hidden,
                           std::int64_t out) {
  sketch s;
  node_id x = s.input(t, {rows, in});
  for (std::int64_t width : {hidden, out}) {
    node_id const w = s.input(t, {width, s.shape(x)[1]}), b = s.input(t, {width});
    node_id const y = s.add(op::matmul, {x, s.transpose(w, {1, 0})});
    node_id const biased = s.add(op::add, {y, s.b.broadcast(b, s.shape(y))});
    x = s.add(op::maximum, {biased, s.number(t, 0)});
  }
  return s.done({x});
}

}  // namespace reprise::test
