#include "arguments.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <system_error>

#include <fmt/format.h>

#include <reprise/error.h>

#include "trace/npy.h"

namespace reprise::cli {

namespace {

using bytes = std::vector<std::byte>;

struct pair {
  std::string key, value;
};

pair split(std::string const& text, char const* option) {
  auto const at = text.find('=');
  if (at == text.npos || at == 0 || at + 1 == text.size())
    throw argument_error(fmt::format("{} {}: it must be NAME=FILE", option, text));
  return {text.substr(0, at), text.substr(at + 1)};
}

std::string label(std::string const& name, std::size_t index) {
  return name.empty() ? std::to_string(index) : name;
}

// `all` holds parameters or results: things with a name.
template <class Named>
std::size_t find(std::vector<Named> const& all, std::string const& key, char const* what) {
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].name == key) return i;
  std::size_t index = 0;
  auto const [stop, failed] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (failed == std::errc() && stop == key.data() + key.size() && index < all.size()) return index;
  std::string names;
  for (std::size_t i = 0; i < all.size(); ++i) names += (names.empty() ? "" : ", ") + label(all[i].name, i);
  throw argument_error(
      fmt::format("there is no {} {}; there {}", what, key, names.empty() ? "are none" : "are " + names));
}

bytes of_bits(dtype type, std::uint64_t bits) {
  bytes out(static_cast<std::size_t>(size_of(type)));
  std::memcpy(out.data(), &bits, out.size());
  return out;
}

template <class T>
std::optional<T> whole_text(std::string const& text) {
  T value{};
  auto const [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// A number written out, for a parameter of rank 0. Nothing when it is not one of this dtype: then it is a
// file.
std::optional<bytes> number(dtype type, std::string const& text) {
  switch (class_of(type)) {
    case dtype_class::boolean:
      if (text == "true" || text == "1") return of_bits(type, 1);
      if (text == "false" || text == "0") return of_bits(type, 0);
      return std::nullopt;
    case dtype_class::integer: {
      auto const value = whole_text<std::int64_t>(text);
      if (!value) return std::nullopt;
      bool const fits =
          type == dtype::i64 || (type == dtype::u8 ? *value >= 0 && *value <= 255
                                                   : *value >= std::numeric_limits<std::int32_t>::min() &&
                                                         *value <= std::numeric_limits<std::int32_t>::max());
      if (!fits) throw argument_error(fmt::format("{} does not fit into {}", text, name_of(type)));
      return of_bits(type, static_cast<std::uint64_t>(*value));
    }
    case dtype_class::floating:
      if (auto const value = whole_text<double>(text)) return of_bits(type, ir::constant_bits(type, *value));
      return std::nullopt;
  }
  return std::nullopt;
}

bytes from_file(ir::tensor_type const& type, std::string const& name, std::string const& file) {
  ir::npy_array array = ir::read_npy(file);
  bool const widened = type.type == dtype::bf16 && array.type.type == dtype::f32;
  if (array.type.shape != type.shape || (array.type.type != type.type && !widened))
    throw argument_error(fmt::format("parameter {}: {} is {}, and it must be {}", name, file,
                                     ir::str(array.type), ir::str(type)));
  if (!widened) return std::move(array.data);
  bytes rounded(array.data.size() / 2);
  for (std::size_t i = 0; i < rounded.size() / 2; ++i) {
    float value;
    std::memcpy(&value, array.data.data() + 4 * i, 4);
    std::uint16_t const half = bfloat16(value).bits;
    std::memcpy(rounded.data() + 2 * i, &half, 2);
  }
  return rounded;
}

// Those that are given, by parameter.
std::vector<std::optional<bytes>> read(ir::program const& p, std::vector<std::string> const& given) {
  std::vector<std::optional<bytes>> values(p.parameters.size());
  for (std::string const& text : given) {
    auto const [key, value] = split(text, "--in");
    std::size_t const i = find(p.parameters, key, "parameter");
    if (values[i]) throw argument_error("parameter " + label(p.parameters[i].name, i) + " is given twice");
    ir::tensor_type const& type = p.parameters[i].type;
    if (type.shape.rank() == 0) values[i] = number(type.type, value);
    if (!values[i]) values[i] = from_file(type, label(p.parameters[i].name, i), value);
  }
  return values;
}

bytes made_up(ir::tensor_type const& type, std::mt19937_64& random) {
  bytes out;
  for (std::int64_t i = 0; i < type.shape.size(); ++i) {
    double const value = static_cast<double>(random() >> 11) * 0x1p-53;
    auto const one = of_bits(type.type, ir::constant_bits(type.type, value));
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

}  // namespace

std::vector<bytes> read_parameters(ir::program const& p, std::vector<std::string> const& given) {
  auto values = read(p, given);
  std::string missing;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!values[i])
      missing += fmt::format("{}{} {}", missing.empty() ? "" : ", ", label(p.parameters[i].name, i),
                             ir::str(p.parameters[i].type));
  if (!missing.empty()) throw argument_error("no value is given (--in NAME=FILE) for " + missing);
  std::vector<bytes> all;
  for (auto& v : values) all.push_back(std::move(*v));
  return all;
}

std::vector<bytes> made_up_parameters(ir::program const& p, std::vector<std::string> const& given) {
  auto values = read(p, given);
  std::mt19937_64 random(1);
  std::vector<bytes> all;
  for (std::size_t i = 0; i < values.size(); ++i)
    all.push_back(values[i] ? std::move(*values[i]) : made_up(p.parameters[i].type, random));
  return all;
}

std::vector<destination> destinations(ir::program const& p, std::vector<std::string> const& given) {
  std::vector<destination> all;
  for (std::string const& text : given) {
    auto const [key, value] = split(text, "--out");
    all.push_back({find(p.results, key, "result"), value});
  }
  return all;
}

}  // namespace reprise::cli
