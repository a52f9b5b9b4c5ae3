// Runs a program node by node. A value is freed after its last use unless every value was asked for.
#include "trace/reference.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include <fmt/format.h>

#include "trace/reference_parts.h"

namespace reprise::ir {
namespace {

void check_parameters(program const& p, std::span<host_tensor const> given) {
  if (given.size() != p.parameters.size())
    throw argument_error(fmt::format("reference: the program has {} parameters and {} were given",
                                     p.parameters.size(), given.size()));
  for (std::size_t i = 0; i < given.size(); ++i) {
    tensor_type const& want = p.parameters[i].type;
    std::size_t const bytes = static_cast<std::size_t>(want.shape.size() * size_of(want.type));
    if (given[i].type != want || given[i].bytes.size() != bytes)
      throw argument_error(fmt::format("reference: parameter {} is {} and was given {} in {} bytes", i,
                                       str(want), str(given[i].type), given[i].bytes.size()));
  }
}

host_tensor run_parameter(host_tensor const& given) {
  host_tensor value = given;
  if (value.type.type == dtype::boolean)
    for (std::int64_t i = 0; i < value.size(); ++i) value.set<bool>(i, value.get<bool>(i));
  return value;
}

std::vector<host_tensor> run(program const& p, std::span<host_tensor const> parameters, bool keep_all) {
  check_parameters(p, parameters);
  std::vector<node_id> last_use(p.nodes.size());
  for (node_id n = 0; n < p.nodes.size(); ++n) {
    last_use[n] = n;
    for (node_id operand : p.operands_of(n)) last_use[operand] = n;
  }
  for (result const& r : p.results) last_use[r.value] = no_node;

  std::vector<host_tensor> values(p.nodes.size());
  std::vector<host_tensor const*> operands;
  for (node_id n = 0; n < p.nodes.size(); ++n) {
    operands.clear();
    for (node_id operand : p.operands_of(n)) operands.push_back(&values[operand]);
    if (p.nodes[n].code == op::parameter)
      values[n] = run_parameter(parameters[static_cast<std::size_t>(p.int_of(n, "index"))]);
    else values[n] = run_reference_node(p, n, operands);
    if (keep_all) continue;
    for (node_id operand : p.operands_of(n))
      if (last_use[operand] == n) values[operand] = {};
    if (last_use[n] == n) values[n] = {};
  }
  return values;
}

}  // namespace

double host_tensor::number(std::int64_t i) const {
  return parts::with_element(type.type, [&]<class T>() { return num::convert<double>(get<T>(i)); });
}

std::int64_t host_tensor::integer(std::int64_t i) const {
  return parts::with_element(type.type, [&]<class T>() { return num::convert<std::int64_t>(get<T>(i)); });
}

std::uint64_t host_tensor::bits(std::int64_t i) const {
  std::size_t const width = static_cast<std::size_t>(size_of(type.type));
  std::uint64_t value = 0;  // little-endian hosts only, as everything here
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * width, width);
  return value;
}

void host_tensor::set_bits(std::int64_t i, std::uint64_t value) {
  std::size_t const width = static_cast<std::size_t>(size_of(type.type));
  std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width, &value, width);
}

void host_tensor::set_number(std::int64_t i, double value) {
  parts::with_element(type.type, [&]<class T>() { set<T>(i, num::convert<T>(value)); });
}

host_tensor make_tensor(tensor_type type) {
  host_tensor t{type, {}};
  t.bytes.resize(static_cast<std::size_t>(type.shape.size() * size_of(type.type)));
  return t;
}

host_tensor convert(host_tensor const& t, dtype to) {
  host_tensor out = make_tensor({to, t.type.shape});
  host_tensor const* in = &t;
  parts::cast({&in, 1}, out);
  return out;
}

host_tensor run_reference_node(program const& p, node_id n, std::span<host_tensor const* const> in) {
  node const& node = p.nodes[n];
  op_info const& row = info(node.code);
  host_tensor out = make_tensor(p.type_of(n));
  switch (row.kind) {
    case category::elementwise: parts::elementwise(node.code, in, out); break;
    case category::select: parts::select(in, out); break;
    case category::cast: parts::cast(in, out); break;
    case category::reduction: parts::reduction(node.code, p.ints_of(n, "axes"), *in[0], out); break;
    case category::arg_reduction:
      parts::arg_reduction(node.code, static_cast<int>(p.int_of(n, "axis")), *in[0], out);
      break;
    case category::movement: parts::movement(node.code, p.attributes_of(n), in, out); break;
    case category::source: parts::source(node.code, p.attributes_of(n), in, out); break;
    case category::library: parts::library(node.code, p.attributes_of(n), in, out); break;
    case category::region:
      throw unsupported_error(
          fmt::format("reference: node {} is {}: this version runs no regions", n, row.name));
  }
  return out;
}

std::vector<host_tensor> run_reference(program const& p, std::span<host_tensor const> parameters) {
  std::vector<host_tensor> values = run(p, parameters, false), results;
  for (result const& r : p.results) results.push_back(values[r.value]);
  return results;
}

std::vector<host_tensor> run_reference_all(program const& p, std::span<host_tensor const> parameters) {
  return run(p, parameters, true);
}

program widened(program const& p) {
  auto const wide = [](dtype t) { return is_floating(t) ? dtype::f64 : t; };
  program w = p;
  for (parameter& x : w.parameters) x.type.type = wide(x.type.type);
  for (node_id n = 0; n < w.nodes.size(); ++n) {
    node& x = w.nodes[n];
    std::int64_t* const attribute = w.attributes.data() + x.first_attribute;
    if (x.code == op::cast) *attribute = static_cast<std::int64_t>(wide(static_cast<dtype>(*attribute)));
    if (x.code == op::constant) {
      host_tensor value = make_tensor({x.type, {}});
      value.set_bits(0, static_cast<std::uint64_t>(*attribute));
      *attribute = static_cast<std::int64_t>(convert(value, wide(x.type)).bits(0));
    }
    x.type = wide(x.type);
  }
  for (program& region : w.regions) region = widened(region);
  return w;
}

std::vector<host_tensor> run_reference_wide(program const& p, std::span<host_tensor const> parameters) {
  check_parameters(p, parameters);
  std::vector<host_tensor> wide;
  for (host_tensor const& t : parameters)
    wide.push_back(is_floating(t.type.type) ? convert(t, dtype::f64) : t);
  return run_reference(widened(p), wide);
}

}  // namespace reprise::ir
