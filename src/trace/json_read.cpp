// JSON to a program. dtypes and shapes of nodes may be left out where infer() gives them; what is there must
// agree. Unknown keys are errors, so a misspelt one is never ignored.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>

#include <reprise/error.h>

#include "trace/json_tree.h"
#include "trace/program.h"

namespace reprise::ir {
namespace {

using json::item;
using json::kind;

std::uint64_t whole_bits(item const& at, std::int64_t low, std::int64_t high, std::uint64_t mask) {
  return static_cast<std::uint64_t>(at.integer(low, high)) & mask;
}

// False: too large, or too small to be anything but 0.
template <class T>
bool parse_digits(std::string_view digits, T& value) {
  return std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc();
}

// Digits to a value that the dtype takes without a second rounding where it can hold it.
double real_value(std::string_view digits, dtype type) {
  if (float once = 0; type == dtype::f32 && parse_digits(digits, once)) return once;
  if (double once = 0; parse_digits(digits, once)) return once;
  return digits.starts_with('-') ? -0.0 : 0.0;  // the parser has refused what is too large for f64
}

// A number, or "nan", "inf", "-inf", rounded once.
std::uint64_t floating_bits(item const& at, dtype type) {
  double value = 0;
  bool from_word = false;
  switch (at.kind()) {
    case kind::text: {
      std::string_view const word = at.text();
      if (word == "nan") value = std::numeric_limits<double>::quiet_NaN();
      else if (word == "inf") value = std::numeric_limits<double>::infinity();
      else if (word == "-inf") value = -std::numeric_limits<double>::infinity();
      else at.fail(fmt::format("\"{}\" is neither a number nor \"nan\", \"inf\" or \"-inf\"", word));
      from_word = true;
      break;
    }
    case kind::real: value = real_value(at.digits(), type); break;
    case kind::integer: {
      // The parser calls a zero an integer with a sign only when it is "-0".
      std::int64_t const n = static_cast<std::int64_t>(at.bits());
      value = n == 0 ? -0.0 : type == dtype::f32 ? static_cast<float>(n) : static_cast<double>(n);
      break;
    }
    case kind::unsigned_integer:
      value = type == dtype::f32 ? static_cast<float>(at.bits()) : static_cast<double>(at.bits());
      break;
    case kind::null:
    case kind::boolean:
    case kind::list:
    case kind::object: at.fail("is not a number");
  }
  std::uint64_t const bits = constant_bits(type, value);
  bool const infinite = bits == constant_bits(type, std::numeric_limits<double>::infinity()) ||
                        bits == constant_bits(type, -std::numeric_limits<double>::infinity());
  if (infinite && !from_word)
    at.fail(fmt::format("does not fit {}; infinity is written \"inf\"", name_of(type)));
  return bits;
}

std::uint64_t scalar_bits(item const& at, dtype type) {
  switch (type) {
    case dtype::boolean:
      if (at.kind() != kind::boolean) at.fail("is not true or false");
      return at.bits();
    case dtype::u8: return whole_bits(at, 0, 255, 0xff);
    case dtype::i32: return whole_bits(at, INT32_MIN, INT32_MAX, 0xffffffff);
    case dtype::i64: return whole_bits(at, INT64_MIN, INT64_MAX, ~std::uint64_t{0});
    case dtype::f16:
    case dtype::bf16:
    case dtype::f32:
    case dtype::f64: return floating_bits(at, type);
  }
  at.fail("has no dtype of ours");
}

dtype read_dtype(item const& at) {
  std::string_view const name = at.text();
  for (int i = 0; i < dtype_count; ++i)
    if (name == name_of(static_cast<dtype>(i))) return static_cast<dtype>(i);
  at.fail(fmt::format("no dtype \"{}\"", name));
}

reprise::shape read_shape(item const& at) {
  reprise::shape s;
  at.each([&](item const& extent) {
    if (s.rank() == max_rank) at.fail(fmt::format("has more than {} extents", max_rank));
    s.push_back(extent.integer(0, INT64_MAX));
  });
  return s;
}

std::uint64_t read_hex(item const& at) {
  std::string_view text = at.text();
  std::uint64_t bits = 0;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    auto const end = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    if (!text.empty() && text[0] != '-' && end.ec == std::errc() && end.ptr == text.data() + text.size())
      return bits;
  }
  at.fail("is not the bits of an element: \"0x\" and at most 16 hexadecimal digits");
}

class reader {
 public:
  reader(item const& from, int depth) : from_(from), depth_(depth) {}

  program run() {
    if (depth_ > max_nesting) from_.fail(fmt::format("regions are nested more than {} deep", max_nesting));
    from_.each_member([&](item const& at, std::string_view key) {
      if (key != "parameters" && key != "nodes" && key != "results" && key != "segments" &&
          (key != "reprise" || depth_ > 0))
        at.fail("no such key in a program");
    });
    if (depth_ == 0)
      from_.require("reprise", [](item const& at) {
        if (std::int64_t const version = at.integer(); version != 1)
          at.fail(fmt::format("schema version {}; this library reads version 1", version));
      });
    from_.with("parameters", [&](item const& at) { at.each([&](item const& x) { read_parameter(x); }); });
    has_node_.resize(out_.parameters.size());
    from_.require("nodes", [&](item const& at) { at.each([&](item const& x) { read_node(x); }); });
    from_.require("results", [&](item const& at) { at.each([&](item const& x) { read_result(x); }); });
    if (!from_.with("segments", [&](item const& at) { at.each([&](item const& x) { read_segment(x); }); }))
      out_.segments.push_back({static_cast<node_id>(out_.nodes.size()), {}});
    return std::move(out_);
  }

 private:
  static void only(item const& object, std::initializer_list<std::string_view> keys, char const* of) {
    object.each_member([&](item const& at, std::string_view key) {
      if (std::ranges::find(keys, key) == keys.end()) at.fail(fmt::format("no such key in {}", of));
    });
  }

  void read_parameter(item const& at) {
    only(at, {"name", "dtype", "shape", "role"}, "a parameter");
    parameter p;
    p.name = std::to_string(out_.parameters.size());
    at.with("name", [&](item const& x) { p.name = x.text(); });
    at.require("dtype", [&](item const& x) { p.type.type = read_dtype(x); });
    at.require("shape", [&](item const& x) { p.type.shape = read_shape(x); });
    at.with("role", [&](item const& x) {
      std::string_view const role = x.text();
      if (role == "argument") p.role = parameter_role::argument;
      else if (role == "captured") p.role = parameter_role::captured;
      else if (role == "lifted") p.role = parameter_role::lifted;
      else x.fail(fmt::format("no role \"{}\": \"argument\", \"captured\" or \"lifted\"", role));
    });
    out_.parameters.push_back(std::move(p));
  }

  void read_node(item const& at) {
    std::int64_t const number = std::ssize(out_.nodes);
    op code = op::constant;
    at.require("op", [&](item const& x) {
      std::optional<op> const found = find_op(x.text());
      if (!found) x.fail(fmt::format("no operation \"{}\"", x.text()));
      code = *found;
    });
    op_info const& row = info(code);
    bool const has_regions = row.kind == category::region;
    at.each_member([&](item const& x, std::string_view key) {
      if (key == "op" || key == "in" || key == "dtype" || key == "shape" || key == "line" || key == "id" ||
          (key == "regions" && has_regions) ||
          std::ranges::find(row.attributes, key, &attribute::name) != row.attributes.end())
        return;
      x.fail(fmt::format("no such key in a node of {}", row.name));
    });
    at.with("id", [&](item const& x) {
      if (x.integer() != number)
        x.fail(fmt::format("{} is not the place {} of this node", x.integer(), number));
    });
    operands_.clear();
    auto read_operands = [&](item const& in) {
      in.each([&](item const& x) {
        if (std::int64_t const n = x.integer(); n < 0 || n >= number)
          x.fail(fmt::format("{} is not an earlier node than {}", n, number));
        else operands_.push_back(static_cast<node_id>(n));
      });
    };
    if (row.arity == 0) at.with("in", read_operands);
    else at.require("in", read_operands);
    if (row.arity == 0 && !operands_.empty()) at.fail(fmt::format("{} takes no operands", row.name));

    read_attributes(at, row);
    std::uint32_t const line = read_line(at);
    try {
      append(at, code, line);
    } catch (argument_error const& e) { at.fail(e.what()); }
    node const& made = out_.nodes.back();
    at.with("dtype", [&](item const& x) {
      if (read_dtype(x) != made.type)
        x.fail(fmt::format("{}, but {} gives {}", x.text(), row.name, name_of(made.type)));
    });
    at.with("shape", [&](item const& x) {
      if (reprise::shape const s = read_shape(x); !(s == made.shape))
        x.fail(fmt::format("{}, but {} gives {}", s.str(), row.name, made.shape.str()));
    });
  }

  void append(item const& at, op code, std::uint32_t line) {
    if (code == op::parameter) {
      at.require("index", [&](item const& x) {
        std::size_t const i = static_cast<std::size_t>(x.integer(0, INT64_MAX));
        if (i >= out_.parameters.size())
          x.fail(fmt::format("P5: parameter {} of {}", i, out_.parameters.size()));
        if (has_node_[i]) x.fail(fmt::format("P5: a second node for parameter {}", i));
        has_node_[i] = true;
        out_.append_typed(code, out_.parameters[i].type, attributes_, line);
      });
    } else if (code == op::constant) {
      dtype type = dtype::f32;
      at.require("dtype", [&](item const& x) { type = read_dtype(x); });
      out_.append_typed(code, {type, {}}, attributes_, line);
    } else if (info(code).kind == category::region) {
      std::vector<program> nested;
      at.require("regions", [&](item const& list) {
        list.each([&](item const& x) { nested.push_back(reader(x, depth_ + 1).run()); });
      });
      out_.append_region(code, operands_, attributes_, std::move(nested), line);
    } else {
      out_.append(code, operands_, attributes_, line);
    }
  }

  void read_attributes(item const& at, op_info const& row) {
    attributes_.clear();
    for (attribute const& a : row.attributes)
      at.require(a.name, [&](item const& x) {
        switch (a.kind) {
          case attribute_kind::integer: attributes_.push_back(x.integer()); break;
          case attribute_kind::integers:
            if (x.size() > max_rank) x.fail(fmt::format("has more than {} values", max_rank));
            attributes_.push_back(x.size());
            x.each([&](item const& v) { attributes_.push_back(v.integer()); });
            break;
          case attribute_kind::dtype: attributes_.push_back(static_cast<std::int64_t>(read_dtype(x))); break;
          case attribute_kind::scalar: {
            dtype type = dtype::f32;
            at.require("dtype", [&](item const& d) { type = read_dtype(d); });
            attributes_.push_back(static_cast<std::int64_t>(scalar_bits(x, type)));
          }
        }
      });
  }

  std::uint32_t read_line(item const& at) {
    std::uint32_t index = 0;
    at.with("line", [&](item const& x) {
      auto const [found, added] = lines_.try_emplace(std::string(x.text()), 0);
      if (added) {
        std::string_view const text = found->first;
        std::size_t const colon = text.rfind(':');
        int number = -1;
        if (colon != text.npos) {
          char const* const end = text.data() + text.size();
          auto const parsed = std::from_chars(text.data() + colon + 1, end, number);
          if (parsed.ec != std::errc() || parsed.ptr != end) number = -1;
        }
        if (number < 0) x.fail("is not \"file:line\"");
        found->second = static_cast<std::uint32_t>(out_.lines.size());
        out_.lines.push_back({std::string(text.substr(0, colon)), number});
      }
      index = found->second;
    });
    return index;
  }

  node_id read_node_number(item const& at) const {
    return static_cast<node_id>(at.integer(0, std::ssize(out_.nodes) - 1));
  }

  void read_result(item const& at) {
    only(at, {"node", "role", "name", "parameter"}, "a result");
    result r;
    r.name = std::to_string(out_.results.size());
    at.require("node", [&](item const& x) { r.value = read_node_number(x); });
    at.with("name", [&](item const& x) { r.name = x.text(); });
    at.with("role", [&](item const& x) {
      std::string_view const role = x.text();
      if (role == "returned") r.role = result_role::returned;
      else if (role == "in_out") r.role = result_role::in_out;
      else if (role == "handle") r.role = result_role::handle;
      else x.fail(fmt::format("no role \"{}\": \"returned\", \"in_out\" or \"handle\"", role));
    });
    auto read_parameter = [&](item const& x) {
      if (r.role != result_role::in_out) x.fail("only an in_out result has a parameter");
      r.parameter = static_cast<std::uint32_t>(x.integer(0, std::ssize(out_.parameters) - 1));
    };
    if (r.role == result_role::in_out) at.require("parameter", read_parameter);
    else at.with("parameter", read_parameter);
    out_.results.push_back(std::move(r));
  }

  void read_segment(item const& at) {
    only(at, {"end", "reads"}, "a segment");
    segment s;
    at.require("end",
               [&](item const& x) { s.end = static_cast<node_id>(x.integer(0, std::ssize(out_.nodes))); });
    at.with("reads", [&](item const& list) {
      list.each([&](item const& x) {
        only(x, {"node", "seen"}, "a read");
        ir::read r;
        x.require("node", [&](item const& n) { r.value = read_node_number(n); });
        x.require("seen", [&](item const& seen) {
          seen.each([&](item const& bits) { r.seen.push_back(read_hex(bits)); });
        });
        s.reads.push_back(std::move(r));
      });
    });
    out_.segments.push_back(std::move(s));
  }

  item const& from_;
  int depth_;
  program out_;
  std::vector<bool> has_node_;  // of each parameter
  std::unordered_map<std::string, std::uint32_t> lines_;
  std::vector<node_id> operands_;
  std::vector<std::int64_t> attributes_;
};

}  // namespace

program from_json(std::string_view text) {
  json::tree const tree = json::parse(text);
  item const root(tree);
  program p = reader(root, 0).run();
  try {
    verify(p);
  } catch (argument_error const& e) {
    std::string_view const what = e.what();
    char const* const where = what.starts_with("P8:")                              ? "/results"
                              : what.starts_with("P9:")                            ? "/segments"
                              : what.starts_with("P6:") || what.starts_with("P7:") ? "/parameters"
                                                                                   : "/nodes";
    throw format_error(fmt::format("{}: {}", where, what));
  }
  return p;
}

}  // namespace reprise::ir
