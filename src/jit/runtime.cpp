#include "jit/runtime.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <list>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "generator_hash.h"
#include "jit/dump.h"
#include "jit/settings.h"

namespace reprise::jit {

namespace {

struct code final : record::compiled {
  std::unique_ptr<executable> exe;
  ir::program program;  // what it runs, lifted parameters included
  std::string name;     // the hash of its key
  std::size_t lifted = 0;
  std::string fallback;  // the reasons, one a line
};

// One compiled form of a skeleton: some constants are parameters, the others have these values.
struct variant {
  std::vector<std::uint32_t> lifted;  // indices into the skeleton's constants, ascending
  std::vector<std::uint64_t> baked;   // of all constants; ignored where lifted
  std::shared_future<std::shared_ptr<code>> ready;
};
struct row {
  std::list<variant> variants;
  std::uint64_t used = 0, bytes = 0;
};

// More forms than this of one skeleton: everything is lifted, which fits every later value.
constexpr std::size_t max_variants = 8;

bool fits(variant const& v, std::vector<std::uint64_t> const& values) {
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    if (next < v.lifted.size() && v.lifted[next] == i) {
      ++next;
      continue;
    }
    if (v.baked[i] != values[i]) return false;
  }
  return true;
}

class runtime final : public record::engine {
 public:
  runtime(std::unique_ptr<backend> device, runtime_options o)
      : settings_(settings::from_environment()),
        device_(std::move(device)),
        cap_(o.memory_cap),
        disk_(o.disk, settings_.log_cache ? std::function<void(std::string_view)>(
                                                [](std::string_view s) { log_line("cache", s); })
                                          : nullptr),
        fingerprint_(device_->fingerprint()) {
    if (o.disk_was_asked_for && !disk_.why_off().empty())
      throw argument_error("context: the cache folder " + o.disk.directory.string() +
                           " cannot be used: " + disk_.why_off());
    if (settings_.log_cache && !disk_.why_off().empty())
      log_line("cache", "the disk cache is off: " + disk_.why_off());
  }

  std::string device() const override { return device_->name(); }
  std::string description() const override { return device_->description(); }

  record::prepared prepare(ir::program const& p, record::tally& t,
                           std::vector<std::string>& reasons) override;
  void run(record::prepared const& p, std::span<void* const> parameters, std::span<void* const> results,
           std::span<std::uint64_t const> scalars, record::tally& t) override;
  std::string const& fallback(record::prepared const& p) const override {
    return static_cast<code const&>(*p.code).fallback;
  }
  void dump(std::string const& directory) override;

  void note_recording(std::string_view text) override {
    if (settings_.log_trace) log_line("trace", text);
  }

  void* allocate(std::size_t n) override { return device_->allocate(n); }
  void deallocate(void* p, std::size_t n) noexcept override { device_->deallocate(p, n); }
  void to_device(void* d, void const* h, std::size_t n) override { device_->to_device(d, h, n); }
  void to_host(void* h, void const* d, std::size_t n) override { device_->to_host(h, d, n); }
  bool host_visible() const override { return device_->host_visible(); }
  bool owns(void const* p) const override { return device_->owns(p); }
  std::uint64_t allocations() const override { return device_->counts().device_allocations; }
  void wait() override { device_->wait(); }
  void flush() override { disk_.flush(); }
  void trim() override { device_->trim(); }

 private:
  std::shared_ptr<code> make(ir::program const& p, std::string const& why, record::tally& t,
                             std::vector<std::string>& reasons);
  std::shared_ptr<code> from_disk(ir::program const& p, cache_entry const& e, record::tally& t) const;
  void evict();  // with the lock

  settings settings_;
  std::unique_ptr<backend> device_;
  std::uint64_t cap_;
  disk_cache disk_;
  std::string fingerprint_;
  std::mutex lock_;
  std::unordered_map<std::string, row> rows_;  // by skeleton bytes
  std::uint64_t clock_ = 0, bytes_ = 0;
};

void add(record::tally& t, counters const& c) {
  t.kernels_compiled += c.kernels_compiled;
  t.nvrtc_calls += c.nvrtc_calls;
  t.llvm_compiles += c.llvm_compiles;
  t.heuristic_queries += c.heuristic_queries;
  t.graphs_instantiated += c.graphs_instantiated;
  t.graph_nodes += c.graph_nodes;
  t.fallbacks += c.fallbacks;
}

record::prepared runtime::prepare(ir::program const& p, record::tally& t, std::vector<std::string>& reasons) {
  ir::skeleton const s = ir::skeleton_of(p);
  std::promise<std::shared_ptr<code>> promise;
  std::shared_future<std::shared_ptr<code>> ready;
  std::vector<std::uint32_t> lifted;
  std::string why = "a program not seen before";
  bool mine = false;
  {
    std::lock_guard hold(lock_);
    row& r = rows_[s.bytes];
    r.used = ++clock_;
    auto const found = std::find_if(r.variants.begin(), r.variants.end(),
                                    [&](variant const& v) { return fits(v, s.values); });
    if (found != r.variants.end()) {
      ready = found->ready;
      lifted = found->lifted;
    } else {
      if (!r.variants.empty()) {
        // Numbers changed: those that differ from the newest form become parameters, with those that are
        // already.
        variant const& newest = r.variants.back();
        for (std::uint32_t i = 0; i < s.values.size(); ++i) {
          bool const was = std::binary_search(newest.lifted.begin(), newest.lifted.end(), i);
          if (was || newest.baked[i] != s.values[i] || r.variants.size() >= max_variants) lifted.push_back(i);
        }
        why = fmt::format("{} of {} numbers changed and are parameters from now on", lifted.size(),
                          s.values.size());
        t.lifted += 1;
      }
      mine = true;
      ready = promise.get_future().share();
      r.variants.push_back({lifted, s.values, ready});
    }
  }
  record::prepared result;
  if (mine) {
    try {
      std::vector<ir::node_id> constants;
      for (std::uint32_t i : lifted) constants.push_back(s.constants[i]);
      auto made = make(constants.empty() ? p : ir::canonical(ir::lift(p, constants), ir::constants::apart),
                       why, t, reasons);
      made->lifted = lifted.size();
      promise.set_value(made);
      result.code = made;
      std::lock_guard hold(lock_);
      std::uint64_t const cost =
          made->exe->bytes() + s.bytes.size() + made->program.nodes.size() * sizeof(ir::node);
      rows_[s.bytes].bytes += cost;
      bytes_ += cost;
      if (bytes_ > cap_) evict();
    } catch (...) {
      {
        // Nothing stays of a failed compilation; whoever waited for it learns the reason, the next one tries
        // again.
        std::lock_guard hold(lock_);
        row& r = rows_[s.bytes];
        r.variants.remove_if([&](variant const& v) { return v.lifted == lifted && v.baked == s.values; });
        if (r.variants.empty()) rows_.erase(s.bytes);
      }
      promise.set_exception(std::current_exception());
      throw;
    }
  } else {
    result.code = ready.get();
    t.content_hits += 1;
    t.replayed += 1;
    if (settings_.log_replay) log_line("replay", static_cast<code const&>(*result.code).name);
  }
  for (std::uint32_t i : lifted) result.numbers.push_back(s.values[i]);
  return result;
}

std::shared_ptr<code> runtime::from_disk(ir::program const& p, cache_entry const& e, record::tally& t) const {
  std::vector<std::byte> const* const planned = e.section("plan");
  if (!planned) throw format_error("the entry has no plan");
  plan const steps = from_bytes({reinterpret_cast<char const*>(planned->data()), planned->size()});
  sections rest;
  for (auto const& s : e.sections)
    if (s.first != "plan" && s.first != "fallback") rest.push_back(s);
  verify(steps, p);
  counters c;
  auto made = std::make_shared<code>();
  made->exe = device_->load(steps, rest, c);
  made->program = p;
  if (std::vector<std::byte> const* const text = e.section("fallback")) {
    made->fallback.assign(reinterpret_cast<char const*>(text->data()), text->size());
    t.fallbacks += static_cast<std::uint64_t>(std::count(made->fallback.begin(), made->fallback.end(), '\n'));
  }
  add(t, c);
  return made;
}

std::shared_ptr<code> runtime::make(ir::program const& p, std::string const& why, record::tally& t,
                                    std::vector<std::string>& reasons) {
  compile_options const options = device_->options();
  std::string const key = fmt::format("reprise {}\n{}\nlibraries={} fuse={}\n", REPRISE_GENERATOR_HASH,
                                      fingerprint_, options.libraries, options.fuse) +
                          ir::key_bytes(p);
  std::string const name = ir::hex(ir::hash_bytes(key));
  auto const try_disk = [&](char const* when) -> std::shared_ptr<code> {
    auto found = disk_.load(key);
    if (!found.entry) {
      if (settings_.log_cache)
        log_line("cache", fmt::format("{} {}: {} {}", name, when, sentence_of(found.reason), found.detail));
      return nullptr;
    }
    try {
      auto made = from_disk(p, *found.entry, t);
      made->name = name;
      t.disk_hits += 1;
      t.replayed += 1;
      return made;
    } catch (error const& e) {
      if (settings_.log_cache)
        log_line("cache", fmt::format("{}: the entry does not load: {}", name, e.what()));
      disk_.reject(key, *found.entry);
      return nullptr;
    }
  };
  if (auto made = try_disk("look-up")) return made;
  if (settings_.forbid_compile)
    throw forbidden_error("REPRISE_FORBID=compile: the program " + name +
                          " would have to be compiled: " + why);
  auto key_lock = disk_.lock(key);
  if (key_lock.held())
    if (auto made = try_disk("after waiting")) return made;  // another process compiled it meanwhile

  auto const start = std::chrono::steady_clock::now();
  std::string stages;
  stage_sink sink;
  if (!settings_.dump_directory.empty())
    sink = [&](std::string_view stage, std::string const& text) {
      stages += fmt::format("== {}\n{}\n", stage, text);
    };
  plan steps = compile(p, options, sink);
  sections out;
  counters c;
  auto made = std::make_shared<code>();
  made->exe = device_->build(steps, out, c);
  made->program = p;
  made->name = name;
  add(t, c);
  reasons.push_back(why);
  if (c.fallbacks)
    for (std::string const& note : steps.notes)
      if (note.starts_with(fallback_note)) made->fallback += note + "\n";
  if (settings_.log_compile) {
    double const ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    log_line("compile", fmt::format("{}: {}; {} kernels, {} library calls, {:.1f} ms", name, why,
                                    made->exe->kernels(), made->exe->library_calls(), ms));
    for (std::string const& note : steps.notes) log_line("compile", fmt::format("{}: {}", name, note));
  }
  if (!settings_.dump_directory.empty()) dump_program(settings_.dump_directory, name, p, stages, key);

  std::string const planned = to_bytes(steps);
  cache_entry entry;
  auto const* first = reinterpret_cast<std::byte const*>(planned.data());
  entry.sections.emplace_back("plan", std::vector<std::byte>(first, first + planned.size()));
  auto const* text = reinterpret_cast<std::byte const*>(made->fallback.data());
  if (!made->fallback.empty())
    entry.sections.emplace_back("fallback", std::vector<std::byte>(text, text + made->fallback.size()));
  for (auto& s : out) entry.sections.push_back(std::move(s));
  disk_.store(key, std::move(entry), std::move(key_lock));
  return made;
}

void runtime::run(record::prepared const& p, std::span<void* const> parameters,
                  std::span<void* const> results, std::span<std::uint64_t const> scalars, record::tally& t) {
  auto const& c = static_cast<code const&>(*p.code);
  if (p.numbers.empty()) {
    c.exe->run({parameters, results, scalars});
  } else {
    thread_local std::vector<void*> all;
    thread_local std::vector<std::uint64_t> words;
    all.assign(parameters.begin(), parameters.end());
    all.resize(parameters.size() + p.numbers.size(), nullptr);
    words.assign(scalars.begin(), scalars.end());
    words.insert(words.end(), p.numbers.begin(), p.numbers.end());
    c.exe->run({all, results, words});
  }
  t.kernel_launches += c.exe->kernels();
  t.library_calls += c.exe->library_calls();
}

void runtime::dump(std::string const& directory) {
  std::vector<std::shared_ptr<code>> all;
  {
    std::lock_guard hold(lock_);
    for (auto const& [key, r] : rows_)
      for (variant const& v : r.variants)
        if (v.ready.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
          all.push_back(v.ready.get());
  }
  for (auto const& c : all)
    dump_program(directory, c->name, c->program, stages_of(c->program, device_->options()),
                 ir::key_bytes(c->program));
}

void runtime::evict() {
  // The least recently used rows go until nine tenths of the cap are left; runs in progress keep what they
  // use.
  std::vector<std::pair<std::uint64_t, std::string const*>> by_age;
  for (auto const& [key, r] : rows_)
    if (std::all_of(r.variants.begin(), r.variants.end(), [](variant const& v) {
          return v.ready.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
        }))
      by_age.emplace_back(r.used, &key);
  std::sort(by_age.begin(), by_age.end());
  std::uint64_t const goal = cap_ / 10 * 9;
  for (auto const& [age, key] : by_age) {
    if (bytes_ <= goal || age == clock_) break;
    bytes_ -= rows_[*key].bytes;
    rows_.erase(std::string(*key));
  }
}

}  // namespace

std::unique_ptr<record::engine> make_engine(std::unique_ptr<backend> device, runtime_options o) {
  return std::make_unique<runtime>(std::move(device), std::move(o));
}

}  // namespace reprise::jit
