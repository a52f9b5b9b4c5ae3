// Shape rules of the library operations: matrix product and convolution.
#include <fmt/format.h>

#include "trace/infer.h"

namespace reprise::ir {
namespace {

void check_dtypes(call const& c) {
  if (c[0].type != c[1].type) refuse(c, "dtypes differ");
  if (!accepts_dtype(c.row.operands, c[0].type)) refuse(c, "takes numeric dtypes");
}

}  // namespace

tensor_type infer_matmul(call const& c) {
  check_dtypes(c);
  reprise::shape const &a = c[0].shape, &b = c[1].shape;
  if (a.rank() < 2 || b.rank() < 2) refuse(c, "both operands need two axes or more");
  std::int64_t const inner = a.back(), other = b[b.rank() - 2];
  if (inner != other) refuse(c, fmt::format("inner extents {} and {} differ", inner, other));
  reprise::shape result;
  int const rank = a.rank() > b.rank() ? a.rank() : b.rank();
  for (int i = 0; i < rank - 2; ++i) {
    int const in_a = i - (rank - a.rank()), in_b = i - (rank - b.rank());
    std::int64_t const x = in_a < 0 ? 1 : a[in_a], y = in_b < 0 ? 1 : b[in_b];
    std::int64_t const extent = broadcast(x, y);
    if (extent < 0) refuse(c, fmt::format("leading extents {} and {} do not broadcast", x, y));
    result.push_back(extent);
  }
  result.push_back(a[a.rank() - 2]);
  result.push_back(b.back());
  return made(c, c[0].type, result);
}

tensor_type infer_conv2d(call const& c) {
  check_dtypes(c);
  reprise::shape const &x = c[0].shape, &w = c[1].shape;
  if (x.rank() != 4 || w.rank() != 4) refuse(c, "takes NCHW and OIHW, four axes each");
  words const stride = per_axis(c, "stride", 2, 1), padding = per_axis(c, "padding", 4, 0),
              dilation = per_axis(c, "dilation", 2, 1);
  std::int64_t const groups = c.integer("groups");
  if (groups < 1) refuse(c, fmt::format("groups is {}", groups), 4);
  if (x[1] % groups != 0 || w[0] % groups != 0)
    refuse(c, fmt::format("{} channels and {} filters do not divide into {} groups", x[1], w[0], groups));
  if (w[1] != x[1] / groups)
    refuse(c, fmt::format("filters take {} channels, a group has {}", w[1], x[1] / groups));
  reprise::shape result{x[0], w[0]};
  for (int i = 0; i < 2; ++i) {
    std::size_t const k = static_cast<std::size_t>(i);
    if (w[2 + i] < 1) refuse(c, "an empty filter");
    wide const framed = static_cast<wide>(x[2 + i]) + padding[k] + padding[k + 2];
    wide const reach = static_cast<wide>(dilation[k]) * (w[2 + i] - 1) + 1;
    if (framed >= max_elements) refuse(c, "the padded image would have an extent of 2^62 or more", 6);
    if (reach > framed)
      refuse(c, fmt::format("a filter of extent {} with dilation {} does not fit in a padded extent of {}",
                            w[2 + i], dilation[k], static_cast<std::int64_t>(framed)));
    result.push_back(static_cast<std::int64_t>((framed - reach) / stride[k] + 1));
  }
  return made(c, c[0].type, result);
}

}  // namespace reprise::ir
