#include "listing.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include <reprise/error.h>

namespace reprise::cli {

namespace {

template <class T>
std::string shortest(T value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string_view role_text(ir::parameter_role role) {
  switch (role) {
    case ir::parameter_role::argument: return "";
    case ir::parameter_role::captured: return "captured";
    case ir::parameter_role::lifted: return "lifted";
  }
  return "";
}

std::string_view kind_text(ir::category kind) {
  switch (kind) {
    case ir::category::elementwise: return "elementwise";
    case ir::category::select: return "select";
    case ir::category::cast: return "cast";
    case ir::category::reduction: return "reduction";
    case ir::category::arg_reduction: return "arg reduction";
    case ir::category::movement: return "movement";
    case ir::category::source: return "source";
    case ir::category::library: return "library";
    case ir::category::region: return "region";
  }
  return "";
}

std::string_view operands_text(ir::accepts set) {
  switch (set) {
    case ir::accepts::any: return "any";
    case ir::accepts::numeric: return "numeric";
    case ir::accepts::floating: return "floating";
    case ir::accepts::integral: return "integer or bool";
    case ir::accepts::integer: return "integer";
    case ir::accepts::boolean: return "bool";
    case ir::accepts::none: return "";
  }
  return "";
}

std::string_view attribute_text(ir::attribute_kind kind) {
  switch (kind) {
    case ir::attribute_kind::integer: return "int";
    case ir::attribute_kind::integers: return "ints";
    case ir::attribute_kind::dtype: return "dtype";
    case ir::attribute_kind::scalar: return "number";
  }
  return "";
}

// Every column but the last as wide as its longest cell.
std::string aligned(std::vector<std::vector<std::string>> const& rows, std::string_view margin) {
  std::vector<std::size_t> width;
  for (auto const& row : rows) {
    if (width.size() < row.size()) width.resize(row.size());
    for (std::size_t i = 0; i + 1 < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string text;
  for (auto const& row : rows) {
    std::string line(margin);
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], width[i]) : row[i];
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string attributes_of(ir::program const& p, ir::node const& n) {
  std::string text;
  ir::words const words = p.attributes_of(n);
  std::size_t at = 0;
  for (ir::attribute const& a : ir::info(n.code).attributes) {
    std::int64_t const word = words[at++];
    switch (a.kind) {
      case ir::attribute_kind::integer: text += fmt::format(" {}={}", a.name, word); break;
      case ir::attribute_kind::integers: {
        auto const list = words.subspan(at, static_cast<std::size_t>(word));
        text += fmt::format(" {}=[{}]", a.name, fmt::join(list.begin(), list.end(), ", "));
        at += list.size();
        break;
      }
      case ir::attribute_kind::dtype:
        text += fmt::format(" {}={}", a.name, name_of(static_cast<dtype>(word)));
        break;
      case ir::attribute_kind::scalar:
        text += ' ' + element_text(n.type, static_cast<std::uint64_t>(word));
        break;
    }
  }
  return text;
}

std::string list(ir::program const& p, std::string const& margin) {
  std::string text = fmt::format("{}{} parameters, {} nodes, {} results\n{}parameters\n", margin,
                                 p.parameters.size(), p.nodes.size(), p.results.size(), margin);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    ir::parameter const& x = p.parameters[i];
    rows.push_back({std::to_string(i), x.name, ir::str(x.type), std::string(role_text(x.role))});
  }
  text += aligned(rows, margin + "  ") + margin + "nodes\n";

  rows.clear();
  std::vector<std::size_t> has_regions;
  for (std::size_t i = 0; i < p.nodes.size(); ++i) {
    ir::node const& n = p.nodes[i];
    std::string what = ir::info(n.code).name;
    if (n.operand_count > 0) {
      std::string operands;
      for (ir::node_id const o : p.operands_of(n))
        operands += fmt::format("{}%{}", operands.empty() ? "" : ", ", o);
      what += '(' + operands + ')';
    }
    what += attributes_of(p, n);
    if (n.code == ir::op::parameter) {
      auto const& name = p.parameters[static_cast<std::size_t>(p.attributes_of(n)[0])].name;
      if (!name.empty()) what += " (" + name + ')';
    }
    std::string line;
    if (n.line != 0 && n.line < p.lines.size())
      line = fmt::format("{}:{}", p.lines[n.line].file, p.lines[n.line].line);
    rows.push_back(
        {fmt::format("%{}", i), std::move(what), ir::str(p.type_of(static_cast<ir::node_id>(i))), line});
    if (n.region_count > 0) has_regions.push_back(i);
  }
  text += aligned(rows, margin + "  ");
  for (std::size_t const i : has_regions)
    for (std::uint32_t r = 0; r < p.nodes[i].region_count; ++r) {
      text += fmt::format("{}region {} of %{}\n", margin, r, i);
      text += list(p.regions[p.nodes[i].first_region + r], margin + "  ");
    }

  text += margin + "results\n";
  rows.clear();
  for (std::size_t i = 0; i < p.results.size(); ++i) {
    ir::result const& r = p.results[i];
    std::string role;
    switch (r.role) {
      case ir::result_role::returned: break;
      case ir::result_role::in_out: role = fmt::format("written back to parameter {}", r.parameter); break;
      case ir::result_role::handle: role = "an array outside the function"; break;
    }
    rows.push_back(
        {std::to_string(i), r.name, fmt::format("%{}", r.value), ir::str(p.type_of(r.value)), role});
  }
  text += aligned(rows, margin + "  ");
  if (p.segments.size() > 1) {
    text += margin + "segments\n";
    for (auto const& s : p.segments) {
      std::string reads;
      for (auto const& r : s.reads) reads += fmt::format(" %{}", r.value);
      text += fmt::format("{}  before %{}{}{}\n", margin, s.end, reads.empty() ? "" : ", then reads", reads);
    }
  }
  return text;
}

}  // namespace

ir::program read_program(std::filesystem::path const& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string const text{std::istreambuf_iterator<char>(in), {}};
  if (!in || std::filesystem::is_directory(file))
    throw format_error(
        fmt::format("{}: cannot be read: {}", file.string(), std::strerror(errno ? errno : EISDIR)));
  try {
    return ir::from_json(text);
  } catch (error const& e) { throw format_error(file.string() + ": " + e.what()); }
}

std::string listing(ir::program const& p) { return list(p, ""); }

std::string operation_table() {
  std::vector<std::vector<std::string>> rows{{"operation", "kind", "operands", "dtypes", "attributes", ""}};
  for (int i = 0; i < ir::op_count(); ++i) {
    ir::op_info const& o = ir::info(static_cast<ir::op>(i));
    std::string attributes;
    for (ir::attribute const& a : o.attributes)
      attributes += fmt::format("{}{}:{}", attributes.empty() ? "" : " ", a.name, attribute_text(a.kind));
    rows.push_back({o.name, std::string(kind_text(o.kind)), o.arity < 0 ? "1.." : std::to_string(o.arity),
                    std::string(operands_text(o.operands)), attributes, o.doc});
  }
  return aligned(rows, "");
}

std::string element_text(dtype type, std::uint64_t bits) {
  switch (type) {
    case dtype::boolean: return bits != 0 ? "true" : "false";
    case dtype::u8: return std::to_string(static_cast<std::uint8_t>(bits));
    case dtype::i32: return std::to_string(static_cast<std::int32_t>(bits));
    case dtype::i64: return std::to_string(static_cast<std::int64_t>(bits));
    case dtype::f16:
      return shortest(static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(bits))));
    case dtype::bf16:
      return shortest(static_cast<float>(bfloat16::from_bits(static_cast<std::uint16_t>(bits))));
    case dtype::f32: return shortest(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case dtype::f64: return shortest(std::bit_cast<double>(bits));
  }
  return "";
}

std::string array_text(ir::tensor_type const& type, std::span<std::byte const> data) {
  constexpr std::size_t all = 12, edge = 4;
  std::size_t const bytes = static_cast<std::size_t>(size_of(type.type)), count = data.size() / bytes;
  std::string text = ir::str(type) + ':';
  for (std::size_t i = 0; i < count; ++i) {
    if (count > all && i == edge) {
      text += " ...";
      i = count - edge;
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, data.data() + i * bytes,
                bytes);  // little-endian, like everything this library runs on
    text += ' ' + element_text(type.type, bits);
  }
  return text;
}

}  // namespace reprise::cli
