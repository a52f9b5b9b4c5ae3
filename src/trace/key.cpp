// Keys. The bytes of a program are a sequence that can be read back in one way only, so two programs with the
// same bytes are the same work: numbers in base 128, low digits first; signed ones folded so that small
// magnitudes stay short; lists after their length. Operations and dtypes are written by name at their first
// use and by place in that order later: a new row in a table changes no key.
#include <xxhash.h>

#include <fmt/format.h>

#include <array>

#include <reprise/error.h>

#include "trace/program.h"

namespace reprise::ir {
namespace {

constexpr std::uint64_t key_version = 1;

class writer {
 public:
  explicit writer(skeleton* numbers) : numbers_(numbers) {}

  void write(program const& p, int depth) {
    if (depth > max_nesting) throw argument_error("P10: regions are nested more than 64 deep");
    number(p.parameters.size());
    for (parameter const& x : p.parameters) {
      type(x.type);
      number(static_cast<std::uint64_t>(x.role));
    }
    number(p.nodes.size());
    for (std::size_t i = 0; i < p.nodes.size(); ++i) write_node(p, static_cast<node_id>(i), depth);
    number(p.results.size());
    for (result const& r : p.results) {
      number(r.value);
      number(static_cast<std::uint64_t>(r.role));
      if (r.role == result_role::in_out) number(r.parameter);
    }
    number(p.segments.size());
    for (segment const& s : p.segments) {
      number(s.end);
      number(s.reads.size());
      for (read const& r : s.reads) {
        number(r.value);
        number(r.seen.size());
        for (std::uint64_t bits : r.seen) word(bits);
      }
    }
  }

  void number(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) bytes_.push_back(static_cast<char>(n | 0x80));
    bytes_.push_back(static_cast<char>(n));
  }
  std::string take() { return std::move(bytes_); }

 private:
  void write_node(program const& p, node_id id, int depth) {
    node const& n = p.nodes[id];
    name(static_cast<std::size_t>(n.code), info(n.code).name, op_place_);
    type({n.type, n.shape});
    number(n.operand_count);
    for (node_id operand : p.operands_of(n)) number(operand);
    words const attributes = p.attributes_of(n);
    std::size_t at = 0;
    for (attribute const& a : info(n.code).attributes) switch (a.kind) {
        case attribute_kind::integer: folded(attributes[at++]); break;
        case attribute_kind::integers: {
          std::size_t const count = static_cast<std::size_t>(attributes[at++]);
          number(count);
          for (std::size_t i = 0; i < count; ++i) folded(attributes[at++]);
          break;
        }
        case attribute_kind::dtype: dtype_name(static_cast<dtype>(attributes[at++])); break;
        case attribute_kind::scalar: {
          std::uint64_t const value = static_cast<std::uint64_t>(attributes[at++]);
          // Numbers inside of regions stay: only the outermost program has parameters that a call can fill.
          if (numbers_ == nullptr || depth > 0) word(value);
          else {
            numbers_->constants.push_back(id);
            numbers_->values.push_back(value);
          }
        }
      }
    number(n.region_count);
    for (std::uint32_t i = 0; i < n.region_count; ++i) write(p.regions[n.first_region + i], depth + 1);
  }

  void type(tensor_type const& t) {
    dtype_name(t.type);
    number(static_cast<std::uint64_t>(t.shape.rank()));
    for (std::int64_t extent : t.shape) number(static_cast<std::uint64_t>(extent));
  }
  void dtype_name(dtype t) { name(static_cast<std::size_t>(t), name_of(t), dtype_place_); }

  void folded(std::int64_t n) {
    number(static_cast<std::uint64_t>(n) << 1 ^ static_cast<std::uint64_t>(n >> 63));
  }
  void word(std::uint64_t bits) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(bits >> 8 * i));
  }
  void name(std::size_t index, std::string_view text, std::vector<std::uint32_t>& places) {
    if (index >= places.size()) places.resize(index + 1);
    bool const first = places[index] == 0;
    if (first) places[index] = ++names_;
    number(places[index]);
    if (!first) return;
    number(text.size());
    bytes_ += text;
  }

  std::string bytes_;
  skeleton* numbers_;
  std::uint32_t names_ = 0;
  std::vector<std::uint32_t> op_place_, dtype_place_;  // 0: not written yet
};

std::string bytes_of(program const& p, skeleton* numbers) {
  writer w(numbers);
  w.number(key_version);
  w.write(p, 0);
  return w.take();
}

}  // namespace

std::string key_bytes(program const& p) { return bytes_of(p, nullptr); }

skeleton skeleton_of(program const& p) {
  skeleton s;
  s.bytes = bytes_of(p, &s);
  return s;
}

program lift(program const& p, std::span<node_id const> constants) {
  program out = p;
  std::size_t lifted = 0;
  for (parameter const& x : p.parameters) lifted += x.role == parameter_role::lifted;
  for (node_id id : constants) {
    if (id >= out.nodes.size() || out.nodes[id].code != op::constant)
      throw argument_error(fmt::format("lift: node {} is not a constant, or is named twice", id));
    node& n = out.nodes[id];
    n.code = op::parameter;
    out.attributes[n.first_attribute] = std::ssize(out.parameters);
    out.parameters.push_back({{n.type, n.shape}, parameter_role::lifted, fmt::format("lifted.{}", lifted++)});
  }
  return out;
}

hash128 hash_bytes(std::string_view bytes) {
  XXH128_hash_t const h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.low64, h.high64};
}

std::string hex(hash128 h) { return fmt::format("{:016x}{:016x}", h.high, h.low); }

}  // namespace reprise::ir
