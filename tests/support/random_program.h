// Random programs for property tests: any seed gives a legal, canonical program over all categories of
// operations, with small arrays of every rank and dtype (empty ones, primes, single elements), several
// results, and inputs. A value that a backend may round differently (an elementary function's, a library's)
// is only used where the error stays bounded, so that check_results has an answer for each program; without
// `inexact` every result is the same bits everywhere.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "support/bounds.h"
#include "support/build.h"

namespace reprise::test {

struct random_options {
  int min_nodes = 5, max_nodes = 40;
  bool inexact = true;  // floating elementary functions, matmul and conv2d
  std::vector<dtype> dtypes = all_dtypes();
  std::int64_t max_elements = 3000;
};

struct random_case {
  std::string name;  // holds the seed
  program code;
  std::vector<host_tensor> parameters;

  std::string check(std::span<host_tensor const> got) const {
    std::string const wrong = check_results(code, parameters, got);
    return wrong.empty() ? wrong : name + "\n" + wrong + to_json(code);
  }
};

class program_maker {
 public:
  program_maker(std::uint64_t seed, random_options const& options)
      : options_(options), r_(seed), builder_(p_) {
    shapes_ = {any_shape(), any_shape(), any_shape()};
    for (int i = 0; i < 3; ++i) leaf({choose(r_, options_.dtypes), choose(r_, shapes_)});
  }

  program make() {
    std::int64_t const count = random_int(r_, options_.min_nodes, options_.max_nodes);
    for (int tries = 0; std::ssize(p_.nodes) < count && tries < 400; ++tries) step();
    std::vector<bool> used(p_.nodes.size());
    for (node_id operand : p_.operands) used[operand] = true;
    std::vector<node_id> results;
    for (node_id n = 0; n < p_.nodes.size(); ++n)
      if (used[n] ? chance(r_, 0.05) : p_.nodes[n].code != op::parameter) results.push_back(n);
    if (results.empty()) results.push_back(static_cast<node_id>(p_.nodes.size() - 1));
    finish(p_, results);
    return canonical(p_);
  }

 private:
  struct value {
    node_id id;
    tensor_type type;
    bool exact;
  };
  using list = std::vector<std::int64_t>;

  // ---- shapes and leaves

  reprise::shape any_shape() {
    static constexpr std::int64_t extents[] = {1,  1,  2,  2,  3,  4,  5,   7,   8,
                                               13, 16, 17, 31, 33, 64, 100, 131, 257};
    reprise::shape s;
    for (std::int64_t rank = random_int(r_, 0, 4); rank > 0; --rank) {
      std::int64_t const extent = chance(r_, 0.03) ? 0 : choose(r_, extents);
      s.push_back(s.size() * extent > options_.max_elements ? random_int(r_, 1, 2) : extent);
    }
    return s;
  }

  value remember(node_id id, bool exact) {
    value const v{id, p_.type_of(id), exact};
    values_.push_back(v);
    return v;
  }

  value leaf(tensor_type const& type) {
    double const kind = random_unit(r_);
    if (kind < 0.6 || type.type == dtype::boolean) {
      bool const lifted = type.shape.rank() == 0 && chance(r_, 0.3);
      return remember(
          builder_.parameter(type, lifted ? ir::parameter_role::lifted : ir::parameter_role::argument,
                             std::to_string(p_.parameters.size())),
          true);
    }
    if (kind < 0.8 || type.shape.rank() == 0) {
      static constexpr double numbers[] = {0, 1, -1, 2, 0.5, 3, 0.1, -7};
      return broadcast(remember(builder_.constant(type.type, choose(r_, numbers)), true), type.shape);
    }
    list const extents(type.shape.begin(), type.shape.end());
    node_id id;
    if (kind < 0.95) {
      id = builder_.add(op::iota, std::vector<node_id>{},
                        attribute_words().list(extents).one(random_int(r_, 0, type.shape.rank() - 1)));
    } else {
      node_id const key = builder_.constant(dtype::i64, static_cast<std::uint64_t>(r_()));
      id = builder_.add(op::philox, std::vector<node_id>{key}, attribute_words().list(extents));
    }
    return cast(remember(id, true), type.type);
  }

  value cast(value const& v, dtype to) {
    if (v.type.type == to) return v;
    return add(op::cast, {v}, attribute_words().one(static_cast<std::int64_t>(to)));
  }

  value broadcast(value const& v, reprise::shape const& to) {
    if (v.type.shape == to) return v;
    return add(op::broadcast_to, {v}, attribute_words().list(to));
  }

  value add(op code, std::vector<value> const& in, ir::words attributes = {}) {
    std::vector<node_id> ids;
    bool exact = true;
    for (value const& v : in) {
      ids.push_back(v.id);
      exact &= v.exact;
    }
    node_id const id = builder_.add(code, ids, attributes);
    bool const rounds = is_floating(p_.nodes[id].type) &&
                        (ir::info(code).ulps > 0 || ir::info(code).kind == ir::category::library);
    return remember(id, exact && !rounds);
  }

  // The same if it is small enough.
  bool try_add(op code, std::vector<value> const& in, ir::words attributes = {}) {
    std::vector<tensor_type> types;
    for (value const& v : in) types.push_back(v.type);
    if (ir::infer(code, types, attributes).shape.size() > options_.max_elements) return false;
    add(code, in, attributes);
    return true;
  }

  // ---- picking

  // One of the values, the latest more often.
  template <class F>
  std::optional<value> pick(F suits) {
    std::vector<value> all;
    for (value const& v : values_)
      if (suits(v)) all.push_back(v);
    if (all.empty()) return {};
    std::int64_t const last = std::ssize(all) - 1;
    return all[static_cast<std::size_t>(std::max(random_int(r_, 0, last), random_int(r_, 0, last)))];
  }
  value pick() {
    return *pick([](value const&) { return true; });
  }

  static bool broadcasts(reprise::shape const& from, reprise::shape const& to) {
    if (from.rank() > to.rank()) return false;
    for (int i = 1; i <= from.rank(); ++i)
      if (from[from.rank() - i] != 1 && from[from.rank() - i] != to[to.rank() - i]) return false;
    return true;
  }

  // Something of this type, or of rank 0 and this dtype.
  value like(tensor_type const& type, bool exact) {
    double const kind = random_unit(r_);
    auto const fits = [&](value const& v) { return v.exact || !exact; };
    std::optional<value> found;
    if (kind < 0.5) found = pick([&](value const& v) { return fits(v) && v.type == type; });
    else if (kind < 0.6)
      found = pick(
          [&](value const& v) { return fits(v) && v.type.type == type.type && v.type.shape.rank() == 0; });
    else if (kind < 0.75)
      found = pick([&](value const& v) {
        return fits(v) && v.type.type == type.type && broadcasts(v.type.shape, type.shape);
      });
    else if (kind < 0.85) found = pick([&](value const& v) { return v.exact && v.type.shape == type.shape; });
    if (!found) return leaf(chance(r_, 0.25) ? tensor_type{type.type, {}} : type);
    value const same = cast(*found, type.type);
    return same.type.shape.rank() == 0 ? same : broadcast(same, type.shape);
  }

  // ---- steps

  void step() {
    double const kind = random_unit(r_);
    if (kind < 0.47) elementwise();
    else if (kind < 0.52) where();
    else if (kind < 0.59) cast_some();
    else if (kind < 0.70) reduction();
    else if (kind < 0.73) arg_reduction();
    else if (kind < 0.93) movement();
    else if (kind < 0.96) leaf({choose(r_, options_.dtypes), choose(r_, shapes_)});
    else library();
  }

  // Operations over which an error stays bounded.
  static bool tame(op code) {
    static constexpr op all[] = {op::add,     op::sub,  op::mul,  op::neg,     op::abs, op::relu, op::minimum,
                                 op::maximum, op::clip, op::tanh, op::sigmoid, op::sin, op::cos,  op::erf};
    return std::find(std::begin(all), std::end(all), code) != std::end(all);
  }

  void elementwise() {
    value const a = pick();
    std::vector<op> rows;
    for (int i = 0; i < ir::op_count(); ++i) {
      ir::op_info const& row = ir::info(static_cast<op>(i));
      if (row.kind != ir::category::elementwise || !ir::accepts_dtype(row.operands, a.type.type)) continue;
      if (!a.exact && !tame(row.code)) continue;
      if (!options_.inexact && row.ulps > 0 && is_floating(a.type.type)) continue;
      rows.push_back(row.code);
    }
    if (rows.empty()) return;
    op const code = choose(r_, rows);
    std::vector<value> in{a};
    while (std::ssize(in) < ir::info(code).arity) in.push_back(like(a.type, !tame(code)));
    // an operand of rank 0 may have met one with a shape, in any place
    if (chance(r_, 0.3)) std::swap(in.front(), in.back());
    add(code, in);
  }

  void where() {
    value const a = pick();
    value const c = like({dtype::boolean, a.type.shape}, true);
    value const b = like(a.type, false);
    add(op::where, chance(r_, 0.5) ? std::vector{c, a, b} : std::vector{c, b, a});
  }

  void cast_some() {
    value const a = pick();
    dtype const to = choose(r_, options_.dtypes);
    if (a.exact || is_floating(to)) cast(a, to);
  }

  void reduction() {
    std::optional<value> const a = pick([](value const& v) { return v.type.shape.rank() > 0; });
    if (!a) return;
    reprise::shape const& s = a->type.shape;
    list axes;
    for (int axis = 0; axis < s.rank(); ++axis)
      if (s[axis] != 1 && chance(r_, 0.6)) axes.push_back(axis);
    if (axes.empty()) return;
    static constexpr op rows[] = {op::sum, op::sum, op::sum, op::prod, op::max, op::min, op::any, op::all};
    op const code = choose(r_, rows);
    if (!ir::accepts_dtype(ir::info(code).operands, a->type.type)) return;
    if ((code == op::max || code == op::min) && s.size() == 0) return;
    if (!a->exact && code == op::prod) return;
    value const r = add(code, {*a}, attribute_words().list(axes));
    if (!chance(r_, 0.4)) return;  // and back beside the operand, as a normalisation does
    reprise::shape kept = s;
    for (std::int64_t axis : axes) kept[static_cast<int>(axis)] = 1;
    broadcast(add(op::reshape, {r}, attribute_words().list(kept)), s);
  }

  void arg_reduction() {
    std::optional<value> const a =
        pick([](value const& v) { return v.exact && v.type.shape.rank() > 0 && v.type.shape.size() > 0; });
    if (!a) return;
    add(chance(r_, 0.5) ? op::argmax : op::argmin, {*a},
        attribute_words().one(random_int(r_, 0, a->type.shape.rank() - 1)));
  }

  void library() {
    auto const numeric = [&](value const& v) {
      return v.type.type != dtype::boolean && (options_.inexact || !is_floating(v.type.type));
    };
    if (chance(r_, 0.7)) {
      std::optional<value> const a = pick(
          [&](value const& v) { return numeric(v) && v.type.shape.rank() >= 2 && v.type.shape.rank() < 6; });
      if (!a) return;
      reprise::shape const& s = a->type.shape;
      reprise::shape other{s.back(), random_int(r_, 1, 20)};
      if (chance(r_, 0.3))
        for (int axis = s.rank() - 3; axis >= 0; --axis) other.insert(0, chance(r_, 0.5) ? 1 : s[axis]);
      if (other.size() <= options_.max_elements) try_add(op::matmul, {*a, leaf({a->type.type, other})});
      return;
    }
    std::vector<dtype> types;
    for (dtype t : options_.dtypes)
      if (t != dtype::boolean && (options_.inexact || !is_floating(t))) types.push_back(t);
    if (types.empty()) return;
    dtype const type = choose(r_, types);
    std::int64_t const groups = random_int(r_, 1, 2), channels = groups * random_int(r_, 1, 3),
                       filters = groups * random_int(r_, 1, 3);
    std::int64_t const kh = random_int(r_, 1, 3), kw = random_int(r_, 1, 3);
    value const x =
        leaf({type, {random_int(r_, 1, 2), channels, random_int(r_, 5, 9), random_int(r_, 5, 9)}});
    value const w = leaf({type, {filters, channels / groups, kh, kw}});
    attribute_words a;
    a.list({random_int(r_, 1, 2), random_int(r_, 1, 2)});
    a.list({random_int(r_, 0, 2), random_int(r_, 0, 2), random_int(r_, 0, 2), random_int(r_, 0, 2)});
    a.list({random_int(r_, 1, 2), random_int(r_, 1, 2)}).one(groups);
    try_add(op::conv2d, {x, w}, a);
  }

  void movement() {
    value const v = pick();
    switch (random_int(r_, 0, 7)) {
      case 0: return reshape(v);
      case 1: return transpose(v);
      case 2: return expand(v);
      case 3: return slice(v);
      case 4: return slice_update(v);
      case 5: return concatenate(v);
      case 6: return pad(v);
      case 7: return sliding_window(v);
    }
  }

  void reshape(value const& v) {
    std::int64_t rest = v.type.shape.size();
    list shape;
    while (rest > 1 && shape.size() < 4) {
      list divisors{rest};
      for (std::int64_t d = 2; d <= 32; ++d)
        if (rest % d == 0) divisors.push_back(d);
      std::int64_t const d = choose(r_, divisors);
      shape.push_back(d);
      rest /= d;
    }
    if (rest != 1) shape.push_back(rest);
    if (chance(r_, 0.2)) shape.insert(shape.begin() + random_int(r_, 0, std::ssize(shape)), 1);
    add(op::reshape, {v}, attribute_words().list(shape));
  }

  void transpose(value const& v) {
    list axes;
    for (int axis = 0; axis < v.type.shape.rank(); ++axis)
      axes.insert(axes.begin() + random_int(r_, 0, axis), axis);
    add(op::transpose, {v}, attribute_words().list(axes));
  }

  void expand(value const& v) {
    reprise::shape to = v.type.shape;
    for (int axis = 0; axis < to.rank(); ++axis)
      if (to[axis] == 1) to[axis] = random_int(r_, 1, 9);
    if (to.rank() < 5 && chance(r_, 0.6)) to.insert(0, random_int(r_, 1, 6));
    try_add(op::broadcast_to, {v}, attribute_words().list(to));
  }

  struct range {
    list start, step, shape;
  };
  range any_range(reprise::shape const& s) {
    range all;
    for (std::int64_t extent : s) {
      std::int64_t step = random_int(r_, 1, 3),
                   count = extent == 0 || chance(r_, 0.05) ? 0 : random_int(r_, 1, extent);
      if (count > 0)
        step = std::min(step, std::max<std::int64_t>(1, (extent - 1) / std::max<std::int64_t>(1, count - 1)));
      std::int64_t const reach = count == 0 ? 0 : (count - 1) * step;
      std::int64_t const first = count == 0 ? 0 : random_int(r_, 0, extent - 1 - reach);
      bool const backward = chance(r_, 0.4);
      all.start.push_back(backward ? first + reach : first);
      all.step.push_back(backward ? -step : step);
      all.shape.push_back(count);
    }
    return all;
  }

  void slice(value const& v) {
    range const s = any_range(v.type.shape);
    add(op::slice, {v}, attribute_words().list(s.start).list(s.step).list(s.shape));
  }

  void slice_update(value const& v) {
    range const s = any_range(v.type.shape);
    tensor_type const type{v.type.type, shape_of(s.shape)};
    std::optional<value> part = pick([&](value const& x) { return x.type == type; });
    if (!part) part = leaf(type);
    add(op::slice_update, {v, *part}, attribute_words().list(s.start).list(s.step));
  }

  void concatenate(value const& v) {
    if (v.type.shape.rank() == 0) return;
    std::int64_t const axis = random_int(r_, 0, v.type.shape.rank() - 1);
    std::vector<value> parts{v};
    for (std::int64_t more = random_int(r_, 0, 2); more > 0; --more) {
      std::optional<value> part = pick([&](value const& x) {
        if (x.type.type != v.type.type || x.type.shape.rank() != v.type.shape.rank()) return false;
        for (int i = 0; i < x.type.shape.rank(); ++i)
          if (i != axis && x.type.shape[i] != v.type.shape[i]) return false;
        return true;
      });
      parts.insert(parts.begin() + random_int(r_, 0, std::ssize(parts)), *part);
    }
    try_add(op::concatenate, parts, attribute_words().one(axis));
  }

  void pad(value const& v) {
    list low, high;
    for (int axis = 0; axis < v.type.shape.rank(); ++axis) {
      low.push_back(random_int(r_, 0, 2));
      high.push_back(random_int(r_, 0, 3));
    }
    std::optional<value> frame = pick([&](value const& x) { return x.type == tensor_type{v.type.type, {}}; });
    if (!frame || chance(r_, 0.4)) frame = leaf({v.type.type, {}});
    try_add(op::pad, {v, *frame}, attribute_words().list(low).list(high));
  }

  void sliding_window(value const& v) {
    list axes, window, stride, dilation;
    for (int axis = 0; axis < v.type.shape.rank(); ++axis) {
      std::int64_t const extent = v.type.shape[axis];
      if (extent == 0 || !chance(r_, 0.6)) continue;
      std::int64_t const w = random_int(r_, 1, std::min<std::int64_t>(extent, 4));
      axes.insert(axes.begin() + random_int(r_, 0, std::ssize(axes)), axis);
      window.push_back(w);
      stride.push_back(random_int(r_, 1, 3));
      dilation.push_back(1);
    }
    if (axes.empty() || v.type.shape.rank() + std::ssize(axes) > 6) return;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      std::int64_t const extent = v.type.shape[static_cast<int>(axes[i])];
      window[i] = std::min(window[i], extent);
      if (window[i] > 1 && chance(r_, 0.4))
        dilation[i] = std::min<std::int64_t>(3, (extent - 1) / (window[i] - 1));
    }
    try_add(op::sliding_window, {v}, attribute_words().list(axes).list(window).list(stride).list(dilation));
  }

  random_options options_;
  random_engine r_;
  program p_;
  builder builder_;
  std::vector<reprise::shape> shapes_;
  std::vector<value> values_;
};

inline random_case random_program(std::uint64_t seed, random_options const& options = {}) {
  random_case c{fmt::format("random program, seed {}{}", seed, options.inexact ? "" : ", exact"), {}, {}};
  c.code = program_maker(seed, options).make();
  random_engine r(seed ^ 0x9e3779b97f4a7c15);
  // errors are bounded among moderate numbers only
  values const like = options.inexact ? values{.specials = 0, .spread = 0.5, .any_bits = 0}
                                      : values{.specials = 0.1, .spread = 2, .any_bits = 0.02};
  c.parameters = random_parameters(r, c.code, like);
  return c;
}

}  // namespace reprise::test
