// The reference interpreter is the law: it runs a program operation by operation on the host, in the plainest
// code there is, by docs/numbers.md and nothing else. Whatever a backend computes is held against it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "trace/numbers.h"
#include "trace/program.h"

namespace reprise::ir {

// An array in host memory, row-major. Elements are read as their own type, as a double, as an i64 or as bits,
// zero extended.
struct host_tensor {
  tensor_type type;
  std::vector<std::byte> bytes;

  std::int64_t size() const { return type.shape.size(); }

  template <element T>
  T get(std::int64_t i) const {
    if constexpr (std::same_as<T, bool>) {
      return bytes[static_cast<std::size_t>(i)] != std::byte{0};  // any byte but 0 counts as 1
    } else {
      T value;
      std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      return value;
    }
  }
  template <element T>
  void set(std::int64_t i, T value) {
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }

  double number(std::int64_t i) const;         // exact but for i64 beyond 2^53
  std::int64_t integer(std::int64_t i) const;  // as a cast to i64
  std::uint64_t bits(std::int64_t i) const;
  void set_bits(std::int64_t i, std::uint64_t bits);
  void set_number(std::int64_t i, double value);  // converted by docs/numbers.md
};

host_tensor make_tensor(tensor_type type);  // zeros
template <element T>
host_tensor make_tensor(reprise::shape const& shape, std::vector<T> const& values) {
  host_tensor t = make_tensor(tensor_type{dtype_v<T>, shape});
  for (std::int64_t i = 0; i < t.size(); ++i) t.set<T>(i, values.at(static_cast<std::size_t>(i)));
  return t;
}
template <element T>
host_tensor make_scalar(T value) {
  return make_tensor(reprise::shape{}, std::vector<T>{value});
}
host_tensor convert(host_tensor const& t, dtype to);  // a cast by docs/numbers.md

// The results in their order (an in_out result is its new value). Parameters by program parameter index;
// lifted ones have rank 0. Throws argument_error where a parameter is not of its type, unsupported_error for
// a region.
std::vector<host_tensor> run_reference(program const& p, std::span<host_tensor const> parameters);

// Every node's value, to check steps one by one.
std::vector<host_tensor> run_reference_all(program const& p, std::span<host_tensor const> parameters);

// One operation on given operands: what a step is compared with.
host_tensor run_reference_node(program const& p, node_id n, std::span<host_tensor const* const> operands);

// The same program with every floating dtype replaced by f64, and its results: nothing is rounded to a
// narrower type on the way. What error a narrow program has made is its distance from these.
program widened(program const& p);
std::vector<host_tensor> run_reference_wide(program const& p, std::span<host_tensor const> parameters);

}  // namespace reprise::ir
