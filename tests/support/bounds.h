// How far a backend's results may be from the reference's: nothing for exact operations on exact operands, a
// row's ulps for an elementary function, docs/numbers.md's bound for a library operation, and what follows
// from those downstream, to first order and on the safe side. Where an inexact value meets an operation that
// jumps (a comparison, a floor, a cast to an integer) no bound exists and a std::logic_error says so: tests
// are to be written without that.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/build.h"
#include "support/compare.h"

namespace reprise::test {

// Of one node: a distance in ulps, or an absolute error for each element (f64; infinite: anything goes);
// neither: the same bits.
struct error_bound {
  std::int64_t ulps = 0;
  std::optional<host_tensor> absolute;
  bool exact() const { return ulps == 0 && !absolute; }
  tolerance allowed() const { return {ulps, absolute ? &*absolute : nullptr}; }
};

namespace bounds_detail {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

struct format {
  int digits, lowest_exponent;
  double largest;
};
inline format format_of(dtype t) {
  if (t == dtype::f16) return {11, -14, 65504};
  if (t == dtype::bf16) return {8, -126, 0x1.fep127};
  if (t == dtype::f32) return {24, -126, std::numeric_limits<float>::max()};
  return {53, -1022, std::numeric_limits<double>::max()};
}

// One unit in the last place of a value of the dtype, never too small.
inline double unit(dtype t, double value) {
  if (!std::isfinite(value)) return infinity;
  format const f = format_of(t);
  int const exponent = value == 0 ? f.lowest_exponent : std::max(std::ilogb(value) + 1, f.lowest_exponent);
  return std::ldexp(1.0, exponent - (f.digits - 1));
}

inline host_tensor absolute_of(error_bound const& b, host_tensor const& value) {
  if (b.absolute) return *b.absolute;
  host_tensor e = make_tensor(tensor_type{dtype::f64, value.type.shape});
  if (b.ulps != 0)
    for (std::int64_t i = 0; i < e.size(); ++i)
      e.set<double>(i, static_cast<double>(b.ulps) * unit(value.type.type, value.number(i)));
  return e;
}

// The error of an elementwise result from values v and errors e of its operands, without its own rounding.
inline double spread(op code, double const* v, double const* e, double result) {
  switch (code) {
    case op::add:
    case op::sub: return e[0] + e[1];
    case op::mul: return std::fabs(v[0]) * e[1] + std::fabs(v[1]) * e[0] + e[0] * e[1];
    case op::div:
      return std::fabs(v[1]) <= e[1] ? infinity
                                     : (e[0] + std::fabs(result) * e[1]) / (std::fabs(v[1]) - e[1]);
    case op::neg:
    case op::abs:
    case op::relu: return e[0];
    case op::minimum:
    case op::maximum: return std::max(e[0], e[1]);
    case op::clip: return std::max({e[0], e[1], e[2]});
    case op::sqrt: return v[0] < e[0] ? infinity : std::sqrt(v[0]) - std::sqrt(v[0] - e[0]);
    case op::rsqrt: return v[0] <= e[0] ? infinity : 1 / std::sqrt(v[0] - e[0]) - 1 / std::sqrt(v[0]);
    case op::exp: return std::fabs(result) * std::expm1(e[0]);
    case op::expm1: return (std::fabs(result) + 1) * std::expm1(e[0]);
    case op::log: return v[0] <= e[0] ? infinity : e[0] / (v[0] - e[0]);
    case op::log1p: return 1 + v[0] <= e[0] ? infinity : e[0] / (1 + v[0] - e[0]);
    case op::sin:
    case op::cos:
    case op::tanh:
    case op::sigmoid: return e[0];
    case op::erf:
    case op::gelu:
    case op::gelu_tanh: return 1.14 * e[0];  // the steepest slope of the three is 1.1290
    default: break;
  }
  throw std::logic_error(std::string("no error bound: an inexact operand of ") + ir::info(code).name);
}

class maker {
 public:
  maker(program const& p, std::vector<host_tensor> const& values)
      : p_(p), wide_(widened(p)), values_(values) {}

  std::vector<error_bound> run() {
    for (node_id n = 0; n < p_.nodes.size(); ++n) bounds_.push_back(bound(n));
    return std::move(bounds_);
  }

 private:
  bool floating(node_id n) const { return is_floating(p_.nodes[n].type); }
  error_bound const& of(node_id n) const { return bounds_[n]; }
  host_tensor error_of(node_id n) const { return absolute_of(of(n), values_[n]); }

  host_tensor magnitude_of(node_id n) const {
    host_tensor m = convert(values_[n], dtype::f64);
    for (std::int64_t i = 0; i < m.size(); ++i) m.set<double>(i, std::fabs(m.get<double>(i)));
    return m;
  }

  // The node, or another operation with its attributes, on other values in f64.
  host_tensor on(node_id n, std::vector<host_tensor> const& operands, std::optional<op> instead = {}) {
    std::vector<host_tensor const*> in;
    for (host_tensor const& t : operands) in.push_back(&t);
    op const own = std::exchange(wide_.nodes[n].code, instead.value_or(p_.nodes[n].code));
    host_tensor result = run_reference_node(wide_, n, in);
    wide_.nodes[n].code = own;
    return result;
  }

  error_bound bound(node_id n) {
    ir::node const& x = p_.nodes[n];
    auto const operands = p_.operands_of(n);
    bool const exact =
        std::all_of(operands.begin(), operands.end(), [&](node_id o) { return of(o).exact(); });
    if (x.code == op::matmul || x.code == op::conv2d)
      return floating(n) ? finished(n, library(n), 1) : error_bound{};
    if (exact) return {allowed_ulps(x.code, p_.nodes[operands.empty() ? n : operands[0]].type), {}};
    if (keeps_values(x.code)) {
      error_bound most;
      bool some_absolute = false;
      for (node_id o : operands) {
        most.ulps = std::max(most.ulps, of(o).ulps);
        some_absolute |= of(o).absolute.has_value();
      }
      if (x.code == op::where && !of(operands[0]).exact())
        throw std::logic_error("no error bound: an inexact condition");
      return some_absolute ? moved(n) : most;
    }
    switch (ir::info(x.code).kind) {
      case ir::category::elementwise: return elementwise(n);
      case ir::category::cast:
        if (!floating(n)) break;
        return finished(n, error_of(operands[0]), 1);
      case ir::category::reduction: return reduction(n);
      case ir::category::select:
      case ir::category::arg_reduction:
      case ir::category::movement:
      case ir::category::source:
      case ir::category::library:
      case ir::category::region: break;
    }
    throw std::logic_error(std::string("no error bound: an inexact operand of ") + ir::info(x.code).name);
  }

  static bool keeps_values(op code) {
    return code == op::neg || code == op::abs || code == op::where ||
           ir::info(code).kind == ir::category::movement;
  }

  error_bound moved(node_id n) {
    if (p_.nodes[n].code == op::neg || p_.nodes[n].code == op::abs)
      return {0, error_of(p_.operands_of(n)[0])};
    std::vector<host_tensor> errors;
    for (node_id o : p_.operands_of(n))
      errors.push_back(p_.nodes[n].code == op::where && errors.empty() ? values_[o] : error_of(o));
    return {0, on(n, errors)};
  }

  // Adds the node's own rounding, and gives up where the result may have overflowed.
  error_bound finished(node_id n, host_tensor error, double units) {
    dtype const type = p_.nodes[n].type;
    for (std::int64_t i = 0; i < error.size(); ++i) {
      double const value = values_[n].number(i), e = error.get<double>(i) + units * unit(type, value);
      error.set<double>(i, std::fabs(value) + e < format_of(type).largest ? e : infinity);
    }
    return {0, std::move(error)};
  }

  error_bound elementwise(node_id n) {
    auto const operands = p_.operands_of(n);
    std::vector<host_tensor> errors;
    for (node_id o : operands) errors.push_back(error_of(o));
    host_tensor out = make_tensor(tensor_type{dtype::f64, p_.nodes[n].shape});
    for (std::int64_t i = 0; i < out.size(); ++i) {
      double v[3] = {}, e[3] = {};
      for (std::size_t k = 0; k < operands.size(); ++k) {
        std::int64_t const at = p_.nodes[operands[k]].shape.rank() == 0 ? 0 : i;
        v[k] = values_[operands[k]].number(at);
        e[k] = errors[k].get<double>(at);
      }
      out.set<double>(i, spread(p_.nodes[n].code, v, e, values_[n].number(i)));
    }
    double const own = static_cast<double>(allowed_ulps(p_.nodes[n].code, p_.nodes[n].type));
    // one unit for the rounding of either result, on top of what the row allows at the shifted operand
    return finished(n, std::move(out), 2 * own + 1);
  }

  error_bound reduction(node_id n) {
    node_id const from = p_.operands_of(n)[0];
    op const code = p_.nodes[n].code;
    host_tensor const errors = error_of(from);
    if (code == op::max || code == op::min) return finished(n, on(n, {errors}, op::max), 0);
    if (code != op::sum) throw std::logic_error("no error bound: an inexact operand of prod");
    host_tensor sum = on(n, {errors});
    host_tensor const sizes = on(n, {magnitude_of(from)});
    std::int64_t const count = values_[from].size() / std::max<std::int64_t>(sum.size(), 1);
    // no element goes through more than 128 additions and the tree over their sums
    double const steps = static_cast<double>(std::min<std::int64_t>(count, 160));
    double const epsilon = p_.nodes[n].type == dtype::f64 ? 0x1p-52 : 0x1p-23;
    for (std::int64_t i = 0; i < sum.size(); ++i)
      sum.set<double>(i, sum.get<double>(i) + steps * epsilon * (sizes.get<double>(i) + sum.get<double>(i)));
    return finished(n, std::move(sum), 1);
  }

  // |a| eb + ea |b| + ea eb, and the operation's own bound.
  host_tensor library(node_id n) {
    node_id const a = p_.operands_of(n)[0], b = p_.operands_of(n)[1];
    host_tensor const va = magnitude_of(a), vb = magnitude_of(b), ea = error_of(a), eb = error_of(b);
    host_tensor total = on(n, {va, vb});
    reprise::shape const& weights = p_.nodes[b].shape;
    std::int64_t const k =
        p_.nodes[n].code == op::matmul ? p_.nodes[a].shape.back() : weights[1] * weights[2] * weights[3];
    double const own = static_cast<double>(k + 8) * (p_.nodes[n].type == dtype::f64 ? 0x1p-53 : 0x1p-24);
    host_tensor const left = on(n, {ea, vb}), right = on(n, {va, eb}), both = on(n, {ea, eb});
    for (std::int64_t i = 0; i < total.size(); ++i) {
      double const inherited = left.get<double>(i) + right.get<double>(i) + both.get<double>(i);
      total.set<double>(i, inherited + own * (total.get<double>(i) + inherited));
    }
    return total;
  }

  program const& p_;
  program wide_;
  std::vector<host_tensor> const& values_;
  std::vector<error_bound> bounds_;
};

}  // namespace bounds_detail

// For each node; `values` are run_reference_all's.
inline std::vector<error_bound> error_bounds(program const& p, std::vector<host_tensor> const& values) {
  return bounds_detail::maker(p, values).run();
}

// What is wrong with a backend's results, in words; empty: nothing.
inline std::string check_results(program const& p, std::span<host_tensor const> parameters,
                                 std::span<host_tensor const> got) {
  if (got.size() != p.results.size()) return fmt::format("{} results, not {}", got.size(), p.results.size());
  std::vector<host_tensor> const values = run_reference_all(p, parameters);
  std::vector<error_bound> const bounds = error_bounds(p, values);
  std::string text;
  for (std::size_t i = 0; i < got.size(); ++i) {
    node_id const n = p.results[i].value;
    std::string const wrong = difference(got[i], values[n], bounds[n].allowed());
    if (!wrong.empty())
      text += fmt::format("result {} (node {}, {}): {}\n", i, n, ir::info(p.nodes[n].code).name, wrong);
  }
  return text;
}

}  // namespace reprise::test
