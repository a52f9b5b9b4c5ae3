#include "jit/fuse_plan.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace reprise::jit {
namespace {

using ir::node_id;

// Every stored node has one buffer that is read: a parameter's, its first result's, or a temporary.
class buffers_of : public buffer_table {
 public:
  buffers_of(ir::program const& p, plan& made) : p_(p), plan_(made), of_(p.nodes.size()) {
    for (std::size_t i = 0; i < p.results.size(); ++i) {
      node_id const value = without_reshapes(p, p.results[i].value);
      ir::node const& n = p.nodes[value];
      made.results.push_back(add({.place = buffer_place::result,
                                  .slot = static_cast<std::uint32_t>(i),
                                  .type = n.type,
                                  .elements = n.shape.size()}));
      if (!is_array_parameter(value)) of_[value].push_back(made.results.back());
    }
  }

  buffer_id read(node_id n) override {
    if (of_[n].empty() && is_array_parameter(n))
      of_[n].push_back(add({.place = buffer_place::parameter,
                            .slot = static_cast<std::uint32_t>(p_.int_of(n, "index")),
                            .type = p_.nodes[n].type,
                            .elements = p_.nodes[n].shape.size()}));
    return written(n).front();
  }
  std::vector<buffer_id> const& written(node_id n) override {
    if (of_[n].empty()) of_[n].push_back(temporary(p_.nodes[n].type, p_.nodes[n].shape.size()));
    return of_[n];
  }
  buffer_id temporary(dtype t, std::int64_t elements) override {
    return add({.place = buffer_place::temporary, .slot = 0, .type = t, .elements = elements});
  }
  plan_buffer const& at(buffer_id b) const override { return plan_.buffers[b]; }

  // Only the first buffer is written by a library call; the others are copies.
  std::vector<buffer_id> take_copies(node_id n) {
    written(n);
    std::vector<buffer_id> const rest(of_[n].begin() + 1, of_[n].end());
    of_[n].resize(1);
    return rest;
  }

  bool is_array_parameter(node_id n) const {
    return p_.nodes[n].code == ir::op::parameter &&
           p_.parameters[static_cast<std::size_t>(p_.int_of(n, "index"))].role != ir::parameter_role::lifted;
  }

 private:
  buffer_id add(plan_buffer b) {
    plan_.buffers.push_back(b);
    return static_cast<buffer_id>(plan_.buffers.size() - 1);
  }

  ir::program const& p_;
  plan& plan_;
  std::vector<std::vector<buffer_id>> of_;
};

class step_maker {
 public:
  step_maker(ir::program const& p, fusion const& f, compile_options const& o)
      : p_(p), f_(f), options_(o), buffers_(p, plan_) {}

  plan run() {
    for (fused_group const& g : f_.groups) {
      if (g.call >= 0) call(f_.calls[static_cast<std::size_t>(g.call)]);
      else if (!g.kernel.outputs.empty()) kernels(g.kernel, {});
    }
    for (std::size_t i = 0; i < p_.results.size(); ++i) {
      node_id const value = without_reshapes(p_, p_.results[i].value);
      if (buffers_.is_array_parameter(value)) copy(buffers_.read(value), plan_.results[i]);
    }
    plan_.notes = f_.notes;
    return std::move(plan_);
  }

 private:
  void kernels(kernel_group const& g, std::vector<buffer_id> const& first) {
    for (lowered_kernel& k : lower(g, buffers_, name_of(g), first)) {
      step s;
      for (std::size_t i = 0; i < k.arguments.size(); ++i)
        (k.code.buffers[i].written ? s.written : s.operands).push_back(k.arguments[i]);
      s.arguments = std::move(k.arguments);
      s.work = kernel_step{add_kernel(std::move(k.code)), std::move(k.scalars)};
      plan_.steps.push_back(std::move(s));
    }
  }

  void call(library_call const& c) {
    std::vector<buffer_id> const copies = buffers_.take_copies(c.result);
    buffer_id const to = buffers_.written(c.result).front();
    if (c.step.index() == 0 || !options_.libraries) {
      kernels(contraction(p_, c), {});
    } else {
      step s;
      if (auto const* m = std::get_if<matmul_step>(&c.step)) s.work = *m;
      if (auto const* m = std::get_if<conv2d_step>(&c.step)) s.work = *m;
      for (node_id o : c.operands) s.operands.push_back(buffers_.read(o));
      s.written = {to};
      if (c.alternative) {
        kernel_group const g = contraction(p_, c);
        std::vector<buffer_id> first = s.operands;
        first.push_back(to);
        lowered_kernel k = std::move(lower(g, buffers_, name_of(g), first).front());
        s.alternative = add_kernel(std::move(k.code));
      } else {
        s.chosen = choice::library;
      }
      plan_.steps.push_back(std::move(s));
    }
    for (buffer_id b : copies) copy(to, b);
  }

  void copy(buffer_id from, buffer_id to) {
    step s;
    s.work = copy_step{};
    s.operands = {from};
    s.written = {to};
    plan_.steps.push_back(std::move(s));
  }

  std::uint32_t add_kernel(kernel k) {
    plan_.kernels.push_back(std::move(k));
    return static_cast<std::uint32_t>(plan_.kernels.size() - 1);
  }

  // "k3_max_sum_div": a number and what it is about.
  std::string name_of(kernel_group const& g) const {
    std::string name = fmt::format("k{}", plan_.kernels.size());
    std::set<node_id> said;
    std::size_t words = 0;
    auto const say = [&](node_id n) {
      if (words == 4 || !said.insert(n).second) return;
      ++words;
      name += fmt::format("_{}", ir::info(p_.nodes[n].code).name);
    };
    for (kernel_reduction const& r : g.reductions) say(r.node);
    for (kernel_output const& o : g.outputs) say(o.node);
    return name;
  }

  ir::program const& p_;
  fusion const& f_;
  compile_options options_;
  plan plan_;
  buffers_of buffers_;
};

}  // namespace

plan make_steps(ir::program const& p, fusion const& f, compile_options const& o) {
  return step_maker(p, f, o).run();
}

}  // namespace reprise::jit
