// Library operations, as near to their exact results as is cheap: products of f32 and halves are added up in
// double, those of f64 in long double, and rounded to the result's dtype at the end; integers wrap. What a
// backend may be off is docs/numbers.md's.
#include <concepts>
#include <type_traits>

#include <fmt/format.h>

#include "trace/reference_parts.h"

namespace reprise::ir::parts {
namespace {

template <class C>
using sum_t = std::conditional_t<std::same_as<C, float>, double,
                                 std::conditional_t<std::same_as<C, double>, long double, C>>;

template <class T>
sum_t<num::compute_t<T>> load(host_tensor const& t, std::int64_t i) {
  return static_cast<sum_t<num::compute_t<T>>>(static_cast<num::compute_t<T>>(t.get<T>(i)));
}

template <class T>
void store(host_tensor& t, std::int64_t i, sum_t<num::compute_t<T>> sum) {
  t.set<T>(i, static_cast<T>(static_cast<num::compute_t<T>>(sum)));
}

// Offsets of the matrices of one operand, in the order of the result's: leading axes broadcast.
std::vector<std::int64_t> matrices(reprise::shape const& operand, reprise::shape const& result) {
  std::vector<std::int64_t> const own = strides_of(operand);
  std::vector<std::int64_t> extents(result.begin(), result.end() - 2), strides(extents.size(), 0);
  std::size_t const lead = static_cast<std::size_t>(result.rank() - operand.rank());
  for (std::size_t axis = lead; axis < extents.size(); ++axis)
    if (operand[static_cast<int>(axis - lead)] != 1) strides[axis] = own[axis - lead];
  return offsets(extents, strides);
}

template <class T>
void matmul(host_tensor const& a, host_tensor const& b, host_tensor& out) {
  using sum = sum_t<num::compute_t<T>>;
  reprise::shape const &left = a.type.shape, &right = b.type.shape;
  std::int64_t const m = left[left.rank() - 2], k = left.back(), n = right.back();
  std::vector<std::int64_t> const in_a = matrices(left, out.type.shape),
                                  in_b = matrices(right, out.type.shape);
  std::vector<sum> row(static_cast<std::size_t>(n));
  for (std::size_t matrix = 0; matrix < in_a.size(); ++matrix) {
    for (std::int64_t i = 0; i < m; ++i) {
      std::fill(row.begin(), row.end(), sum(0));
      for (std::int64_t l = 0; l < k; ++l) {
        sum const x = load<T>(a, in_a[matrix] + i * k + l);
        for (std::int64_t j = 0; j < n; ++j) {
          sum& s = row[static_cast<std::size_t>(j)];
          s = num::add(s, num::mul(x, load<T>(b, in_b[matrix] + l * n + j)));
        }
      }
      for (std::int64_t j = 0; j < n; ++j)
        store<T>(out, (static_cast<std::int64_t>(matrix) * m + i) * n + j, row[static_cast<std::size_t>(j)]);
    }
  }
}

struct convolution {
  words stride, padding, dilation;
  std::int64_t groups;
};

template <class T>
void conv2d(convolution const& c, host_tensor const& x, host_tensor const& w, host_tensor& out) {
  reprise::shape const &in = x.type.shape, &kernel = w.type.shape, &result = out.type.shape;
  std::int64_t const each = kernel[1], outs = result[1] / c.groups;  // channels of a group
  std::int64_t at = 0;
  for (std::int64_t image = 0; image < result[0]; ++image)
    for (std::int64_t o = 0; o < result[1]; ++o)
      for (std::int64_t row = 0; row < result[2]; ++row)
        for (std::int64_t column = 0; column < result[3]; ++column, ++at) {
          sum_t<num::compute_t<T>> sum = 0;
          for (std::int64_t channel = 0; channel < each; ++channel)
            for (std::int64_t i = 0; i < kernel[2]; ++i)
              for (std::int64_t j = 0; j < kernel[3]; ++j) {
                std::int64_t const r = row * c.stride[0] - c.padding[0] + i * c.dilation[0];
                std::int64_t const s = column * c.stride[1] - c.padding[1] + j * c.dilation[1];
                bool const inside = r >= 0 && r < in[2] && s >= 0 && s < in[3];  // padding is zeros
                std::int64_t const from = o / outs * each + channel;
                sum = num::add(sum,
                               num::mul(inside ? load<T>(x, ((image * in[1] + from) * in[2] + r) * in[3] + s)
                                               : decltype(load<T>(x, 0)){},
                                        load<T>(w, ((o * each + channel) * kernel[2] + i) * kernel[3] + j)));
              }
          store<T>(out, at, sum);
        }
}

}  // namespace

void library(op code, words attributes, operands in, host_tensor& out) {
  with_element(out.type.type, [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      throw argument_error(fmt::format("reference: {} does not take booleans", info(code).name));
    } else if (code == op::matmul) {
      matmul<T>(*in[0], *in[1], out);
    } else if (code == op::conv2d) {
      auto const ints = [&](std::string_view name) { return attribute_ints(code, attributes, name); };
      conv2d<T>(
          {ints("stride"), ints("padding"), ints("dilation"), attribute_int(code, attributes, "groups")},
          *in[0], *in[1], out);
    } else {
      throw argument_error(fmt::format("reference: {} is not a library operation", info(code).name));
    }
  });
}

}  // namespace reprise::ir::parts
