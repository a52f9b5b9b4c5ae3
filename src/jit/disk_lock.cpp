// The lock's file is removed by its holder, so folders do not fill up with them; therefore whoever gets a
// lock checks that the file is still the one of that name, and opens again when it is not.
#include "jit/disk_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace reprise::jit {
namespace {

constexpr std::chrono::milliseconds longest_nap{20};

bool still_named(int fd, int folder, char const* name) {
  struct stat ours{}, there{};
  return fstat(fd, &ours) == 0 && fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

}  // namespace

disk_lock::disk_lock(disk_lock&& other) noexcept
    : folder_(std::move(other.folder_)),
      file_name_(std::move(other.file_name_)),
      why_not_(std::move(other.why_not_)),
      fd_(std::move(other.fd_)),
      owner_(other.owner_) {}

disk_lock& disk_lock::operator=(disk_lock&& other) noexcept {
  if (this == &other) return *this;
  release();
  folder_ = std::move(other.folder_);
  file_name_ = std::move(other.file_name_);
  why_not_ = std::move(other.why_not_);
  fd_ = std::move(other.fd_);
  owner_ = other.owner_;
  return *this;
}

void disk_lock::release() {
  if (!fd_) return;
  // Unlocked explicitly: a child forked meanwhile shares the open file, and our close alone would leave it
  // locked.
  if (owner_ == getpid()) {
    unlinkat(folder_->fd(), file_name_.c_str(), 0);
    flock(fd_.get(), LOCK_UN);
  }
  fd_ = file_descriptor();
  folder_.reset();
}

disk_lock disk_lock::refused(std::string why) {
  disk_lock lock;
  lock.why_not_ = std::move(why);
  return lock;
}

disk_lock disk_lock::acquire(std::shared_ptr<disk_folder const> folder, std::string const& key_name,
                             std::chrono::milliseconds patience) {
  auto const deadline = std::chrono::steady_clock::now() + patience;
  std::chrono::milliseconds nap{1};
  auto name = lock_file_name(key_name);
  for (;;) {
    file_descriptor fd(openat(folder->fd(), name.c_str(),
                              O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, S_IRUSR | S_IWUSR));
    if (!fd) return refused(fmt::format("{}: {}", name, errno_text(errno)));
    while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return refused(fmt::format("{}: flock: {}", name, errno_text(errno)));
      auto const left = deadline - std::chrono::steady_clock::now();
      if (left <= left.zero())
        return refused(fmt::format("{}: another process held it for {} ms", name, patience.count()));
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(nap, left));
      nap = std::min(2 * nap, longest_nap);
    }
    if (!still_named(fd.get(), folder->fd(), name.c_str())) {
      if (std::chrono::steady_clock::now() < deadline) continue;
      return refused(fmt::format("{}: replaced again and again for {} ms", name, patience.count()));
    }
    disk_lock lock;
    lock.folder_ = std::move(folder);
    lock.file_name_ = std::move(name);
    lock.fd_ = std::move(fd);
    lock.owner_ = getpid();
    return lock;
  }
}

}  // namespace reprise::jit
