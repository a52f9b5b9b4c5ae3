// The files that tools/reference_values.py writes: arrays, and cases that name their inputs and their result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trace/reference.h"

namespace reprise::test {

struct stored_case {
  ir::op code;
  std::vector<std::size_t> in;
  std::size_t out;
  std::vector<std::int64_t> attributes;  // packed
  int ulps = 0;                          // how far the stored result may be from the correctly rounded one
};

struct stored_values {
  std::vector<ir::host_tensor> arrays;
  std::vector<stored_case> cases;
};

inline dtype dtype_named(std::string const& name) {
#define DTYPE(id, cpp, numpy, bytes, cls, compute, device) \
  if (name == numpy) return dtype::id;
#include <reprise/dtypes.def>
#undef DTYPE
  throw std::runtime_error("no dtype " + name);
}

inline std::vector<std::int64_t> packed(ir::op code, nlohmann::json const& attributes) {
  std::vector<std::int64_t> words;
  for (ir::attribute const& a : ir::info(code).attributes) {
    nlohmann::json const& value = attributes.at(std::string(a.name));
    switch (a.kind) {
      case ir::attribute_kind::integer:
      case ir::attribute_kind::scalar: words.push_back(value.get<std::int64_t>()); break;
      case ir::attribute_kind::dtype:
        words.push_back(static_cast<std::int64_t>(dtype_named(value.get<std::string>())));
        break;
      case ir::attribute_kind::integers:
        words.push_back(static_cast<std::int64_t>(value.size()));
        for (nlohmann::json const& v : value) words.push_back(v.get<std::int64_t>());
        break;
    }
  }
  return words;
}

inline stored_values read_stored(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  stored_values all;
  for (std::string line; std::getline(file, line);) {
    nlohmann::json const head = nlohmann::json::parse(line);
    if (head.contains("array")) {
      ir::tensor_type type{dtype_named(head.at("dtype").get<std::string>()), {}};
      for (nlohmann::json const& extent : head.at("shape")) type.shape.push_back(extent.get<std::int64_t>());
      ir::host_tensor t = ir::make_tensor(type);
      if (t.bytes.size() != head.at("bytes").get<std::size_t>())
        throw std::runtime_error("wrong size in " + line);
      if (!file.read(reinterpret_cast<char*>(t.bytes.data()), static_cast<std::streamsize>(t.bytes.size())))
        throw std::runtime_error(path + " is cut short");
      all.arrays.push_back(std::move(t));
    } else {
      std::optional<ir::op> const code = ir::find_op(head.at("op").get<std::string>());
      if (!code) throw std::runtime_error("no operation in " + line);
      all.cases.push_back(
          {*code, head.at("in").get<std::vector<std::size_t>>(), head.at("out").get<std::size_t>(),
           packed(*code, head.value("attributes", nlohmann::json::object())), head.value("ulps", 0)});
    }
  }
  return all;
}

}  // namespace reprise::test
