// Operations without arithmetic, and sources: each result element is an element of an operand, a constant, an
// index or a random word. Everything that moves is a copy between two lists of offsets.
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "trace/reference_parts.h"

namespace reprise::ir::parts {
namespace {

using list = std::vector<std::int64_t>;

list extents_of(host_tensor const& t) { return {t.type.shape.begin(), t.type.shape.end()}; }

void copy(host_tensor const& from, list const& from_offsets, host_tensor& to, list const& to_offsets) {
  for (std::size_t i = 0; i < to_offsets.size(); ++i) to.set_bits(to_offsets[i], from.bits(from_offsets[i]));
}

list in_order(host_tensor const& t) {
  list all(static_cast<std::size_t>(t.size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The elements of t that a slice names.
list sliced(host_tensor const& t, words start, words step, reprise::shape const& shape) {
  list strides = strides_of(t.type.shape);
  std::int64_t base = 0;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    base += start[axis] * strides[axis];
    strides[axis] *= step[axis];
  }
  return offsets({shape.begin(), shape.end()}, strides, base);
}

// The strides with which an array of this shape is read as one of a higher or equal rank, aligned at the last
// axis.
list broadcast_strides(reprise::shape const& from, reprise::shape const& to) {
  list const own = strides_of(from);
  list strides(static_cast<std::size_t>(to.rank()), 0);
  for (int axis = 0; axis < from.rank(); ++axis)
    if (from[axis] != 1)
      strides[static_cast<std::size_t>(to.rank() - from.rank() + axis)] = own[static_cast<std::size_t>(axis)];
  return strides;
}

void transpose(words axes, host_tensor const& in, host_tensor& out) {
  list const own = strides_of(in.type.shape);
  list strides;
  for (std::int64_t axis : axes) strides.push_back(own[static_cast<std::size_t>(axis)]);
  copy(in, offsets(extents_of(out), strides), out, in_order(out));
}

void concatenate(std::size_t axis, operands in, host_tensor& out) {
  list const strides = strides_of(out.type.shape);
  std::int64_t at = 0;
  for (host_tensor const* part : in) {
    copy(*part, in_order(*part), out, offsets(extents_of(*part), strides, at * strides[axis]));
    at += part->type.shape[static_cast<int>(axis)];
  }
}

void pad(words low, host_tensor const& in, host_tensor const& frame, host_tensor& out) {
  for (std::int64_t i = 0; i < out.size(); ++i) out.set_bits(i, frame.bits(0));
  list const strides = strides_of(out.type.shape);
  std::int64_t const base = std::inner_product(low.begin(), low.end(), strides.begin(), std::int64_t{0});
  copy(in, in_order(in), out, offsets(extents_of(in), strides, base));
}

void sliding_window(words axes, words stride, words dilation, host_tensor const& in, host_tensor& out) {
  list strides = strides_of(in.type.shape), windows;
  for (std::size_t i = 0; i < axes.size(); ++i)
    windows.push_back(strides[static_cast<std::size_t>(axes[i])] * dilation[i]);
  for (std::size_t i = 0; i < axes.size(); ++i) strides[static_cast<std::size_t>(axes[i])] *= stride[i];
  strides.insert(strides.end(), windows.begin(), windows.end());
  copy(in, offsets(extents_of(out), strides), out, in_order(out));
}

void iota(int axis, host_tensor& out) {
  list strides(static_cast<std::size_t>(out.type.shape.rank()), 0);
  strides[static_cast<std::size_t>(axis)] = 1;
  list const index = offsets(extents_of(out), strides);
  for (std::int64_t i = 0; i < out.size(); ++i) out.set<std::int64_t>(i, index[static_cast<std::size_t>(i)]);
}

void philox(host_tensor const& key, host_tensor& out) {
  std::uint64_t const k = key.bits(0);
  for (std::int64_t e = 0; e < out.size(); ++e)
    out.set<std::int64_t>(e, num::philox_word(k, static_cast<std::uint64_t>(e)));
}

}  // namespace

std::vector<std::int64_t> strides_of(reprise::shape const& shape) {
  list strides(static_cast<std::size_t>(shape.rank()));
  std::int64_t next = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = next;
    next *= shape[axis];
  }
  return strides;
}

std::vector<std::int64_t> offsets(std::span<std::int64_t const> extents,
                                  std::span<std::int64_t const> strides, std::int64_t base) {
  list all{base};
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    list next;
    next.reserve(all.size() * static_cast<std::size_t>(extents[axis]));
    for (std::int64_t offset : all)
      for (std::int64_t i = 0; i < extents[axis]; ++i) next.push_back(offset + i * strides[axis]);
    all = std::move(next);
  }
  return all;
}

void movement(op code, words attributes, operands in, host_tensor& out) {
  auto const ints = [&](std::string_view name) { return attribute_ints(code, attributes, name); };
  host_tensor const& a = *in[0];
  if (code == op::reshape) {
    out.bytes = a.bytes;
  } else if (code == op::transpose) {
    transpose(ints("axes"), a, out);
  } else if (code == op::broadcast_to) {
    copy(a, offsets(extents_of(out), broadcast_strides(a.type.shape, out.type.shape)), out, in_order(out));
  } else if (code == op::slice) {
    copy(a, sliced(a, ints("start"), ints("step"), out.type.shape), out, in_order(out));
  } else if (code == op::slice_update) {
    out.bytes = a.bytes;
    copy(*in[1], in_order(*in[1]), out, sliced(out, ints("start"), ints("step"), in[1]->type.shape));
  } else if (code == op::concatenate) {
    concatenate(static_cast<std::size_t>(attribute_int(code, attributes, "axis")), in, out);
  } else if (code == op::pad) {
    pad(ints("low"), a, *in[1], out);
  } else if (code == op::sliding_window) {
    sliding_window(ints("axes"), ints("stride"), ints("dilation"), a, out);
  } else {
    throw argument_error(fmt::format("reference: {} does not move elements", info(code).name));
  }
}

void source(op code, words attributes, operands in, host_tensor& out) {
  if (code == op::constant) {
    out.set_bits(0, static_cast<std::uint64_t>(attributes[0]));
  } else if (code == op::iota) {
    iota(static_cast<int>(attribute_int(code, attributes, "axis")), out);
  } else if (code == op::philox) {
    philox(*in[0], out);
  } else {
    throw argument_error(
        fmt::format("reference: {} is not a source that the interpreter makes", info(code).name));
  }
}

}  // namespace reprise::ir::parts
