// Folder policy and file operations. Nothing here throws but std::bad_alloc.
#include "jit/disk_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace reprise::jit {
namespace {

constexpr std::size_t key_name_size = 32;
constexpr std::string_view entry_suffix = ".entry";
constexpr std::string_view lock_suffix = ".lock";
constexpr std::string_view temporary_suffix = ".tmp";
constexpr mode_t written_by_others = S_IWGRP | S_IWOTH;
constexpr std::size_t write_piece = std::size_t{64} << 20;

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == text.npos; }

enum class file_kind { foreign, entry, lock, temporary };

file_kind kind_of(std::string_view name) {
  if (name.size() <= key_name_size || !is_hex(name.substr(0, key_name_size))) return file_kind::foreign;
  auto const rest = name.substr(key_name_size);
  if (rest == entry_suffix) return file_kind::entry;
  if (rest == lock_suffix) return file_kind::lock;
  bool const temporary = rest.size() == 1 + 16 + temporary_suffix.size() && rest.front() == '.' &&
                         is_hex(rest.substr(1, 16)) && rest.ends_with(temporary_suffix);
  return temporary ? file_kind::temporary : file_kind::foreign;
}

// Not from a pid or a counter: processes of two machines or containers can share the folder.
std::optional<std::string> temporary_name(std::string const& key_name) {
  std::uint64_t salt = 0;
  if (getrandom(&salt, sizeof salt, 0) != static_cast<ssize_t>(sizeof salt)) return std::nullopt;
  return fmt::format("{}.{:016x}{}", key_name, salt, temporary_suffix);
}

// 0, or the errno of the first folder that could not be made.
int make_folders(std::filesystem::path const& path) {
  std::filesystem::path prefix;
  for (auto const& part : path) {
    prefix /= part;
    struct stat there{};
    if (stat(prefix.c_str(), &there) == 0) continue;
    if (mkdir(prefix.c_str(), S_IRWXU) != 0 && errno != EEXIST) return errno;
  }
  return 0;
}

bool is_stale(struct stat const& file) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec - file.st_mtim.tv_sec > std::chrono::seconds(stale_after).count();
}

int write_all(int fd, std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    ssize_t const count = write(fd, bytes.data(), std::min(bytes.size(), write_piece));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return 0;
}

// Holding the lock proves that no living process uses the file; whoever opened it meanwhile finds that the
// name is gone and opens again (see disk_lock).
bool remove_unheld_lock(int folder, char const* name) {
  file_descriptor const fd(openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
  struct stat ours{}, there{};
  return fstat(fd.get(), &ours) == 0 && fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev && unlinkat(folder, name, 0) == 0;
}

bool earlier(timespec const& a, timespec const& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

// A file system without hard links still has the atomic rename that refuses to replace.
int put_in_place(int folder, char const* temporary, char const* name) {
  if (linkat(folder, temporary, folder, name, 0) == 0) return 0;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  return renameat2(folder, temporary, folder, name, RENAME_NOREPLACE) == 0 ? 0 : errno;
}

}  // namespace

file_descriptor::~file_descriptor() {
  if (fd_ >= 0) close(fd_);
}

std::string errno_text(int error) { return std::system_category().message(error); }
std::string entry_file_name(std::string const& key_name) { return key_name + std::string(entry_suffix); }
std::string lock_file_name(std::string const& key_name) { return key_name + std::string(lock_suffix); }

disk_folder::opening disk_folder::open(std::filesystem::path const& path) {
  auto const refused = [&](std::string why) {
    return opening{nullptr, fmt::format("{}: {}", path.string(), why)};
  };
  if (int const error = make_folders(path)) return refused("cannot be made: " + errno_text(error));
  struct stat there{};
  if (lstat(path.c_str(), &there) != 0) return refused(errno_text(errno));
  if (S_ISLNK(there.st_mode) && there.st_uid != geteuid() && there.st_uid != 0)
    return refused(fmt::format("is a symbolic link made by user {}, we are {}", there.st_uid, geteuid()));
  file_descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return refused("cannot be opened: " + errno_text(errno));
  if (fstat(fd.get(), &there) != 0) return refused(errno_text(errno));
  if (there.st_uid != geteuid())
    return refused(fmt::format("belongs to user {}, we are {}", there.st_uid, geteuid()));
  if ((there.st_mode & written_by_others) != 0)
    return refused(fmt::format("its group or others may write it (mode {:04o})", there.st_mode & 07777));
  return {std::make_shared<disk_folder const>(std::move(fd)), {}};
}

disk_folder::contents disk_folder::read(std::string const& key_name) const {
  contents out;
  auto const missed = [&](miss reason, std::string detail) {
    out.bytes.clear();
    out.reason = reason;
    out.detail = std::move(detail);
    return std::move(out);
  };
  auto const name = entry_file_name(key_name);
  struct stat there{};
  auto const identify = [&] { out.identity = {there.st_dev, there.st_ino}; };

  // O_NONBLOCK: a FIFO of that name must not hold us up.
  file_descriptor const fd(
      openat(fd_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    int const error = errno;
    if (error == ENOENT) return missed(miss::absent, {});
    if (error == ELOOP && fstatat(fd_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
      identify();
      return missed(miss::untrusted, "it is a symbolic link");
    }
    return missed(miss::unreadable, "open: " + errno_text(error));
  }
  if (fstat(fd.get(), &there) != 0) return missed(miss::unreadable, "fstat: " + errno_text(errno));
  identify();
  if (!S_ISREG(there.st_mode)) return missed(miss::untrusted, "it is no regular file");
  if (there.st_uid != geteuid())
    return missed(miss::untrusted, fmt::format("it belongs to user {}, we are {}", there.st_uid, geteuid()));
  if ((there.st_mode & written_by_others) != 0)
    return missed(miss::untrusted, fmt::format("others may write it (mode {:04o})", there.st_mode & 07777));
  auto const size = static_cast<std::uint64_t>(there.st_size);
  if (size > entry_limits::bytes)
    return missed(miss::corrupt, fmt::format("{} bytes are more than an entry may have", size));

  out.bytes.resize(size);
  std::size_t done = 0;
  while (done < out.bytes.size()) {
    ssize_t const count = ::read(fd.get(), out.bytes.data() + done, out.bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return missed(miss::unreadable, "read: " + errno_text(errno));
    if (count == 0) break;  // cut short meanwhile: the decoder says so
    done += static_cast<std::size_t>(count);
  }
  out.bytes.resize(done);
  // Fails in a read-only folder, where nothing is evicted either.
  static_cast<void>(futimens(fd.get(), nullptr));
  return out;
}

void disk_folder::remove(std::string const& key_name, file_identity identity) const {
  auto const name = entry_file_name(key_name);
  struct stat there{};
  if (fstatat(fd_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (there.st_dev != identity.device || there.st_ino != identity.inode) return;
  unlinkat(fd_.get(), name.c_str(), 0);
}

disk_folder::publication disk_folder::publish(std::string const& key_name,
                                              std::span<std::byte const> bytes) const {
  auto const name = entry_file_name(key_name);
  struct stat there{};
  if (fstatat(fd_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0)
    return {outcome::already_there, 0, ""};
  auto const temporary = temporary_name(key_name);
  if (!temporary) return {outcome::failed, errno, "getrandom"};
  file_descriptor fd(openat(fd_.get(), temporary->c_str(),
                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd) return {outcome::failed, errno, "create"};

  publication result{outcome::published, 0, ""};
  // EINVAL: the file system has no sync; the checksum still guards what is read back.
  if (int const error = write_all(fd.get(), bytes)) {
    result = {outcome::failed, error, "write"};
  } else if (fsync(fd.get()) != 0 && errno != EINVAL) {
    result = {outcome::failed, errno, "fsync"};
  } else if (int const error = put_in_place(fd_.get(), temporary->c_str(), name.c_str())) {
    result = error == EEXIST ? publication{outcome::already_there, 0, ""}
                             : publication{outcome::failed, error, "link"};
  }
  unlinkat(fd_.get(), temporary->c_str(), 0);
  return result;
}

std::vector<disk_folder::listed> disk_folder::scan(std::uint64_t& swept) const {
  // Its own description: a duplicate would share the read position with every other scan.
  int const fd = openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return {};
  std::unique_ptr<DIR, int (*)(DIR*)> const stream(fdopendir(fd), closedir);
  if (!stream) {
    close(fd);
    return {};
  }
  std::vector<listed> entries;
  while (dirent const* const item = readdir(stream.get())) {
    auto const kind = kind_of(item->d_name);
    if (kind == file_kind::foreign) continue;
    struct stat file{};
    if (fstatat(fd_.get(), item->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(file.st_mode)) continue;
    switch (kind) {
      case file_kind::entry:
        entries.push_back({item->d_name, static_cast<std::uint64_t>(file.st_size), file.st_mtim});
        break;
      case file_kind::lock:
        if (is_stale(file) && remove_unheld_lock(fd_.get(), item->d_name)) ++swept;
        break;
      case file_kind::temporary:
        if (is_stale(file) && unlinkat(fd_.get(), item->d_name, 0) == 0) ++swept;
        break;
      case file_kind::foreign: break;
    }
  }
  return entries;
}

std::uint64_t disk_folder::evict(std::vector<listed> entries, std::uint64_t& total, std::uint64_t cap,
                                 std::string const& keep) const {
  std::ranges::sort(entries, [](listed const& a, listed const& b) {
    if (earlier(a.used, b.used) || earlier(b.used, a.used)) return earlier(a.used, b.used);
    return a.name < b.name;
  });
  auto const kept = entry_file_name(keep);
  std::uint64_t evicted = 0;
  for (auto const& entry : entries) {
    if (total <= cap) break;
    if (entry.name == kept) continue;
    struct stat file{};
    bool const there = fstatat(fd_.get(), entry.name.c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && earlier(entry.used, file.st_mtim)) continue;  // used since the scan
    // Also counted when another process was faster: two that evict at once must not take twice as much.
    if (there && unlinkat(fd_.get(), entry.name.c_str(), 0) != 0 && errno != ENOENT) continue;
    if (there) ++evicted;
    total -= std::min(total, entry.bytes);
  }
  return evicted;
}

}  // namespace reprise::jit
