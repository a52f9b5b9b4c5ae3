// Elementwise rows: the `reference` column of ops.def, element by element. Halves compute in float and are
// rounded once; a row with an allowance of ulps is evaluated one precision up, so that what is stored is the
// true value, rounded.
#include <cmath>
#include <concepts>
#include <type_traits>

#include <fmt/format.h>

#include "trace/reference_parts.h"

namespace reprise::ir::parts {
namespace {

// The type that a row is evaluated in.
template <class C, int ulps>
using evaluated_t = std::conditional_t<!std::is_floating_point_v<C> || ulps == 0, C,
                                       std::conditional_t<std::same_as<C, float>, double, long double>>;

template <int arity, accepts set, result_rule rule, int ulps, class F>
void apply(char const* name, F row, operands in, host_tensor& out) {
  with_element(in[0]->type.type, [&]<class T>() {
    if constexpr (!takes<set, T>()) {
      throw argument_error(fmt::format("reference: {} does not take {}", name, name_of(dtype_v<T>)));
    } else {
      using C = num::compute_t<T>;
      using W = evaluated_t<C, ulps>;
      // an operand of rank 0 stands for every element
      auto const operand = [&](int k, std::int64_t i) {
        if (k >= arity) return W(0);
        host_tensor const& t = *in[static_cast<std::size_t>(k)];
        return static_cast<W>(static_cast<C>(t.get<T>(t.type.shape.rank() == 0 ? 0 : i)));
      };
      for (std::int64_t i = 0; i < out.size(); ++i) {
        auto const value = row(operand(0, i), operand(1, i), operand(2, i));
        if constexpr (rule == result_rule::boolean) out.set<bool>(i, value);
        else out.set<T>(i, static_cast<T>(static_cast<C>(value)));
      }
    }
  });
}

}  // namespace

void elementwise(op code, operands in, host_tensor& out) {
  switch (code) {
#define ELEMENTWISE(id, arity, takes, result, ulps, reference, kernel, doc)                                  \
  case op::id:                                                                                               \
    return apply<arity, accepts::takes, result_rule::result, ulps>(                                          \
        #id,                                                                                                 \
        []([[maybe_unused]] auto a, [[maybe_unused]] auto b, [[maybe_unused]] auto c) { return reference; }, \
        in, out);
#define SELECT(id, doc) \
  case op::id: break;
#define CAST(id, attributes, doc) \
  case op::id: break;
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc) \
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
  throw argument_error(fmt::format("reference: {} is not elementwise", info(code).name));
}

void select(operands in, host_tensor& out) {
  auto const at = [](host_tensor const& t, std::int64_t i) { return t.type.shape.rank() == 0 ? 0 : i; };
  for (std::int64_t i = 0; i < out.size(); ++i) {
    host_tensor const& chosen = in[0]->get<bool>(at(*in[0], i)) ? *in[1] : *in[2];
    out.set_bits(i, chosen.bits(at(chosen, i)));
  }
}

void cast(operands in, host_tensor& out) {
  with_element(in[0]->type.type, [&]<class From>() {
    with_element(out.type.type, [&]<class To>() {
      for (std::int64_t i = 0; i < out.size(); ++i) out.set<To>(i, num::convert<To>(in[0]->get<From>(i)));
    });
  });
}

}  // namespace reprise::ir::parts
