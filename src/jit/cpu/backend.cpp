#include "jit/cpu/backend.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "jit/cpu/direct.h"
#include "jit/cpu/emit_plan.h"
#include "jit/cpu/executable.h"
#include "reprise/error.h"

namespace reprise::cpu {
namespace {

std::string_view environment(char const* name) {
  char const* const v = std::getenv(name);
  return v ? v : "";
}

int wanted_threads(int asked) {
  if (asked != 0) return asked;
  std::string_view const text = environment("REPRISE_THREADS");
  if (!text.empty()) {
    int n = 0;
    auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (failure != std::errc{} || end != text.data() + text.size() || n < 1)
      throw argument_error("REPRISE_THREADS: \"" + std::string(text) + "\" is not a number of threads");
    return n;
  }
  cpu_set_t set;
  int const cores = sched_getaffinity(0, sizeof set, &set) == 0
                        ? CPU_COUNT(&set)
                        : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return std::clamp(cores, 1, pool::max_threads);
}

bool hidden(std::string_view what) {
  std::string_view list = environment("REPRISE_HIDE");
  while (!list.empty()) {
    std::size_t const comma = list.find(',');
    if (list.substr(0, comma) == what) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// oneDNN by its file, so that nothing has to be loaded to know a key: path, size and time. Empty when it is
// not where it is looked for; then only loading it can tell.
std::string library_stamp() {
  std::string_view const named = environment("REPRISE_DNNL_LIBRARY");
  std::vector<std::string> places;
  if (!named.empty()) places.emplace_back(named);
  else
    for (char const* folder :
         {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"})
      places.push_back(std::string(folder) + "/libdnnl.so.2");
  for (auto const& place : places) {
    char path[PATH_MAX];
    struct stat s;
    if (!realpath(place.c_str(), path) || stat(path, &s) != 0) continue;
    return std::string(path) + " " + std::to_string(s.st_size) + " " + std::to_string(s.st_mtim.tv_sec) +
           "." + std::to_string(s.st_mtim.tv_nsec);
  }
  return {};
}

class cpu_backend final : public jit::backend {
 public:
  explicit cpu_backend(int threads)
      : host_(detect()),
        shared_(std::make_shared<shared_state>(wanted_threads(threads),
                                               environment("REPRISE_ARENA") == "separate")),
        tune_(environment("REPRISE_TUNE") != "off") {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    int const n = shared_->threads.threads();
    return host_.description() + ", " + std::to_string(n) + (n == 1 ? " thread" : " threads");
  }
  std::string fingerprint() const override;
  jit::compile_options options() const override { return {}; }
  std::unique_ptr<jit::executable> build(jit::plan& p, jit::sections& out, jit::counters& c) override;
  std::unique_ptr<jit::executable> load(jit::plan const& p, jit::sections const& in,
                                        jit::counters& c) override;

  void* allocate(std::size_t bytes) override { return shared_->memory.allocate(bytes); }
  void deallocate(void* p, std::size_t bytes) noexcept override { shared_->memory.deallocate(p, bytes); }
  void to_device(void* device, void const* host, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(device, host, bytes);
    shared_->bytes_to_device.fetch_add(bytes, std::memory_order_relaxed);
  }
  void to_host(void* host, void const* device, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(host, device, bytes);
    shared_->bytes_to_host.fetch_add(bytes, std::memory_order_relaxed);
  }
  void copy(void* to, void const* from, std::size_t bytes) override {
    if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
  }
  void wait() override {}  // a run returns when it is done
  bool host_visible() const override { return true; }
  bool owns(void const* p) const override { return shared_->memory.owns(p); }
  void trim() override { shared_->trim(); }
  jit::counters counts() const override;

 private:
  onednn const& library();
  void decide(jit::plan& p, jit::counters& c);
  std::unique_ptr<jit::executable> assemble(jit::plan const& p, compiled_kernels k);

  target const host_;
  std::shared_ptr<shared_state> const shared_;
  bool const tune_;
  std::once_flag library_once_;
  std::optional<onednn> library_;
};

onednn const& cpu_backend::library() {
  std::call_once(library_once_, [this] { library_.emplace(); });
  return *library_;
}

std::string cpu_backend::fingerprint() const {
  std::string f = "cpu\nllvm " + llvm_version() + "\nlanes " + std::to_string(host_.lanes) + "\nfeatures " +
                  host_.features;
  if (hidden("onednn")) {
    f += "\nonednn hidden";
  } else {
    std::string stamp = library_stamp();
    if (stamp.empty()) stamp = onednn().identity();
    f += "\nonednn " + (stamp.empty() ? "absent" : stamp);
  }
  f += tune_ ? "\ntune measured" : "\ntune off";
#ifdef REPRISE_GENERATOR_HASH
  f += std::string("\ngenerator ") + REPRISE_GENERATOR_HASH;
#endif
  return f;
}

jit::counters cpu_backend::counts() const {
  jit::counters c;
  c.device_allocations = shared_->memory.system_allocations();
  c.kernel_launches = shared_->kernel_launches.load(std::memory_order_relaxed);
  c.library_calls = shared_->library_calls.load(std::memory_order_relaxed);
  c.bytes_to_device = shared_->bytes_to_device.load(std::memory_order_relaxed);
  c.bytes_to_host = shared_->bytes_to_host.load(std::memory_order_relaxed);
  return c;
}

// The kernel that a step runs, if it runs one.
std::optional<std::uint32_t> kernel_of(jit::step const& s) {
  if (auto const* k = std::get_if<jit::kernel_step>(&s.work)) return k->kernel;
  if (is_library_step(s) && s.chosen == jit::choice::generated)
    return static_cast<std::uint32_t>(s.alternative);
  return std::nullopt;
}

void cpu_backend::decide(jit::plan& p, jit::counters& c) {
  for (auto& s : p.steps) {
    if (!is_library_step(s) || s.chosen == jit::choice::generated) continue;
    std::string reason;
    auto const call = make_library_call(library(), shared_->threads, s, reason);
    if (!call) {
      if (s.alternative < 0)
        throw compile_error("a library step has no generated kernel, and no library call: " + reason);
      s.chosen = jit::choice::generated;
      p.notes.push_back(std::string(jit::fallback_note) + ": " + reason);
      ++c.fallbacks;
      continue;
    }
    if (s.chosen == jit::choice::library) continue;
    if (s.alternative < 0) {
      s.chosen = jit::choice::library;
    } else if (!tune_) {
      s.chosen = fixed_choice(s);
    } else {
      auto const kernel = static_cast<std::uint32_t>(s.alternative);
      auto const compiled = compile_kernels(p, {&kernel, 1}, host_, shared_->threads, c);
      auto const code = shared_->link.load(compiled.objects);
      auto const f = reinterpret_cast<kernel_function>(code->address(symbol_of(p, kernel)));
      s.chosen = measured_choice(p, s, *call, f, compiled.launches[kernel], *shared_);
      ++c.tunings;
    }
  }
}

std::unique_ptr<jit::executable> cpu_backend::build(jit::plan& p, jit::sections& out, jit::counters& c) {
  decide(p, c);
  std::vector<std::uint32_t> wanted;
  for (auto const& s : p.steps)
    if (auto const k = kernel_of(s)) wanted.push_back(*k);
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  auto compiled = compile_kernels(p, wanted, host_, shared_->threads, c);
  jit::sections made;
  write_sections(compiled, made);
  auto e = assemble(p, std::move(compiled));
  out = std::move(made);
  return e;
}

std::unique_ptr<jit::executable> cpu_backend::load(jit::plan const& p, jit::sections const& in,
                                                   jit::counters&) {
  return assemble(p, read_sections(p, in));
}

std::unique_ptr<jit::executable> cpu_backend::assemble(jit::plan const& p, compiled_kernels k) {
  auto code = shared_->link.load(k.objects);
  std::vector<loaded_step> steps;
  std::vector<std::uint32_t> arguments, scalars;
  for (auto const& s : p.steps) {
    loaded_step l;
    std::vector<jit::buffer_id> whole = s.operands;
    whole.insert(whole.end(), s.written.begin(), s.written.end());
    if (auto const kernel = kernel_of(s)) {
      if (*kernel >= p.kernels.size())
        throw format_error("compiled code: a step names kernel " + std::to_string(*kernel));
      l.what = loaded_step::kind::kernel;
      l.how = k.launches[*kernel];
      l.function = reinterpret_cast<kernel_function>(code->address(symbol_of(p, *kernel)));
      if (auto const* step = std::get_if<jit::kernel_step>(&s.work)) {
        whole = s.arguments;
        l.first_scalar = static_cast<std::uint32_t>(scalars.size());
        l.scalars = static_cast<std::uint32_t>(step->scalars.size());
        scalars.insert(scalars.end(), step->scalars.begin(), step->scalars.end());
      }
    } else if (is_library_step(s)) {
      if (s.chosen != jit::choice::library)
        throw format_error("compiled code: a library step without a decision");
      std::string reason;
      l.what = loaded_step::kind::library;
      l.call = make_library_call(library(), shared_->threads, s, reason);
      if (!l.call) throw format_error("compiled code calls a library that is not here: " + reason);
      l.bias = s.operands.size() > 2;
    } else {
      l.what = loaded_step::kind::copy;
      l.copy_bytes = p.buffers[s.written.at(0)].bytes();
    }
    l.first_argument = static_cast<std::uint32_t>(arguments.size());
    l.arguments = static_cast<std::uint32_t>(whole.size());
    arguments.insert(arguments.end(), whole.begin(), whole.end());
    steps.push_back(std::move(l));
  }
  std::size_t const bytes = k.bytes();
  return std::make_unique<cpu_executable>(shared_, p, std::move(steps), std::move(arguments),
                                          std::move(scalars), std::move(code), bytes);
}

}  // namespace

std::unique_ptr<jit::backend> make_backend(int threads) { return std::make_unique<cpu_backend>(threads); }

}  // namespace reprise::cpu
