// The cache's folder on disk: which folder may be used at all (entries are code, so nobody else may own or
// write it), and the few file operations on it. Every operation goes through the descriptor of the folder
// that was checked, never through its path again, so nobody can exchange it in between. Files that do not
// bear one of our names are not touched: <32 hex>.entry, <32 hex>.lock, <32 hex>.<16 hex>.tmp.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "jit/disk_entry.h"

namespace reprise::jit {

class file_descriptor {
 public:
  file_descriptor() = default;
  explicit file_descriptor(int fd) : fd_(fd) {}
  file_descriptor(file_descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~file_descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

std::string errno_text(int error);

inline constexpr std::chrono::hours stale_after{1};

class disk_folder {
 public:
  struct opening {
    std::shared_ptr<disk_folder const> folder;  // null when refused
    std::string refusal;
  };
  // Creates the folder with its parents (mode 0700) where it is missing.
  static opening open(std::filesystem::path const& path);

  struct file_identity {
    dev_t device = 0;
    ino_t inode = 0;
  };
  struct contents {
    std::vector<std::byte> bytes;
    miss reason = miss::none;
    std::string detail;
    file_identity identity;  // of what lies there, also when it could not be read
  };
  // Marks the entry as used now when it can be read and the folder allows it.
  contents read(std::string const& key_name) const;

  // Removes the entry only while it is still that file, so that a good one which took its place stays.
  void remove(std::string const& key_name, file_identity identity) const;

  enum class outcome { published, already_there, failed };
  struct publication {
    outcome result = outcome::failed;
    int error = 0;
    char const* step = "";
  };
  // Temporary file, synced, linked into place; the first one to arrive stays.
  publication publish(std::string const& key_name, std::span<std::byte const> bytes) const;

  struct listed {
    std::string name;  // the file's
    std::uint64_t bytes = 0;
    timespec used{};
  };
  // The entries; on the way removes temporaries and unheld locks older than `stale_after`.
  std::vector<listed> scan(std::uint64_t& swept) const;

  // Removes least recently used entries until `total` is within the cap; `keep` (a key's name) stays. Returns
  // how many.
  std::uint64_t evict(std::vector<listed> entries, std::uint64_t& total, std::uint64_t cap,
                      std::string const& keep) const;

  int fd() const { return fd_.get(); }

  explicit disk_folder(file_descriptor fd) : fd_(std::move(fd)) {}

 private:
  file_descriptor fd_;
};

std::string entry_file_name(std::string const& key_name);
std::string lock_file_name(std::string const& key_name);

}  // namespace reprise::jit
