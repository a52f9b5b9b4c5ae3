// Runs a plan on the host, one step after the other: kernels by the kernel interpreter, library calls by the
// reference. Temporaries lie in one arena at the offsets that the plan gives them, in memory that holds junk
// before.
#pragma once

#include <cstring>
#include <stdexcept>
#include <variant>
#include <vector>

#include "jit/interpret.h"
#include "jit/plan.h"
#include "support/build.h"
#include "trace/reference.h"

namespace reprise::test {

namespace run_plan_detail {

inline void copy_bytes(void* to, void const* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);  // an empty array may be nowhere
}

inline node_id view(builder& b, op code, node_id of, std::vector<std::int64_t> const& list) {
  std::vector<node_id> const in{of};
  return b.add(code, in, attribute_words().list(list));
}

inline node_id with_epilogue(builder& b, node_id value, int axis, std::int64_t channels, dtype type,
                             bool bias, jit::activation act) {
  program& p = b.target();
  if (bias) {
    reprise::shape const s = p.nodes[value].shape;
    std::vector<std::int64_t> lined(static_cast<std::size_t>(s.rank()), 1);
    lined[static_cast<std::size_t>(axis)] = channels;
    node_id const given = b.parameter({type, {channels}});
    value = b.add(op::add, {value, b.broadcast(view(b, op::reshape, given, lined), s)});
  }
  if (act == jit::activation::relu) value = b.add(op::relu, {value});
  return value;
}

inline program program_of(jit::matmul_step const& w) {
  program p;
  builder b(p);
  auto const operand = [&](std::int64_t stride, bool transposed, std::int64_t rows, std::int64_t columns) {
    std::int64_t const count = stride == 0 ? 1 : w.batch;
    node_id const n = b.parameter(
        {w.type, transposed ? reprise::shape{count, columns, rows} : reprise::shape{count, rows, columns}});
    return transposed ? view(b, op::transpose, n, {0, 2, 1}) : n;
  };
  node_id const x = operand(w.stride_a, w.transpose_a, w.m, w.k),
                y = operand(w.stride_b, w.transpose_b, w.k, w.n);
  node_id value = b.add(op::matmul, {x, y});
  if (p.nodes[value].shape[0] != w.batch) value = b.broadcast(value, {w.batch, w.m, w.n});
  value = with_epilogue(b, value, 2, w.n, w.type, w.bias, w.act);
  finish(p, {&value, 1});
  return p;
}

inline program program_of(jit::conv2d_step const& w) {
  program p;
  builder b(p);
  node_id const x = b.parameter({w.type, {w.n, w.c, w.h, w.w}}),
                f = b.parameter({w.type, {w.o, w.c / w.groups, w.kh, w.kw}});
  std::vector<node_id> const in{x, f};
  node_id value = b.add(op::conv2d, in,
                        attribute_words()
                            .list({w.stride_h, w.stride_w})
                            .list({w.pad_top, w.pad_left, w.pad_bottom, w.pad_right})
                            .list({w.dilation_h, w.dilation_w})
                            .one(w.groups));
  value = with_epilogue(b, value, 1, w.o, w.type, w.bias, w.act);
  finish(p, {&value, 1});
  return p;
}

template <class Step>
void run_library(Step const& w, std::vector<void*> const& operands, void* written) {
  program const p = program_of(w);
  std::vector<host_tensor> in;
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    in.push_back(make_tensor(p.parameters[i].type));
    copy_bytes(in.back().bytes.data(), operands.at(i), in.back().bytes.size());
  }
  host_tensor const out = std::move(run_reference(p, in).front());
  copy_bytes(written, out.bytes.data(), out.bytes.size());
}

}  // namespace run_plan_detail

enum class prefer { library, generated };

inline std::vector<host_tensor> run_plan(jit::plan const& p, program const& of,
                                         std::span<host_tensor const> parameters,
                                         prefer which = prefer::library) {
  std::vector<std::byte> arena(static_cast<std::size_t>(p.arena_bytes), std::byte{0xa5});
  std::vector<std::vector<std::byte>> own(p.buffers.size());
  std::vector<void*> at(p.buffers.size());
  for (std::size_t i = 0; i < p.buffers.size(); ++i) {
    jit::plan_buffer const& b = p.buffers[i];
    switch (b.place) {
      case jit::buffer_place::parameter: own[i] = parameters[b.slot].bytes; break;
      case jit::buffer_place::result:
        own[i].assign(static_cast<std::size_t>(b.bytes()), std::byte{0x5a});
        break;
      case jit::buffer_place::temporary:
        if (b.offset < 0 || b.offset + b.bytes() > p.arena_bytes)
          throw std::logic_error("a temporary outside of the arena");
        at[i] = arena.data() + b.offset;
        continue;
    }
    at[i] = own[i].data();
  }
  auto const addresses = [&](std::vector<jit::buffer_id> const& list) {
    std::vector<void*> all;
    for (jit::buffer_id b : list) all.push_back(at[b]);
    return all;
  };
  for (jit::step const& s : p.steps) {
    if (s.alternative >= 0 && which == prefer::generated) {
      std::vector<jit::buffer_id> arguments = s.operands;
      arguments.insert(arguments.end(), s.written.begin(), s.written.end());
      jit::interpret(p.kernels[static_cast<std::size_t>(s.alternative)], addresses(arguments), {});
    } else if (auto const* k = std::get_if<jit::kernel_step>(&s.work)) {
      std::vector<std::uint64_t> scalars;
      for (std::uint32_t i : k->scalars) scalars.push_back(parameters[i].bits(0));
      jit::interpret(p.kernels[k->kernel], addresses(s.arguments), scalars);
    } else if (auto const* m = std::get_if<jit::matmul_step>(&s.work)) {
      run_plan_detail::run_library(*m, addresses(s.operands), at[s.written[0]]);
    } else if (auto const* c = std::get_if<jit::conv2d_step>(&s.work)) {
      run_plan_detail::run_library(*c, addresses(s.operands), at[s.written[0]]);
    } else {
      run_plan_detail::copy_bytes(at[s.written[0]], at[s.operands[0]],
                                  static_cast<std::size_t>(p.buffers[s.operands[0]].bytes()));
    }
  }
  std::vector<host_tensor> results;
  for (std::size_t i = 0; i < of.results.size(); ++i) {
    results.push_back(make_tensor(of.type_of(of.results[i].value)));
    run_plan_detail::copy_bytes(results.back().bytes.data(), at[p.results[i]], results.back().bytes.size());
  }
  return results;
}

}  // namespace reprise::test
