// Plans for tests, by hand: parameters, results and temporaries of given sizes, and steps whose kernels touch
// what they are said to touch. Kernels read the first element and write the last, so none can run in place by
// accident.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jit/plan.h"
#include "support/build.h"
#include "trace/program.h"

namespace reprise::test {

class plan_maker {
 public:
  jit::plan made;
  ir::program of;

  jit::buffer_id parameter(std::int64_t elements) {
    of.parameters.push_back({{dtype::f32, reprise::shape{elements}}, ir::parameter_role::argument, {}});
    return add(jit::buffer_place::parameter, static_cast<std::uint32_t>(of.parameters.size() - 1), elements);
  }
  jit::buffer_id result(std::int64_t elements) {
    std::int64_t const zero = 0, to[] = {1, elements};
    node_id const one = of.append_typed(op::constant, {dtype::f32, {}}, {&zero, 1});
    node_id const n = of.append(op::broadcast_to, {&one, 1}, to);
    of.results.push_back({n, ir::result_role::returned, 0, std::to_string(of.results.size())});
    made.results.push_back(
        add(jit::buffer_place::result, static_cast<std::uint32_t>(of.results.size() - 1), elements));
    return made.results.back();
  }
  jit::buffer_id temporary(std::int64_t elements) { return add(jit::buffer_place::temporary, 0, elements); }

  void step(std::vector<jit::buffer_id> const& reads, std::vector<jit::buffer_id> const& writes) {
    jit::kernel k;
    k.name = "k" + std::to_string(made.kernels.size());
    k.grid = {1};
    k.index.add_variable(1);
    k.index.add_variable(1);
    jit::phase ph;
    for (jit::buffer_id b : reads) {
      ph.body.push_back({.code = jit::kop::load,
                         .type = dtype::f32,
                         .slot = static_cast<std::uint32_t>(k.buffers.size()),
                         .index = k.index.constant(0)});
      k.buffers.push_back({dtype::f32, made.buffers[b].elements, false});
    }
    ph.body.push_back({.code = jit::kop::const_, .type = dtype::f32});
    jit::value_id const value = static_cast<jit::value_id>(ph.body.size() - 1);
    for (jit::buffer_id b : writes) {
      ph.body.push_back({.code = jit::kop::store,
                         .type = dtype::f32,
                         .a = value,
                         .slot = static_cast<std::uint32_t>(k.buffers.size()),
                         .index = k.index.constant(made.buffers[b].elements - 1)});
      k.buffers.push_back({dtype::f32, made.buffers[b].elements, true});
    }
    k.phases.push_back(ph);
    add_step(std::move(k), reads, writes);
  }

  // `to` = -`from`, element by element.
  void negate(jit::buffer_id from, jit::buffer_id to) {
    add_step(negation(made.buffers[to].elements), {from}, {to});
  }

  jit::kernel negation(std::int64_t elements) const {
    jit::kernel k;
    k.name = "k" + std::to_string(made.kernels.size());
    k.grid = {1};
    k.index.add_variable(1);
    k.index.add_variable(elements);
    k.buffers = {{dtype::f32, elements, false}, {dtype::f32, elements, true}};
    jit::phase ph;
    ph.extent = elements;
    jit::index_id const at = k.index.variable(1);
    ph.body.push_back({.code = jit::kop::load, .type = dtype::f32, .slot = 0, .index = at});
    ph.body.push_back({.code = jit::kop::neg, .type = dtype::f32, .a = 0});
    ph.body.push_back({.code = jit::kop::store, .type = dtype::f32, .a = 1, .slot = 1, .index = at});
    k.phases.push_back(ph);
    return k;
  }

  // The program is complete; the plan is what the compiler would give to schedule().
  jit::plan take() {
    of.segments = {{static_cast<node_id>(of.nodes.size()), {}}};
    return made;
  }

 private:
  jit::buffer_id add(jit::buffer_place place, std::uint32_t slot, std::int64_t elements) {
    made.buffers.push_back({.place = place, .slot = slot, .type = dtype::f32, .elements = elements});
    return static_cast<jit::buffer_id>(made.buffers.size() - 1);
  }
  void add_step(jit::kernel k, std::vector<jit::buffer_id> const& reads,
                std::vector<jit::buffer_id> const& writes) {
    jit::step s;
    s.work = jit::kernel_step{static_cast<std::uint32_t>(made.kernels.size()), {}};
    s.operands = reads;
    s.written = writes;
    s.arguments = reads;
    s.arguments.insert(s.arguments.end(), writes.begin(), writes.end());
    made.kernels.push_back(std::move(k));
    made.steps.push_back(std::move(s));
  }
};

// x -> temporaries of the given sizes, one from the other -> y.
inline plan_maker chain(std::vector<std::int64_t> const& sizes) {
  plan_maker m;
  jit::buffer_id last = m.parameter(16);
  for (std::int64_t size : sizes) {
    jit::buffer_id const next = m.temporary(size);
    m.step({last}, {next});
    last = next;
  }
  m.step({last}, {m.result(16)});
  return m;
}

// A binary tree of random shape, its leaves made from x, in the order in which a program lists it.
inline plan_maker tree(random_engine& r, int leaves) {
  plan_maker m;
  jit::buffer_id const x = m.parameter(16);
  auto const size = [&] { return random_int(r, 64, 6400); };
  std::vector<jit::buffer_id> roots;
  while (leaves > 0 || roots.size() > 1) {
    if (roots.size() < 2 || (leaves > 0 && chance(r, 0.5))) {
      roots.push_back(m.temporary(size()));
      m.step({x}, {roots.back()});
      --leaves;
      continue;
    }
    jit::buffer_id const b = roots.back(), a = roots[roots.size() - 2], c = m.temporary(size());
    m.step({a, b}, {c});
    roots.resize(roots.size() - 2);
    roots.push_back(c);
  }
  m.step({roots.back()}, {m.result(16)});
  return m;
}

// Steps that read and write at random what is there, some of it more than once.
inline plan_maker random_plan(random_engine& r, int steps) {
  plan_maker m;
  std::vector<jit::buffer_id> readable{m.parameter(64), m.parameter(640)}, temporaries;
  for (int i = 0; i < steps; ++i) {
    std::vector<jit::buffer_id> reads, writes;
    for (std::int64_t n = random_int(r, 0, 3); n > 0; --n) {
      std::size_t const near = static_cast<std::size_t>(random_int(r, 1, 6));
      jit::buffer_id const b =
          chance(r, 0.7) && readable.size() > near ? readable[readable.size() - near] : choose(r, readable);
      if (std::find(reads.begin(), reads.end(), b) == reads.end()) reads.push_back(b);
    }
    if (!temporaries.empty() && chance(r, 0.15)) {  // an old one again
      jit::buffer_id const b = choose(r, temporaries);
      if (std::find(reads.begin(), reads.end(), b) == reads.end()) writes.push_back(b);
    }
    for (std::int64_t n = random_int(r, writes.empty() ? 1 : 0, 2); n > 0; --n) {
      bool const result = chance(r, 0.1);
      writes.push_back(result ? m.result(random_int(r, 2, 2000)) : m.temporary(random_int(r, 2, 2000)));
      if (!result) temporaries.push_back(writes.back());
    }
    m.step(reads, writes);
    readable.insert(readable.end(), writes.begin(), writes.end());
  }
  return m;
}

}  // namespace reprise::test
