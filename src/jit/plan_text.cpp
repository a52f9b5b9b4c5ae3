// A plan for people: dumps, `show --stages` and golden files. One line a buffer, a step, a note; the kernels
// follow.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "jit/plan.h"

namespace reprise::jit {
namespace {

std::string name_of_buffer(buffer_id b) { return fmt::format("b{}", b); }

std::string names(std::vector<buffer_id> const& buffers) {
  std::string text;
  for (buffer_id b : buffers) text += (text.empty() ? "" : ", ") + name_of_buffer(b);
  return text;
}

std::string_view text_of(buffer_place place) {
  switch (place) {
    case buffer_place::parameter: return "parameter";
    case buffer_place::result: return "result";
    case buffer_place::temporary: return "temporary";
  }
  return "?";
}

std::string_view text_of(activation act) {
  switch (act) {
    case activation::none: return "";
    case activation::relu: return ", relu";
  }
  return "?";
}

std::string_view text_of(choice chosen) {
  switch (chosen) {
    case choice::undecided: return "undecided";
    case choice::library: return "library";
    case choice::generated: return "generated";
  }
  return "?";
}

std::string kernel_name(plan const& p, std::uint64_t kernel) {
  return kernel < p.kernels.size() ? p.kernels[kernel].name : fmt::format("kernel {}", kernel);
}

std::string text_of(plan const& p, kernel_step const& s) {
  std::string text = "kernel " + kernel_name(p, s.kernel);
  if (!s.scalars.empty()) text += fmt::format(", lifted parameters {}", fmt::join(s.scalars, " "));
  return text;
}
std::string text_of(plan const&, matmul_step const& s) {
  std::string text = fmt::format("matmul {} {}x{}x{}{}{}{}{}", name_of(s.type), s.m, s.n, s.k,
                                 s.transpose_a ? ", A transposed" : "", s.transpose_b ? ", B transposed" : "",
                                 s.bias ? ", bias" : "", text_of(s.act));
  if (s.batch != 1)
    text += fmt::format(", batch {} by {} {} {}", s.batch, s.stride_a, s.stride_b, s.stride_c);
  return text;
}
std::string text_of(plan const&, conv2d_step const& s) {
  return fmt::format(
      "conv2d {} {}x{}x{}x{} by {}x{}x{}, stride {} {}, padding {} {} {} {}, dilation {} {}, groups {}{}{}",
      name_of(s.type), s.n, s.c, s.h, s.w, s.o, s.kh, s.kw, s.stride_h, s.stride_w, s.pad_top, s.pad_left,
      s.pad_bottom, s.pad_right, s.dilation_h, s.dilation_w, s.groups, s.bias ? ", bias" : "",
      text_of(s.act));
}
std::string text_of(plan const&, copy_step const&) { return "copy"; }

}  // namespace

std::string str(plan const& p) {
  std::string out =
      fmt::format("plan: {} steps, {} edges, {} buffers, {} kernels, arena of {} bytes\n", p.steps.size(),
                  p.edges.size(), p.buffers.size(), p.kernels.size(), p.arena_bytes);
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    plan_buffer const& x = p.buffers[b];
    out += fmt::format("b{}: {}", b, text_of(x.place));
    if (x.place != buffer_place::temporary) out += fmt::format(" {}", x.slot);
    out += fmt::format(" {}[{}]", name_of(x.type), x.elements);
    if (x.place == buffer_place::temporary)
      out += x.offset < 0 ? std::string(", not placed") : fmt::format(" at {}", x.offset);
    out += "\n";
  }

  std::vector<std::vector<step_id>> after(p.steps.size());
  for (edge e : p.edges)
    if (e.to < after.size()) after[e.to].push_back(e.from);
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    step const& s = p.steps[i];
    std::string const work = std::visit([&](auto const& w) { return text_of(p, w); }, s.work);
    out += fmt::format("step {}: {} ({} -> {})", i, work, names(s.operands), names(s.written));
    if (s.alternative >= 0)
      out += fmt::format(", or kernel {}: {}", kernel_name(p, static_cast<std::uint64_t>(s.alternative)),
                         text_of(s.chosen));
    if (!after[i].empty()) out += fmt::format(", after {}", fmt::join(after[i], " "));
    out += "\n";
  }
  for (std::size_t r = 0; r < p.results.size(); ++r)
    out += fmt::format("result {}: {}\n", r, name_of_buffer(p.results[r]));
  for (std::string const& note : p.notes) out += "note: " + note + "\n";
  for (kernel const& k : p.kernels) {
    std::string const text = str(k);
    out += "\n" + text;
    if (!text.ends_with('\n')) out += "\n";
  }
  return out;
}

}  // namespace reprise::jit
