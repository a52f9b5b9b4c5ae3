// What a replay costs, counted from outside: allocations by this executable's own malloc, files by its own
// open and by the kernel's notices about the cache folder. Sanitizers bring their own malloc.
#include <gtest/gtest.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include "process/support.h"
#include "process/worker/programs.h"

namespace {
std::atomic<std::uint64_t> allocations{0}, opens{0};
int open_counted(int folder, char const* path, int flags, unsigned mode) {
  opens.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(p, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, n);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const p = __libc_memalign(alignment, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}

// The mode is there, as far as the callee reads it, or is garbage that nobody reads.
int open(char const* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  unsigned const mode = va_arg(more, unsigned);
  va_end(more);
  return open_counted(AT_FDCWD, path, flags, mode);
}
int openat(int folder, char const* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  unsigned const mode = va_arg(more, unsigned);
  va_end(more);
  return open_counted(folder, path, flags, mode);
}
int open64(char const* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  unsigned const mode = va_arg(more, unsigned);
  va_end(more);
  return open_counted(AT_FDCWD, path, flags, mode);
}
int openat64(int folder, char const* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  unsigned const mode = va_arg(more, unsigned);
  va_end(more);
  return open_counted(folder, path, flags, mode);
}
}

namespace process {
namespace {

class notices {
 public:
  explicit notices(std::filesystem::path const& folder) : fd_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    if (inotify_add_watch(fd_, folder.c_str(), IN_ALL_EVENTS) < 0) throw std::runtime_error("inotify");
  }
  ~notices() { close(fd_); }
  notices(notices const&) = delete;
  notices& operator=(notices const&) = delete;
  bool any() const {
    alignas(inotify_event) char buffer[4096];
    return read(fd_, buffer, sizeof buffer) > 0;
  }

 private:
  int fd_;
};

TEST(Replays, AllocateLittleAndTouchNoFile) {
  constexpr int replays = 1000;
  scratch const folder;
  reprise::context_options o;
  o.device = reprise::device::cpu;
  o.cache_directory = (folder / "cache").string();
  reprise::context const ctx(o);
  reprise::use const here(ctx);
  auto const f = cuda::trace([](auto const& a, auto const& b, auto const& c) { return a * b + c; });
  auto const a = filled({1000}, 1), b = filled({1000}, 2), c = filled({1000}, 3);
  notices const seen(folder / "cache");
  std::uint64_t opened = opens;
  float const right = f(a, b, c).to_vector().at(999);
  ctx.flush();
  EXPECT_GT(opens - opened, 0u) << "the counter counts";
  EXPECT_TRUE(seen.any()) << "the first call stores its entry";
  while (seen.any()) {}
  for (int i = 0; i < 10; ++i) f(a, b, c);

  std::uint64_t most = 0, least = ~std::uint64_t{0};
  opened = opens;
  std::uint64_t const start = allocations;
  for (int i = 0; i < replays; ++i) {
    std::uint64_t const before = allocations;
    auto const r = f(a, b, c);
    std::uint64_t const used = allocations - before;
    most = std::max(most, used);
    least = std::min(least, used);
  }
  std::uint64_t const sum = allocations - start;
  EXPECT_EQ(opens - opened, 0u);
  EXPECT_FALSE(seen.any());
  EXPECT_EQ(ctx.totals().signature_hits, replays + 10u);
  EXPECT_EQ(f(a, b, c).to_vector().at(999), right);

  RecordProperty("allocations_of_a_replay", static_cast<int>(most));
  std::printf("allocations of a replay: %llu to %llu, %llu in %d\n", static_cast<unsigned long long>(least),
              static_cast<unsigned long long>(most), static_cast<unsigned long long>(sum), replays);
  EXPECT_GT(sum, 0u) << "the counter counts";  // the result is fresh: something is allocated
  EXPECT_LE(most, 16u);
}

}  // namespace
}  // namespace process

#endif
