// Reductions in the order of docs/numbers.md: lanes where the last axis is reduced, runs otherwise, and the
// tree over either. The order is kept for every row, though only floating sums and products depend on it.
#include <algorithm>
#include <iterator>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "trace/reference_parts.h"

namespace reprise::ir::parts {
namespace {

constexpr std::int64_t block = 4096, lane_count = 128, run = 128;

// Adds the upper half to the lower one until one is left; `values` is used up.
template <class A, class F, class Values>
A tree(F combine, Values& values) {
  std::size_t m = std::size(values);
  while (m > 1) {
    std::size_t const h = (m + 1) / 2;
    for (std::size_t i = 0; i < m - h; ++i) values[i] = combine(A(values[i]), A(values[i + h]));
    m = h;
  }
  return values[0];
}

// e(i) is the i-th element. Lanes start at the identity, which changes nothing.
template <class A, class F, class E>
A lanes(F combine, A identity, std::int64_t n, E e) {
  std::vector<A> blocks;
  for (std::int64_t first = 0; first < n; first += block) {
    A lane[lane_count];
    std::fill(lane, lane + lane_count, identity);
    std::int64_t const end = std::min(first + block, n);
    for (std::int64_t i = first; i < end; ++i)
      lane[(i - first) % lane_count] = combine(lane[(i - first) % lane_count], e(i));
    blocks.push_back(tree<A>(combine, lane));
  }
  return tree<A>(combine, blocks);
}

template <class A, class F, class E>
A runs(F combine, std::int64_t n, E e) {
  std::vector<A> sums;
  for (std::int64_t first = 0; first < n; first += run) {
    A sum = e(first);
    for (std::int64_t i = first + 1; i < std::min(first + run, n); ++i) sum = combine(sum, e(i));
    sums.push_back(sum);
  }
  return tree<A>(combine, sums);
}

// What changes nothing when combined: -0 for a sum.
template <class A>
A neutral(identity_value identity) {
  switch (identity) {
    case identity_value::none: break;
    case identity_value::zero: return std::is_floating_point_v<A> ? -A(0) : A(0);
    case identity_value::one: return A(1);
    case identity_value::lowest:
      return std::is_floating_point_v<A> ? -std::numeric_limits<A>::infinity()
                                         : std::numeric_limits<A>::lowest();
    case identity_value::highest:
      return std::is_floating_point_v<A> ? std::numeric_limits<A>::infinity() : std::numeric_limits<A>::max();
  }
  throw argument_error("reference: a reduction without an identity");
}

// Where the elements of a reduction lie in its operand.
struct layout {
  std::vector<std::int64_t> kept,
      reduced;  // offsets of the first element of each result; of each element from there
  bool last = false;
};

layout layout_of(words axes, host_tensor const& in) {
  reprise::shape const& shape = in.type.shape;
  std::vector<std::int64_t> const strides = strides_of(shape);
  std::vector<std::int64_t> extents[2], steps[2];
  for (int axis = 0; axis < shape.rank(); ++axis) {
    bool const reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    extents[reduced].push_back(shape[axis]);
    steps[reduced].push_back(strides[static_cast<std::size_t>(axis)]);
  }
  bool const last = std::find(axes.begin(), axes.end(), shape.rank() - 1) != axes.end();
  return {offsets(extents[0], steps[0]), offsets(extents[1], steps[1]), last};
}

template <accepts set, result_rule rule, class F>
void reduce(char const* name, identity_value identity, F combine, words axes, host_tensor const& in,
            host_tensor& out) {
  layout const at = layout_of(axes, in);
  std::int64_t const n = std::ssize(at.reduced);
  with_element(in.type.type, [&]<class T>() {
    if constexpr (!takes<set, T>()) {
      throw argument_error(fmt::format("reference: {} does not take {}", name, name_of(dtype_v<T>)));
    } else {
      using C = num::compute_t<T>;
      // accumulates in A, gives R
      using A =
          std::conditional_t<rule == result_rule::summed && !std::is_floating_point_v<C>, std::int64_t, C>;
      using R =
          std::conditional_t<rule == result_rule::summed && !std::is_floating_point_v<C>, std::int64_t, T>;
      A const start = neutral<A>(identity);
      for (std::size_t r = 0; r < at.kept.size(); ++r) {
        auto const e = [&, first = at.kept[r]](std::int64_t i) {
          return static_cast<A>(static_cast<C>(in.get<T>(first + at.reduced[static_cast<std::size_t>(i)])));
        };
        A value = static_cast<A>(start + A(0));  // of nothing: +0, not -0
        if (n != 0) value = at.last ? lanes<A>(combine, start, n, e) : runs<A>(combine, n, e);
        out.set<R>(static_cast<std::int64_t>(r), static_cast<R>(value));
      }
    }
  });
}

bool larger(auto a, auto b) { return a > b; }
bool smaller(auto a, auto b) { return a < b; }

template <class F>
void first_best(F better, int axis, host_tensor const& in, host_tensor& out) {
  std::int64_t const axes[] = {axis};
  layout const at = layout_of(axes, in);
  with_element(in.type.type, [&]<class T>() {
    using C = num::compute_t<T>;
    for (std::size_t r = 0; r < at.kept.size(); ++r) {
      auto const e = [&](std::size_t i) { return static_cast<C>(in.get<T>(at.kept[r] + at.reduced[i])); };
      std::size_t best = 0;
      for (std::size_t i = 1; i < at.reduced.size(); ++i) {
        if (e(best) != e(best)) break;  // the first nan wins
        if (better(e(i), e(best)) || e(i) != e(i)) best = i;
      }
      out.set<std::int64_t>(static_cast<std::int64_t>(r), static_cast<std::int64_t>(best));
    }
  });
}

}  // namespace

void reduction(op code, words axes, host_tensor const& in, host_tensor& out) {
  switch (code) {
#define REDUCTION(id, takes, result, identity, reference, kernel, doc) \
  case op::id:                                                         \
    return reduce<accepts::takes, result_rule::result>(                \
        #id, identity_value::identity, [](auto a, auto b) { return reference; }, axes, in, out);
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc) \
  case op::id: break;
#define SELECT(id, doc) \
  case op::id: break;
#define CAST(id, attributes, doc) \
  case op::id: break;
#define ARG_REDUCTION(id, better, doc) \
  case op::id: break;
#define MOVEMENT(id, arity, attributes, doc) \
  case op::id: break;
#define SOURCE(id, arity, attributes, doc) \
  case op::id: break;
#define LIBRARY(id, arity, attributes, doc) \
  case op::id: break;
#define REGION(id, attributes, doc) \
  case op::id: break;
#include <reprise/ops.def>
#undef ELEMENTWISE
#undef SELECT
#undef CAST
#undef REDUCTION
#undef ARG_REDUCTION
#undef MOVEMENT
#undef SOURCE
#undef LIBRARY
#undef REGION
  }
  throw argument_error(fmt::format("reference: {} is not a reduction", info(code).name));
}

void arg_reduction(op code, int axis, host_tensor const& in, host_tensor& out) {
  switch (code) {
#define ARG_REDUCTION(id, better, doc) \
  case op::id: return first_best([](auto a, auto b) { return better(a, b); }, axis, in, out);
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc) \
  case op::id: break;
#define SELECT(id, doc) \
  case op::id: break;
#define CAST(id, attributes, doc) \
  case op::id: break;
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc) \
  case op::id: break;
#define MOVEMENT(id, arity, attributes, doc) \
  case op::id: break;
#define SOURCE(id, arity, attributes, doc) \
  case op::id: break;
#define LIBRARY(id, arity, attributes, doc) \
  case op::id: break;
#define REGION(id, attributes, doc) \
  case op::id: break;
#include <reprise/ops.def>
#undef ELEMENTWISE
#undef SELECT
#undef CAST
#undef REDUCTION
#undef ARG_REDUCTION
#undef MOVEMENT
#undef SOURCE
#undef LIBRARY
#undef REGION
  }
  throw argument_error(fmt::format("reference: {} is not argmax or argmin", info(code).name));
}

}  // namespace reprise::ir::parts
