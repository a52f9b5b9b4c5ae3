// A program as JSON: one line a node, so that a person can read it and a line-wise diff says something.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include <reprise/error.h>

#include "trace/program.h"

namespace reprise::ir {
namespace {

// A string literal; what is not UTF-8 (a file name may be anything) becomes U+FFFD.
std::string quoted(std::string const& s) {
  return nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The shortest digits that read back as the same number; always with a point or an exponent, so that -0 keeps
// its sign.
template <class T>
std::string floating_text(T value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char buffer[64];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

std::string scalar_text(dtype type, std::uint64_t bits) {
  switch (type) {
    case dtype::boolean: return bits != 0 ? "true" : "false";
    case dtype::u8: return std::to_string(static_cast<std::uint8_t>(bits));
    case dtype::i32: return std::to_string(static_cast<std::int32_t>(bits));
    case dtype::i64: return std::to_string(static_cast<std::int64_t>(bits));
    case dtype::f16:
      return floating_text(static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(bits))));
    case dtype::bf16:
      return floating_text(static_cast<float>(bfloat16::from_bits(static_cast<std::uint16_t>(bits))));
    case dtype::f32: return floating_text(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case dtype::f64: return floating_text(std::bit_cast<double>(bits));
  }
  return "0";
}

char const* name_of(parameter_role role) {
  switch (role) {
    case parameter_role::argument: return "argument";
    case parameter_role::captured: return "captured";
    case parameter_role::lifted: return "lifted";
  }
  return "?";
}

char const* name_of(result_role role) {
  switch (role) {
    case result_role::returned: return "returned";
    case result_role::in_out: return "in_out";
    case result_role::handle: return "handle";
  }
  return "?";
}

class writer {
 public:
  std::string take() { return std::move(text_); }

  void write(program const& p, int depth) {
    if (depth > max_nesting) throw argument_error("P10: regions are nested more than 64 deep");
    std::string const margin(static_cast<std::size_t>(4 * depth), ' ');
    std::vector<std::string> lines(p.lines.size());
    for (std::size_t i = 1; i < lines.size(); ++i)
      lines[i] = quoted(fmt::format("{}:{}", p.lines[i].file, std::max(p.lines[i].line, 0)));
    text_ += "{\n";
    if (depth == 0) text_ += "  \"reprise\": 1,\n";
    list(margin, "parameters", p.parameters.size(), [&](std::size_t i) { write_parameter(p.parameters[i]); });
    text_ += ",\n";
    list(margin, "nodes", p.nodes.size(), [&](std::size_t i) { write_node(p, i, lines, depth); });
    text_ += ",\n";
    list(margin, "results", p.results.size(), [&](std::size_t i) { write_result(p.results[i]); });
    bool const plain =
        p.segments.size() == 1 && p.segments[0].reads.empty() && p.segments[0].end == p.nodes.size();
    if (!plain) {
      text_ += ",\n";
      list(margin, "segments", p.segments.size(), [&](std::size_t i) { write_segment(p, p.segments[i]); });
    }
    text_ += "\n" + margin + "}";
  }

 private:
  template <class F>
  void list(std::string const& margin, char const* key, std::size_t count, F&& write_one) {
    put("{}  \"{}\": [", margin, key);
    for (std::size_t i = 0; i < count; ++i) {
      put("{}\n{}    ", i == 0 ? "" : ",", margin);
      write_one(i);
    }
    put("{}]", count == 0 ? "" : "\n" + margin + "  ");
  }

  void write_parameter(parameter const& x) {
    put("{{\"name\": {}, \"dtype\": \"{}\", \"shape\": [{}]", quoted(x.name), reprise::name_of(x.type.type),
        fmt::join(x.type.shape, ", "));
    if (x.role != parameter_role::argument) put(", \"role\": \"{}\"", name_of(x.role));
    text_ += "}";
  }

  void write_node(program const& p, std::size_t id, std::vector<std::string> const& lines, int depth) {
    node const& n = p.nodes[id];
    put("{{\"id\": {}, \"op\": \"{}\"", id, info(n.code).name);
    if (n.operand_count > 0) put(", \"in\": [{}]", fmt::join(p.operands_of(n), ", "));
    words const attributes = p.attributes_of(n);
    std::size_t at = 0;
    for (attribute const& a : info(n.code).attributes) {
      std::int64_t const word = attributes[at++];
      words const values =
          attributes.subspan(at, a.kind == attribute_kind::integers ? static_cast<std::size_t>(word) : 0);
      at += values.size();
      // A dtype or shape among the attributes is the node's own, which every node has below.
      if (a.name == "dtype" || a.name == "shape") continue;
      switch (a.kind) {
        case attribute_kind::integer: put(", \"{}\": {}", a.name, word); break;
        case attribute_kind::integers:
          put(", \"{}\": [{}]", a.name, fmt::join(values.begin(), values.end(), ", "));
          break;
        case attribute_kind::dtype:
          put(", \"{}\": \"{}\"", a.name, reprise::name_of(static_cast<dtype>(word)));
          break;
        case attribute_kind::scalar:
          put(", \"{}\": {}", a.name, scalar_text(n.type, static_cast<std::uint64_t>(word)));
          break;
      }
    }
    put(", \"dtype\": \"{}\", \"shape\": [{}]", reprise::name_of(n.type), fmt::join(n.shape, ", "));
    if (n.line != 0 && n.line < lines.size()) put(", \"line\": {}", lines[n.line]);
    if (n.region_count > 0) {
      text_ += ", \"regions\": [";
      for (std::uint32_t i = 0; i < n.region_count; ++i) {
        if (i > 0) text_ += ", ";
        write(p.regions[n.first_region + i], depth + 1);
      }
      text_ += "]";
    }
    text_ += "}";
  }

  void write_result(result const& r) {
    put("{{\"node\": {}, \"name\": {}", r.value, quoted(r.name));
    if (r.role != result_role::returned) put(", \"role\": \"{}\"", name_of(r.role));
    if (r.role == result_role::in_out) put(", \"parameter\": {}", r.parameter);
    text_ += "}";
  }

  void write_segment(program const& p, segment const& s) {
    put("{{\"end\": {}, \"reads\": [", s.end);
    for (std::size_t i = 0; i < s.reads.size(); ++i) {
      read const& r = s.reads[i];
      put("{}{{\"node\": {}, \"seen\": [", i == 0 ? "" : ", ", r.value);
      int const digits = 2 * size_of(p.nodes[r.value].type);
      for (std::size_t k = 0; k < r.seen.size(); ++k)
        put("{}\"0x{:0{}x}\"", k == 0 ? "" : ", ", r.seen[k], digits);
      text_ += "]}";
    }
    text_ += "]}";
  }

  template <class... A>
  void put(fmt::format_string<A...> format, A&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<A>(values)...);
  }

  std::string text_;
};

}  // namespace

std::string to_json(program const& p) {
  writer w;
  w.write(p, 0);
  return w.take() + "\n";
}

}  // namespace reprise::ir
