// Lookups run on the caller's thread; stores are queued for one worker, which packs, writes and keeps the
// folder within its cap. No mutex is held while a file is touched, and none is touched at all in a forked
// child.
#include "jit/disk_cache.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "reprise/error.h"

namespace reprise::jit {
namespace {

// A disk slower than the compiler must not fill the memory with entries that wait for it.
constexpr std::uint64_t queue_cap_bytes = std::uint64_t{256} << 20;
// Other processes fill the folder too: look again after writing this part of the cap, or after this time.
constexpr std::uint64_t scans_per_cap = 16;
constexpr std::chrono::minutes scan_after{10};

// Not for a program that runs with more rights than its caller: secure_getenv.
std::string_view variable(char const* name) {
  char const* const value = secure_getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::uint64_t bytes_of(cache_entry const& entry) {
  std::uint64_t sum = 0;
  for (auto const& [name, bytes] : entry.sections) sum += name.size() + bytes.size();
  return sum;
}

bool was_removed(disk_folder const& folder) {
  struct stat there{};
  return fstat(folder.fd(), &there) == 0 && there.st_nlink == 0;
}

// A worker takes no signal that is meant for the program's own threads, and a write beyond RLIMIT_FSIZE is
// then an error instead of the end of the process.
std::thread start_without_signals(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct restore {
    sigset_t const& mask;
    ~restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } const restored{before};
  return std::thread(std::move(body));
}

struct job {
  std::string key_material;
  cache_entry entry;
  disk_lock held;
  std::uint64_t bytes = 0;
};

}  // namespace

struct disk_cache::state {
  pid_t const owner = getpid();
  disk_options options;
  std::function<void(std::string_view)> const log;
  std::string off;
  miss off_reason = miss::disabled;
  std::string const forked = "the cache was opened before a fork, in the parent";

  std::mutex folder_mutex;
  std::shared_ptr<disk_folder const> folder;
  std::string folder_refusal;

  std::mutex queue_mutex;
  std::condition_variable queued, finished;
  std::deque<job> queue;
  std::uint64_t queue_bytes = 0;
  std::uint64_t enqueued = 0;
  std::uint64_t done = 0;
  bool stopping = false;
  std::thread worker;

  std::atomic<std::uint64_t> loads{0}, hits{0}, stores{0}, already_there{0}, store_failures{0}, evictions{0},
      swept{0};
  std::array<std::atomic<std::uint64_t>, miss_count> misses{};
  std::atomic<bool> lock_refusal_logged{false};

  // The worker's own.
  std::string last_store_failure;
  bool scanned = false;
  std::uint64_t total = 0;
  std::uint64_t since_scan = 0;
  std::chrono::steady_clock::time_point last_scan;

  state(disk_options o, std::function<void(std::string_view)> l) : options(std::move(o)), log(std::move(l)) {}

  bool in_child() const { return getpid() != owner; }
  void say(std::string_view line) const;
  std::shared_ptr<disk_folder const> usable_folder();
  lookup missed(std::string const& name, miss reason, std::string detail, bool logged = true);
  void run();
  void write(job& work);
  void store_failed(std::string const& name, std::string_view why);
  void keep_within_cap(disk_folder const& in, std::string const& name, std::uint64_t added);
};

// A sink that throws must not turn a miss into an exception.
void disk_cache::state::say(std::string_view line) const {
  if (!log) return;
  try {
    log(line);
  } catch (...) {}
}

// The folder, made anew when somebody removed it while we live; null and folder_refusal when it cannot be
// used.
std::shared_ptr<disk_folder const> disk_cache::state::usable_folder() {
  std::shared_ptr<disk_folder const> current;
  {
    std::lock_guard const guard(folder_mutex);
    current = folder;
  }
  if (current && !was_removed(*current)) return current;
  auto opened = disk_folder::open(options.directory);
  bool news = false;
  {
    std::lock_guard const guard(folder_mutex);
    news = opened.refusal != folder_refusal;
    folder = opened.folder;
    folder_refusal = opened.refusal;
  }
  if (news && !opened.folder) say(fmt::format("folder refused: {}", opened.refusal));
  return opened.folder;
}

lookup disk_cache::state::missed(std::string const& name, miss reason, std::string detail, bool logged) {
  ++misses[static_cast<std::size_t>(reason)];
  if (logged)
    say(fmt::format("miss {}: {}: {}{}{}{}", name, to_string(reason), sentence_of(reason),
                    detail.empty() ? "" : ": ", detail, deletes_entry(reason) ? "; removed" : ""));
  return {std::nullopt, reason, std::move(detail)};
}

void disk_cache::state::run() {
  std::unique_lock guard(queue_mutex);
  for (;;) {
    queued.wait(guard, [&] { return stopping || !queue.empty(); });
    if (queue.empty()) return;
    std::uint64_t bytes = 0;
    {
      job work = std::move(queue.front());
      queue.pop_front();
      guard.unlock();
      bytes = work.bytes;
      write(work);
    }
    guard.lock();
    queue_bytes -= bytes;
    ++done;
    finished.notify_all();
  }
}

void disk_cache::state::write(job& work) {
  std::string name;
  try {
    name = key_name(work.key_material);
    auto const bytes = encode_entry(work.key_material, work.entry);
    if (bytes.size() > options.cap_bytes)
      return store_failed(
          name, fmt::format("{} bytes are more than the cap of {}", bytes.size(), options.cap_bytes));
    auto const in = usable_folder();
    if (!in) return store_failed(name, "the folder cannot be used");
    auto const published = in->publish(name, bytes);
    work.held.release();
    switch (published.result) {
      case disk_folder::outcome::failed:
        return store_failed(name, fmt::format("{}: {}", published.step, errno_text(published.error)));
      case disk_folder::outcome::already_there:
        ++already_there;
        say(fmt::format("store {}: another one was first", name));
        return;
      case disk_folder::outcome::published: break;
    }
    ++stores;
    last_store_failure.clear();
    say(fmt::format("store {}: {} bytes", name, bytes.size()));
    keep_within_cap(*in, name, bytes.size());
  } catch (std::exception const& e) { store_failed(name, e.what()); }
}

// A full disk would say the same for every entry: once is enough until something changes.
void disk_cache::state::store_failed(std::string const& name, std::string_view why) {
  ++store_failures;
  if (why == last_store_failure) return;
  try {
    last_store_failure = why;
    say(fmt::format("store {} failed: {}", name, why));
  } catch (std::bad_alloc const&) {  // counted; the worker lives on
  }
}

void disk_cache::state::keep_within_cap(disk_folder const& in, std::string const& name, std::uint64_t added) {
  total += added;
  since_scan += added;
  auto const now = std::chrono::steady_clock::now();
  if (scanned && total <= options.cap_bytes && since_scan <= options.cap_bytes / scans_per_cap &&
      now - last_scan < scan_after)
    return;
  scanned = true;
  since_scan = 0;
  last_scan = now;
  std::uint64_t removed = 0;
  auto entries = in.scan(removed);
  swept += removed;
  total = 0;
  for (auto const& entry : entries) total += entry.bytes;
  if (total <= options.cap_bytes) return;
  auto const before = total;
  auto const evicted = in.evict(std::move(entries), total, options.cap_bytes, name);
  evictions += evicted;
  say(fmt::format("evicted {} entries: {} bytes were over the cap of {}, {} are left", evicted, before,
                  options.cap_bytes, total));
}

disk_options disk_options_from_environment() {
  disk_options options;
  if (auto const directory = variable("REPRISE_CACHE_DIR"); !directory.empty()) {
    options.directory = directory;
  } else if (std::filesystem::path const xdg = variable("XDG_CACHE_HOME"); xdg.is_absolute()) {
    options.directory = xdg / "reprise";
  } else if (std::filesystem::path const home = variable("HOME"); home.is_absolute()) {
    options.directory = home / ".cache" / "reprise";
  }
  auto const onoff = variable("REPRISE_CACHE");
  if (!onoff.empty() && onoff != "on" && onoff != "off")
    throw argument_error(fmt::format("REPRISE_CACHE={}: it must be on or off", onoff));
  options.enabled = onoff != "off";
  if (auto const cap = variable("REPRISE_CACHE_CAP"); !cap.empty()) {
    auto const end = cap.data() + cap.size();
    auto const [stop, error] = std::from_chars(cap.data(), end, options.cap_bytes);
    if (error != std::errc() || stop != end)
      throw argument_error(fmt::format("REPRISE_CACHE_CAP={}: it must be a number of bytes", cap));
  }
  return options;
}

disk_cache::disk_cache(disk_options options, std::function<void(std::string_view)> log)
    : state_(std::make_unique<state>(std::move(options), std::move(log))) {
  auto& s = *state_;
  if (!s.options.enabled) {
    s.off = "it is switched off";
  } else if (s.options.directory.empty()) {
    s.off = "there is no folder for it: REPRISE_CACHE_DIR, XDG_CACHE_HOME and HOME are unset";
  } else {
    // Later changes of the working directory must not move it.
    std::error_code failed;
    if (auto const absolute = std::filesystem::absolute(s.options.directory, failed); !failed)
      s.options.directory = absolute;
    auto opened = disk_folder::open(s.options.directory);
    s.folder = std::move(opened.folder);
    s.off = std::move(opened.refusal);
    s.off_reason = miss::folder_refused;
  }
  if (!s.off.empty()) s.say(fmt::format("off: {}: {}", to_string(s.off_reason), s.off));
}

disk_cache::~disk_cache() {
  if (state_->in_child()) {
    // The worker is not in this process and its mutexes may be held for ever: nothing of it can be destroyed.
    static_cast<void>(state_.release());
    return;
  }
  {
    std::lock_guard const guard(state_->queue_mutex);
    state_->stopping = true;
  }
  state_->queued.notify_all();
  if (state_->worker.joinable()) state_->worker.join();
}

std::string const& disk_cache::why_off() const { return state_->in_child() ? state_->forked : state_->off; }

lookup disk_cache::load(std::string_view key_material) {
  auto& s = *state_;
  ++s.loads;
  if (s.in_child()) return s.missed({}, miss::disabled, s.forked, false);
  if (!s.off.empty()) return s.missed({}, s.off_reason, s.off, false);
  auto const name = key_name(key_material);
  try {
    auto const folder = s.usable_folder();
    if (!folder) {
      std::unique_lock guard(s.folder_mutex);
      auto why = s.folder_refusal;
      guard.unlock();
      return s.missed(name, miss::folder_refused, std::move(why), false);
    }
    auto file = folder->read(name);
    lookup found{std::nullopt, file.reason, std::move(file.detail)};
    if (file.reason == miss::none) found = decode_entry(file.bytes, key_material);
    if (deletes_entry(found.reason)) folder->remove(name, file.identity);
    if (!found.entry) return s.missed(name, found.reason, std::move(found.detail));
    ++s.hits;
    s.say(fmt::format("hit {}: {} bytes", name, file.bytes.size()));
    return found;
  } catch (std::exception const& e) { return s.missed(name, miss::unreadable, e.what()); }
}

void disk_cache::reject(std::string_view key_material, cache_entry const& bad) {
  auto& s = *state_;
  if (s.in_child() || !s.off.empty()) return;
  auto const name = key_name(key_material);
  try {
    auto const folder = s.usable_folder();
    if (!folder) return;
    auto const file = folder->read(name);
    if (file.reason != miss::none) return;
    auto const there = decode_entry(file.bytes, key_material);
    if (!there.entry || !(*there.entry == bad)) return;
    folder->remove(name, file.identity);
    s.say(fmt::format("rejected {}: removed", name));
  } catch (std::exception const& e) { s.say(fmt::format("rejected {}, but it stays: {}", name, e.what())); }
}

void disk_cache::store(std::string key_material, cache_entry entry, key_lock held) {
  auto& s = *state_;
  if (s.in_child() || !s.off.empty()) return;
  std::string failure;
  try {
    std::uint64_t const bytes = key_material.size() + bytes_of(entry);
    std::lock_guard const guard(s.queue_mutex);
    if (!s.queue.empty() && s.queue_bytes + bytes > queue_cap_bytes) {
      failure = fmt::format("{} bytes wait for the disk already", s.queue_bytes);
    } else {
      if (!s.worker.joinable()) s.worker = start_without_signals([&s] { s.run(); });
      s.queue.push_back({std::move(key_material), std::move(entry), std::move(held), bytes});
      s.queue_bytes += bytes;
      ++s.enqueued;
    }
  } catch (std::exception const& e) { failure = e.what(); }
  if (failure.empty()) return s.queued.notify_one();
  ++s.store_failures;
  s.say(fmt::format("store failed: {}", failure));
}

void disk_cache::flush() {
  auto& s = *state_;
  if (s.in_child()) return;
  std::unique_lock guard(s.queue_mutex);
  auto const ticket = s.enqueued;
  s.finished.wait(guard, [&] { return s.done >= ticket; });
}

disk_cache::key_lock disk_cache::lock(std::string_view key_material, std::chrono::milliseconds patience) {
  auto& s = *state_;
  if (s.in_child()) return key_lock::refused(s.forked);
  if (!s.off.empty()) return key_lock::refused(s.off);
  auto const folder = s.usable_folder();
  if (!folder) return key_lock::refused("the folder cannot be used");
  auto lock = key_lock::acquire(folder, key_name(key_material), patience);
  if (!lock.held() && !s.lock_refusal_logged.exchange(true))
    s.say(fmt::format("no lock, compiling without: {}", lock.why_not()));
  return lock;
}

disk_cache::counters disk_cache::counts() const {
  auto const& s = *state_;
  counters out{s.loads, s.hits, {}, s.stores, s.already_there, s.store_failures, s.evictions, s.swept};
  for (std::size_t i = 0; i < miss_count; ++i) out.misses[i] = s.misses[i];
  return out;
}

}  // namespace reprise::jit
