// Appending to a program, with and without value numbering. A failed append leaves the program as it was, but
// for unused words at the end of its arrays.
#include "trace/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include <reprise/error.h>

#include "trace/value_table.h"

namespace reprise::ir {
namespace {

// The types of operands without allocation for all but a wide concatenate.
class operand_types {
 public:
  operand_types(program const& p, op code, std::span<node_id const> operands) : count_(operands.size()) {
    if (count_ > few_.size()) many_.resize(count_);
    tensor_type* const types = many_.empty() ? few_.data() : many_.data();
    for (std::size_t i = 0; i < count_; ++i) {
      if (operands[i] >= p.nodes.size())
        throw argument_error(fmt::format("{}: operand {} is node {}, of {} nodes", info(code).name, i,
                                         operands[i], p.nodes.size()));
      types[i] = p.type_of(operands[i]);
    }
  }
  std::span<tensor_type const> get() const { return {many_.empty() ? few_.data() : many_.data(), count_}; }

 private:
  std::size_t count_;
  std::array<tensor_type, 4> few_;
  std::vector<tensor_type> many_;
};

node_id push(program& p, op code, tensor_type const& type, std::span<node_id const> operands,
             words attributes, std::uint32_t line) {
  if (p.nodes.size() >= no_node - 1 || p.operands.size() + operands.size() > no_node ||
      p.attributes.size() + attributes.size() > no_node)
    throw argument_error("a program has fewer than 2^32 nodes, operands and attribute words");
  node n;
  n.code = code;
  n.type = type.type;
  n.shape = type.shape;
  n.line = line;
  n.first_operand = static_cast<std::uint32_t>(p.operands.size());
  n.operand_count = static_cast<std::uint32_t>(operands.size());
  n.first_attribute = static_cast<std::uint32_t>(p.attributes.size());
  n.attribute_count = static_cast<std::uint32_t>(attributes.size());
  p.operands.insert(p.operands.end(), operands.begin(), operands.end());
  p.attributes.insert(p.attributes.end(), attributes.begin(), attributes.end());
  p.nodes.push_back(n);
  return static_cast<node_id>(p.nodes.size() - 1);
}

// Truncated and saturated, as a cast.
template <class T>
std::uint64_t integer_bits(double value) {
  using limits = std::numeric_limits<T>;
  T result = 0;
  if (value >= std::ldexp(1.0, limits::digits)) result = limits::max();
  else if (value <= static_cast<double>(limits::min())) result = limits::min();
  else if (value == value) result = static_cast<T>(value);
  return static_cast<std::make_unsigned_t<T>>(result);
}

// To f32 by rounding to odd: a second rounding to a type of at least two digits fewer is then the only one.
float round_to_odd(double value) {
  float const nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  float const down =
      std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(down) | 1u);
}

}  // namespace

node_id program::append(op code, std::span<node_id const> inputs, words words_, std::uint32_t line) {
  operand_types const types(*this, code, inputs);
  return push(*this, code, infer(code, types.get(), words_), inputs, words_, line);
}

node_id program::append_typed(op code, tensor_type const& type, words words_, std::uint32_t line) {
  if (words_.size() != 1)
    throw argument_error(fmt::format("{}: {} attribute words, not 1", info(code).name, words_.size()));
  if (code == op::parameter) {
    std::int64_t const index = words_[0];
    if (index < 0 || index >= std::ssize(parameters))
      throw argument_error(fmt::format("parameter: index {} of {} parameters", index, parameters.size()));
    tensor_type const& declared = parameters[static_cast<std::size_t>(index)].type;
    if (!(declared == type))
      throw argument_error(fmt::format("parameter {}: is {}, not {}", index, str(declared), str(type)));
    return push(*this, code, type, {}, words_, line);
  }
  if (code != op::constant)
    throw argument_error(fmt::format("{}: its operands give its type", info(code).name));
  if (type.shape.rank() != 0) throw argument_error(fmt::format("constant: {} is not of rank 0", str(type)));
  std::uint64_t const bits = static_cast<std::uint64_t>(words_[0]);
  int const width = type.type == dtype::boolean ? 1 : 8 * size_of(type.type);
  if (width < 64 && bits >> width != 0)
    throw argument_error(fmt::format("constant: {:#x} has more bits than {}", bits, name_of(type.type)));
  std::int64_t const word = static_cast<std::int64_t>(one_nan(type.type, bits));
  return push(*this, code, type, {}, {&word, 1}, line);
}

node_id program::append_region(op code, std::span<node_id const> inputs, words words_,
                               std::vector<program> nested, std::uint32_t line) {
  operand_types const types(*this, code, inputs);
  tensor_type const type = infer_region(code, types.get(), words_, nested);
  node_id const n = push(*this, code, type, inputs, words_, line);
  nodes[n].first_region = static_cast<std::uint32_t>(regions.size());
  nodes[n].region_count = static_cast<std::uint32_t>(nested.size());
  for (program& region : nested) regions.push_back(std::move(region));
  return n;
}

std::uint32_t program::add_line(std::string_view file, int line) {
  // The newest first: recording mostly stays near the line where it is.
  for (std::size_t i = lines.size(); i-- > 1;)
    if (lines[i].line == line && lines[i].file == file) return static_cast<std::uint32_t>(i);
  if (lines.empty()) lines.emplace_back();
  lines.push_back({std::string(file), line});
  return static_cast<std::uint32_t>(lines.size() - 1);
}

std::uint64_t constant_bits(dtype type, double value) {
  switch (type) {
    case dtype::boolean: return value != 0;
    case dtype::u8: return integer_bits<std::uint8_t>(value);
    case dtype::i32: return integer_bits<std::int32_t>(value);
    case dtype::i64: return integer_bits<std::int64_t>(value);
    case dtype::f16: return one_nan(type, float16(round_to_odd(value)).bits);
    case dtype::bf16: return one_nan(type, bfloat16(round_to_odd(value)).bits);
    case dtype::f32: return one_nan(type, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    case dtype::f64: return one_nan(type, std::bit_cast<std::uint64_t>(value));
  }
  return 0;
}

std::uint64_t one_nan(dtype type, std::uint64_t bits) {
  switch (type) {
    case dtype::boolean:
    case dtype::u8:
    case dtype::i32:
    case dtype::i64: return bits;
    case dtype::f16: return (bits & 0x7fff) > 0x7c00 ? 0x7e00 : bits;
    case dtype::bf16: return (bits & 0x7fff) > 0x7f80 ? 0x7fc0 : bits;
    case dtype::f32: return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits;
    case dtype::f64: return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000 ? 0x7ff8000000000000 : bits;
  }
  return bits;
}

struct builder::state {
  program& p;
  value_table table;
};

builder::builder(program& p) : state_(new state{p, {}}) {
  for (std::size_t i = 0; i < p.nodes.size(); ++i) {
    node const& n = p.nodes[i];
    if (n.region_count > 0) continue;
    value_table::candidate const c{n.code, n.type, p.operands_of(n), p.attributes_of(n)};
    if (state_->table.find(p, c) == no_node) state_->table.insert(static_cast<node_id>(i), c);
  }
}

builder::~builder() = default;

program& builder::target() { return state_->p; }

node_id builder::add(op code, std::span<node_id const> operands, words attributes, std::uint32_t line) {
  program& p = state_->p;
  operand_types const types(p, code, operands);
  tensor_type const type = infer(code, types.get(), attributes);
  value_table::candidate const c{code, type.type, operands, attributes};
  node_id n = state_->table.find(p, c);
  if (n != no_node) return n;
  n = push(p, code, type, operands, attributes, line);
  state_->table.insert(n, c);
  return n;
}

node_id builder::add(op code, std::initializer_list<node_id> operands,
                     std::initializer_list<std::int64_t> attributes) {
  return add(code, std::span<node_id const>(operands.begin(), operands.size()),
             words(attributes.begin(), attributes.size()));
}

node_id builder::parameter(tensor_type type, parameter_role role, std::string name) {
  program& p = state_->p;
  if (role == parameter_role::lifted && type.shape.rank() != 0)
    throw argument_error(
        fmt::format("P7: the lifted parameter {} is {}, not of rank 0", p.parameters.size(), str(type)));
  std::int64_t const index = std::ssize(p.parameters);
  if (name.empty()) name = std::to_string(index);
  p.parameters.push_back({type, role, std::move(name)});
  return p.append_typed(op::parameter, type, {&index, 1});
}

node_id builder::constant(dtype type, std::uint64_t bits) {
  program& p = state_->p;
  std::int64_t const word = static_cast<std::int64_t>(one_nan(type, bits));
  value_table::candidate const c{op::constant, type, {}, {&word, 1}};
  node_id n = state_->table.find(p, c);
  if (n != no_node) return n;
  n = p.append_typed(op::constant, {type, {}}, {&word, 1});
  state_->table.insert(n, c);
  return n;
}

node_id builder::constant(dtype type, double value) { return constant(type, constant_bits(type, value)); }

node_id builder::broadcast(node_id value, reprise::shape const& to) {
  program const& p = state_->p;
  if (value < p.nodes.size() && p.nodes[value].shape == to) return value;
  std::array<std::int64_t, 1 + max_rank> attributes{to.rank()};
  std::copy(to.begin(), to.end(), attributes.begin() + 1);
  return add(op::broadcast_to, std::span<node_id const>(&value, 1),
             words(attributes.data(), static_cast<std::size_t>(1 + to.rank())));
}

}  // namespace reprise::ir
