// The rule of region nodes (P10): which regions each takes and how their parameters and results fit its
// operands.
#include <fmt/format.h>

#include "trace/infer.h"
#include "trace/program.h"

namespace reprise::ir {
namespace {

tensor_type result_type(program const& region, std::size_t i) {
  return region.type_of(region.results[i].value);
}

// A region's parameters are the operands, one for one.
void check_parameters(call const& c, program const& region, char const* which,
                      std::span<tensor_type const> arguments) {
  if (region.parameters.size() != arguments.size())
    refuse(c,
           fmt::format("the {} has {} parameters, not {}", which, region.parameters.size(), arguments.size()),
           10);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (!(region.parameters[i].type == arguments[i]))
      refuse(c,
             fmt::format("parameter {} of the {} is {}, its operand is {}", i, which,
                         str(region.parameters[i].type), str(arguments[i])),
             10);
  for (result const& r : region.results)
    if (r.value >= region.nodes.size()) refuse(c, fmt::format("a result of the {} names no node", which), 10);
}

void check_condition(call const& c, program const& region) {
  check_parameters(c, region, "condition", c.operands);
  if (region.results.size() != 1 || !(result_type(region, 0) == tensor_type{dtype::boolean, {}}))
    refuse(c, "the condition does not give one boolean of rank 0", 10);
}

// A loop or choice of several arrays is one node for each of them, told apart by this attribute alone.
std::size_t chosen(call const& c, std::size_t results) {
  std::int64_t const r = c.integer("result");
  if (r < 0 || r >= static_cast<std::int64_t>(results))
    refuse(c, fmt::format("result {} of regions that have {}", r, results), 10);
  return static_cast<std::size_t>(r);
}

tensor_type check_body(call const& c, program const& region) {
  check_parameters(c, region, "body", c.operands);
  if (region.results.empty() || region.results.size() > c.operands.size())
    refuse(c,
           fmt::format("the body has {} results for {} operands", region.results.size(), c.operands.size()),
           10);
  for (std::size_t i = 0; i < region.results.size(); ++i)
    if (!(result_type(region, i) == c.operands[i]))
      refuse(c,
             fmt::format("result {} of the body is {}, its operand is {}", i, str(result_type(region, i)),
                         str(c.operands[i])),
             10);
  return c[chosen(c, region.results.size())];
}

void check_count(call const& c, std::span<program const> regions, std::size_t count) {
  if (regions.size() != count) refuse(c, fmt::format("has {} regions, not {}", regions.size(), count), 10);
}

tensor_type infer_cond(call const& c, std::span<program const> regions) {
  check_count(c, regions, 2);
  if (!(c[0] == tensor_type{dtype::boolean, {}})) refuse(c, "the condition is not a boolean of rank 0", 10);
  for (int i = 0; i < 2; ++i) {
    char const* which = i == 0 ? "first region" : "second region";
    program const& region = regions[static_cast<std::size_t>(i)];
    check_parameters(c, region, which, c.operands.subspan(1));
  }
  if (regions[0].results.size() != regions[1].results.size())
    refuse(c,
           fmt::format("the regions have {} and {} results", regions[0].results.size(),
                       regions[1].results.size()),
           10);
  for (std::size_t i = 0; i < regions[0].results.size(); ++i)
    if (!(result_type(regions[0], i) == result_type(regions[1], i)))
      refuse(c,
             fmt::format("result {} of the regions is {} and {}", i, str(result_type(regions[0], i)),
                         str(result_type(regions[1], i))),
             10);
  return result_type(regions[0], chosen(c, regions[0].results.size()));
}

tensor_type infer_while_loop(call const& c, std::span<program const> regions) {
  check_count(c, regions, 2);
  check_condition(c, regions[0]);
  return check_body(c, regions[1]);
}

tensor_type infer_repeat(call const& c, std::span<program const> regions) {
  check_count(c, regions, 1);
  if (c.integer("count") < 0) refuse(c, fmt::format("count is {}", c.integer("count")), 10);
  return check_body(c, regions[0]);
}

}  // namespace

tensor_type infer_region(op code, std::span<tensor_type const> operands, words attributes,
                         std::span<program const> regions) {
  call const c{info(code), operands, attributes};
  check_call(c);
#define ELEMENTWISE(id, arity, accepts, result, ulps, reference, kernel, doc)
#define SELECT(id, doc)
#define CAST(id, attributes, doc)
#define REDUCTION(id, accepts, result, identity, reference, kernel, doc)
#define ARG_REDUCTION(id, better, doc)
#define MOVEMENT(id, arity, attributes, doc)
#define SOURCE(id, arity, attributes, doc)
#define LIBRARY(id, arity, attributes, doc)
#define REGION(id, attributes, doc) \
  if (code == op::id) return infer_##id(c, regions);
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
  refuse(c, "takes no regions", 10);
}

}  // namespace reprise::ir
