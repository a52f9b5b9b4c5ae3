// Operations that are composed of others, as docs/numbers.md spells them: one place, so that the bits never
// depend on a backend. Halves are computed in f32 and rounded once, at the end.
#include <algorithm>

#include <fmt/format.h>

#include <reprise/functions.h>
#include <reprise/random.h>

#include "trace/record.h"

namespace reprise::record {

namespace {

ir::node_id mean_node(editor& e, ir::node_id x, std::vector<int> const& axes, bool keepdims) {
  ir::tensor_type const type = e.type_of(x);
  dtype const result = mean_type(type.type), wide = compute_type(result);
  double n = 1;
  for (int a : axes) n *= static_cast<double>(type.shape[a]);
  if (n == 0) e.fail("the mean of no elements of shape " + type.shape.str());
  ir::node_id const total = reduce(e, ir::op::sum, e.cast(x, wide), axes, keepdims);
  return e.cast(elementwise(e, ir::op::div, {total, number_node(e, wide, n)}), result);
}

void require_floating(editor const& e, dtype t) {
  if (!is_floating(t)) e.fail(fmt::format("takes a floating dtype, not {}", name_of(t)));
}

}  // namespace
}  // namespace reprise::record

namespace reprise::inline v1::detail {

using namespace record;

handle record_mean(handle const& x, axes_argument const& axes, bool keepdims, location at) {
  handle const* one[] = {&x};
  editor e(one, "mean", at);
  ir::node_id const n = e.in(x);
  return e.finish(mean_node(e, n, normalized_axes(e, axes, e.type_of(n).shape.rank()), keepdims));
}

handle record_softmax(handle const& x, std::int64_t axis, bool logarithm, location at) {
  handle const* one[] = {&x};
  editor e(one, logarithm ? "log_softmax" : "softmax", at);
  ir::node_id n = e.in(x);
  ir::tensor_type const type = e.type_of(n);
  require_floating(e, type.type);
  axes_argument along;
  along.all = false;
  along.count = 1;
  along.axis[0] = axis;
  std::vector<int> const axes = normalized_axes(e, along, type.shape.rank());
  if (type.shape.size() == 0) return e.finish(n);
  n = e.cast(n, compute_type(type.type));
  ir::node_id const d = elementwise(e, ir::op::sub, {n, reduce(e, ir::op::max, n, axes, true)});
  ir::node_id const power = elementwise(e, ir::op::exp, {d});
  ir::node_id const total = reduce(e, ir::op::sum, power, axes, true);
  ir::node_id const result = logarithm
                                 ? elementwise(e, ir::op::sub, {d, elementwise(e, ir::op::log, {total})})
                                 : elementwise(e, ir::op::div, {power, total});
  return e.finish(e.cast(result, type.type));
}

handle record_layer_norm(handle const& x, handle const* weight, handle const* bias, int normalized,
                         double eps, location at) {
  std::vector<handle const*> all{&x};
  if (weight) all.push_back(weight);
  if (bias) all.push_back(bias);
  editor e(all, "layer_norm", at);
  ir::node_id n = e.in(x);
  ir::tensor_type const type = e.type_of(n);
  require_floating(e, type.type);
  dtype const wide = compute_type(type.type);
  int const rank = type.shape.rank();
  if (normalized < 1 || normalized > rank)
    e.fail(fmt::format("normalizes {} axes of an array of shape {}", normalized, type.shape.str()));
  std::vector<int> axes;
  shape last;
  for (int i = rank - normalized; i < rank; ++i) {
    axes.push_back(i);
    last.push_back(type.shape[i]);
  }
  if (type.shape.size() == 0) return e.finish(n);
  n = e.cast(n, wide);
  ir::node_id const d = elementwise(e, ir::op::sub, {n, mean_node(e, n, axes, true)});
  ir::node_id const variance = mean_node(e, elementwise(e, ir::op::mul, {d, d}), axes, true);
  ir::node_id const scale =
      elementwise(e, ir::op::rsqrt, {elementwise(e, ir::op::add, {variance, number_node(e, wide, eps)})});
  ir::node_id y = elementwise(e, ir::op::mul, {d, scale});
  for (auto const& [h, op] : {std::pair(weight, ir::op::mul), std::pair(bias, ir::op::add)}) {
    if (!h) continue;
    ir::node_id const p = e.in(*h);
    if (!(e.type_of(p).shape == last))
      e.fail(fmt::format("a {} of shape {} for normalized axes {}", h == weight ? "weight" : "bias",
                         e.type_of(p).shape.str(), last.str()));
    y = elementwise(e, op, {y, e.cast(p, wide)});
  }
  return e.finish(e.cast(y, type.type));
}

handle record_matmul(handle const& a, handle const& b, dtype type, location at) {
  handle const* both[] = {&a, &b};
  editor e(both, "matmul", at);
  ir::node_id x = e.cast(e.in(a), type), y = e.cast(e.in(b), type);
  shape const left = e.type_of(x).shape, right = e.type_of(y).shape;
  if (left.rank() == 0 || right.rank() == 0)
    e.fail("an operand of rank 0: shapes " + left.str() + " and " + right.str());
  // A vector is a row on the left, a column on the right; the axis that this adds goes again.
  if (left.rank() == 1) x = e.reshape(x, shape{1, left[0]});
  if (right.rank() == 1) y = e.reshape(y, shape{right[0], 1});
  ir::node_id n = e.add(ir::op::matmul, {x, y});
  shape to = e.type_of(n).shape;
  if (right.rank() == 1) to.erase(to.rank() - 1);
  if (left.rank() == 1) to.erase(to.rank() - (right.rank() == 1 ? 1 : 2));
  return e.finish(e.reshape(n, to));
}

conv2d_argument checked_options(conv2d_options const& o, location at) {
  auto const fail = [&](char const* what, shape const& s) {
    throw argument_error(
        message("conv2d",
                fmt::format("{} {} is not {{vertical, horizontal}}{}", what, s.str(),
                            std::string_view(what) == "padding" ? " or {top, left, bottom, right}" : ""),
                at));
  };
  conv2d_argument a;
  if (o.stride.rank() != 2 || o.stride[0] < 1 || o.stride[1] < 1) fail("stride", o.stride);
  if (o.dilation.rank() != 2 || o.dilation[0] < 1 || o.dilation[1] < 1) fail("dilation", o.dilation);
  if (o.padding.rank() != 2 && o.padding.rank() != 4) fail("padding", o.padding);
  for (int i = 0; i < 2; ++i) {
    a.stride[i] = o.stride[i];
    a.dilation[i] = o.dilation[i];
  }
  for (int i = 0; i < 4; ++i) a.padding[i] = o.padding[o.padding.rank() == 4 ? i : i % 2];
  a.groups = o.groups;
  return a;
}

handle record_conv2d(handle const& x, handle const& weight, handle const* bias, conv2d_argument const& how,
                     location at) {
  handle const* all[] = {&x, &weight, bias};
  editor e({all, bias ? 3u : 2u}, "conv2d", at);
  std::int64_t const words[] = {2,
                                how.stride[0],
                                how.stride[1],
                                4,
                                how.padding[0],
                                how.padding[1],
                                how.padding[2],
                                how.padding[3],
                                2,
                                how.dilation[0],
                                how.dilation[1],
                                how.groups};
  ir::node_id const operands[] = {e.in(x), e.in(weight)};
  ir::node_id n = e.add(ir::op::conv2d, operands, words);
  if (bias) {
    ir::node_id const b = e.in(*bias);
    std::int64_t const channels = e.type_of(n).shape[1];
    if (!(e.type_of(b).shape == shape{channels}))
      e.fail(fmt::format("a bias of shape {} for {} output channels", e.type_of(b).shape.str(), channels));
    n = elementwise(e, ir::op::add, {n, e.reshape(b, shape{channels, 1, 1})});
  }
  return e.finish(n);
}

pool2d_argument checked_options(pool2d_options const& o, bool average, location at) {
  shape const stride = o.stride.rank() == 0 ? o.window : o.stride;
  char const* const name = average ? "avg_pool2d" : "max_pool2d";
  if (o.window.rank() != 2 || o.window[0] < 1 || o.window[1] < 1)
    throw argument_error(message(name, "window " + o.window.str() + " is not {vertical, horizontal}", at));
  if (stride.rank() != 2 || stride[0] < 1 || stride[1] < 1)
    throw argument_error(message(name, "stride " + stride.str() + " is not {vertical, horizontal}", at));
  if (o.padding.rank() != 2 && o.padding.rank() != 4)
    throw argument_error(message(
        name, "padding " + o.padding.str() + " is not {vertical, horizontal} or {top, left, bottom, right}",
        at));
  pool2d_argument a;
  a.average = average;
  for (int i = 0; i < 2; ++i) {
    a.window[i] = o.window[i];
    a.stride[i] = stride[i];
  }
  for (int i = 0; i < 4; ++i) a.padding[i] = o.padding[o.padding.rank() == 4 ? i : i % 2];
  return a;
}

handle record_pool2d(handle const& x, pool2d_argument const& how, location at) {
  handle const* one[] = {&x};
  editor e(one, how.average ? "avg_pool2d" : "max_pool2d", at);
  ir::node_id n = e.in(x);
  ir::tensor_type const type = e.type_of(n);
  if (type.shape.rank() != 4) e.fail("takes an array of rank 4, not shape " + type.shape.str());
  if (how.average) require_floating(e, type.type);
  std::int64_t const* p = how.padding;
  for (int i = 0; i < 4; ++i)
    if (p[i] < 0 || p[i] >= how.window[i % 2])
      e.fail(fmt::format("padding {} is not below the window {}", p[i], how.window[i % 2]));
  if (p[0] || p[1] || p[2] || p[3]) {
    double const least = how.average              ? 0
                         : is_floating(type.type) ? -std::numeric_limits<double>::infinity()
                                                  : std::numeric_limits<double>::lowest();
    ir::node_id const operands[] = {n, number_node(e, type.type, least)};
    std::int64_t const words[] = {4, 0, 0, p[0], p[1], 4, 0, 0, p[2], p[3]};
    n = e.add(ir::op::pad, operands, words);
  }
  ir::node_id const operand[] = {n};
  std::int64_t const words[] = {2, 2, 3, 2, how.window[0], how.window[1], 2, how.stride[0], how.stride[1],
                                2, 1, 1};
  n = e.add(ir::op::sliding_window, operand, words);
  return e.finish(how.average ? mean_node(e, n, {4, 5}, false) : reduce(e, ir::op::max, n, {4, 5}, false));
}

namespace {

// `count` Philox words as i64 in [0, 2^32).
ir::node_id philox_words(editor& e, std::uint64_t key, std::int64_t count) {
  ir::node_id const k[] = {e.constant(dtype::i64, key)};
  std::int64_t const words[] = {1, count};
  return e.add(ir::op::philox, k, words);
}
ir::node_id every_second(editor& e, ir::node_id n, std::int64_t first) {
  std::int64_t const start[] = {first}, step[] = {2};
  return record::slice(e, n, start, step, shape{e.type_of(n).shape[0] / 2});
}
ir::node_id shifted(editor& e, ir::node_id n, int bits) {
  return elementwise(e, ir::op::right_shift, {n, e.constant(dtype::i64, static_cast<std::uint64_t>(bits))});
}

}  // namespace

handle record_random(dtype type, std::uint64_t key, shape const& extents, bool normal, location at) {
  editor e({}, normal ? "normal" : "uniform", at);
  require_floating(e, type);
  std::int64_t const n = extents.size();
  dtype const wide = compute_type(type);
  auto const mul = [&](ir::node_id a, double b) {
    return elementwise(e, ir::op::mul, {a, number_node(e, e.type_of(a).type, b)});
  };
  ir::node_id r;
  if (normal) {
    ir::node_id const w = philox_words(e, key, 2 * n);
    ir::node_id const u =
        mul(elementwise(e, ir::op::add, {e.cast(every_second(e, w, 0), wide), number_node(e, wide, 0.5)}),
            0x1p-32);
    ir::node_id const angle = mul(mul(e.cast(every_second(e, w, 1), wide), 0x1p-32), 6.283185307179586);
    ir::node_id const radius = elementwise(
        e, ir::op::sqrt,
        {mul(elementwise(e, ir::op::log, {elementwise(e, ir::op::minimum, {u, number_node(e, wide, 1)})}),
             -2)});
    r = elementwise(e, ir::op::mul, {radius, elementwise(e, ir::op::cos, {angle})});
  } else if (type == dtype::f64) {
    ir::node_id const w = philox_words(e, key, 2 * n);
    ir::node_id const high = mul(e.cast(shifted(e, every_second(e, w, 0), 5), wide), 0x1p26);
    r = mul(elementwise(e, ir::op::add, {high, e.cast(shifted(e, every_second(e, w, 1), 6), wide)}), 0x1p-53);
  } else {
    // Half types keep as many bits as they have, so that rounding never reaches 1.
    int const kept = type == dtype::f16 ? 11 : type == dtype::bf16 ? 8 : 24;
    r = mul(e.cast(shifted(e, philox_words(e, key, n), 32 - kept), wide),
            1.0 / static_cast<double>(std::int64_t{1} << kept));
  }
  return e.finish(e.reshape(e.cast(r, type), extents));
}

}  // namespace reprise::inline v1::detail

namespace reprise::inline v1::random {

key key::split(std::uint64_t n) const {
  // SplitMix64 over both words: keys of different paths differ.
  auto const mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  return {mix(mix(seed + 0x9e3779b97f4a7c15u) ^ (n * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du))};
}

}  // namespace reprise::inline v1::random
