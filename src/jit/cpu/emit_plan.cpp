#include "jit/cpu/emit_plan.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "reprise/error.h"

namespace reprise::cpu {
namespace {

constexpr char const* launches_section = "launches";
constexpr std::string_view object_section = "object";  // "object", "object.1", ...: an entry names each once
constexpr std::size_t most_modules = 64;               // far fewer than an entry may have sections

std::size_t weight(jit::kernel const& k) {
  std::size_t n = 8;
  for (auto const& p : k.phases) n += p.body.size() * (1 + p.reductions.size());
  return n;
}

}  // namespace

std::string symbol_of(jit::plan const& p, std::uint32_t kernel) {
  return p.kernels[kernel].name + "." + std::to_string(kernel);
}

std::size_t compiled_kernels::bytes() const {
  std::size_t n = 0;
  for (auto const& o : objects) n += o.size();
  return n;
}

compiled_kernels compile_kernels(jit::plan const& p, std::span<std::uint32_t const> wanted,
                                 target const& host, pool& threads, jit::counters& c) {
  compiled_kernels result;
  result.launches.resize(p.kernels.size());
  if (wanted.empty()) return result;
  // Heavy kernels first, each to the module with the least so far.
  std::vector<std::uint32_t> order(wanted.begin(), wanted.end());
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return weight(p.kernels[a]) > weight(p.kernels[b]); });
  std::size_t const modules =
      threads.threads() == 1
          ? 1
          : std::min({order.size(), 2 * static_cast<std::size_t>(threads.threads()), most_modules});
  std::vector<std::vector<std::uint32_t>> shares(modules);
  std::vector<std::size_t> load(modules, 0);
  for (auto k : order) {
    auto const least = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    shares[least].push_back(k);
    load[least] += weight(p.kernels[k]);
  }
  result.objects.resize(modules);
  struct job {
    jit::plan const& p;
    target const& host;
    std::vector<std::vector<std::uint32_t>> const& shares;
    compiled_kernels& result;
    std::vector<std::exception_ptr> failures;
    static void run(void* context, std::int64_t begin, std::int64_t end) {
      job& j = *static_cast<job*>(context);
      for (auto n = static_cast<std::size_t>(begin); n < static_cast<std::size_t>(end); ++n) {
        try {
          llvm::LLVMContext c;
          llvm::Module m("kernels", c);
          prepare(m, j.host);
          for (auto k : j.shares[n]) {
            jit::verify(j.p.kernels[k]);  // costs nothing beside compiling it
            j.result.launches[k] = emit(j.p.kernels[k], symbol_of(j.p, k), j.host, m);
          }
          j.result.objects[n] = compile(m, j.host);
        } catch (...) { j.failures[n] = std::current_exception(); }
      }
    }
  } j{p, host, shares, result, std::vector<std::exception_ptr>(modules)};
  threads.run(static_cast<std::int64_t>(modules), 1, job::run, &j);
  for (auto const& f : j.failures)
    if (f) std::rethrow_exception(f);
  c.llvm_compiles += modules;
  c.kernels_compiled += wanted.size();
  return result;
}

void write_sections(compiled_kernels const& k, jit::sections& out) {
  std::vector<std::byte> launches(k.launches.size() * sizeof(launch));
  if (!launches.empty()) std::memcpy(launches.data(), k.launches.data(), launches.size());
  out.emplace_back(launches_section, std::move(launches));
  for (std::size_t n = 0; n < k.objects.size(); ++n)
    out.emplace_back(std::string(object_section) + (n == 0 ? "" : "." + std::to_string(n)), k.objects[n]);
}

compiled_kernels read_sections(jit::plan const& p, jit::sections const& in) {
  compiled_kernels k;
  bool found = false;
  for (auto const& [name, bytes] : in) {
    if (name == launches_section) {
      if (bytes.size() != p.kernels.size() * sizeof(launch))
        throw format_error("compiled code: " + std::to_string(bytes.size()) + " bytes of launches for " +
                           std::to_string(p.kernels.size()) + " kernels");
      k.launches.resize(p.kernels.size());
      if (!bytes.empty()) std::memcpy(k.launches.data(), bytes.data(), bytes.size());
      found = true;
    } else if (name == object_section || name.starts_with(std::string(object_section) + ".")) {
      k.objects.push_back(bytes);
    } else {
      throw format_error("compiled code: a section named \"" + name + "\" is not of this backend");
    }
  }
  if (!found) throw format_error("compiled code: no section \"launches\"");
  for (auto const& l : k.launches)
    if (l.units < 0 || l.grain < 1 || l.scratch_bytes < 0)
      throw format_error("compiled code: a launch that makes no sense");
  return k;
}

}  // namespace reprise::cpu
