// What the cache tests share: a folder of their own, entries with known contents, and children that report by
// exit code.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "jit/disk_cache.h"

namespace reprise::jit::testing {

class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "reprise_cache_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp " + pattern);
    path_ = pattern;
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;

  std::filesystem::path const& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline disk_options in(std::filesystem::path const& path, std::uint64_t cap = std::uint64_t{1} << 30) {
  return {path, cap, true};
}

// Does not compress, so sizes on disk are known.
inline std::vector<std::byte> noise(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(count);
  for (auto& byte : out) byte = static_cast<std::byte>(random() & 0xff);
  return out;
}

inline std::vector<std::byte> text(std::string_view characters) {
  auto const bytes = std::as_bytes(std::span(characters));
  return {bytes.begin(), bytes.end()};
}

inline cache_entry entry_of(std::size_t bytes, std::uint64_t seed) {
  return {{{"plan", text("plan " + std::to_string(seed))}, {"objects", noise(bytes, seed)}}};
}

inline std::vector<std::string> files_with(std::filesystem::path const& folder, std::string_view suffix) {
  std::vector<std::string> out;
  for (auto const& item : std::filesystem::directory_iterator(folder))
    if (item.path().filename().string().ends_with(suffix)) out.push_back(item.path().filename().string());
  return out;
}

inline std::filesystem::path entry_path(std::filesystem::path const& folder, std::string_view key) {
  return folder / entry_file_name(key_name(key));
}

inline std::vector<std::byte> read_file(std::filesystem::path const& path) {
  std::ifstream stream(path, std::ios::binary);
  std::vector<char> const chars{std::istreambuf_iterator<char>(stream), {}};
  auto const bytes = std::as_bytes(std::span(chars));
  return {bytes.begin(), bytes.end()};
}

inline void write_file(std::filesystem::path const& path, std::span<std::byte const> bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(reinterpret_cast<char const*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  chmod(path.c_str(), 0600);
}

inline void set_age(std::filesystem::path const& path, std::chrono::seconds age) {
  timespec times[2];
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= age.count();
  times[1] = times[0];
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0) << path;
}

// A log that tests can read.
class memo {
 public:
  std::function<void(std::string_view)> sink() {
    return [this](std::string_view line) {
      std::lock_guard const guard(mutex_);
      lines_.emplace_back(line);
    };
  }
  std::size_t count(std::string_view part) const {
    std::lock_guard const guard(mutex_);
    std::size_t found = 0;
    for (auto const& line : lines_) found += line.find(part) != line.npos;
    return found;
  }
  std::string all() const {
    std::lock_guard const guard(mutex_);
    std::string out;
    for (auto const& line : lines_) out += line + "\n";
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Runs `body` in a forked child, whose exit code it is; a child that hangs is killed by its alarm, one that
// throws exits with 99. A child must not use gtest's assertions.
template <class Body>
pid_t start_child(Body&& body) {
  std::fflush(nullptr);
  pid_t const child = fork();
  if (child != 0) return child;
  alarm(20);
  int code = 99;
  try {
    code = body();
  } catch (std::exception const& e) { std::fprintf(stderr, "child: %s\n", e.what()); }
  _exit(code);
}

// The exit code, or 1000 + the signal that ended it.
inline int finish(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

template <class Body>
int in_child(Body&& body) {
  return finish(start_child(std::forward<Body>(body)));
}

// Becomes an ordinary user (only where we are root).
inline bool become_user(uid_t user) {
  return setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}
inline bool am_root() { return geteuid() == 0; }

// Children wait until all of them are there.
class starting_gun {
 public:
  starting_gun() {
    if (pipe(ends_) != 0) throw std::runtime_error("pipe");
  }
  ~starting_gun() {
    for (int const end : ends_)
      if (end >= 0) close(end);
  }
  void wait() {
    close(ends_[1]);
    ends_[1] = -1;
    char byte = 0;
    static_cast<void>(!read(ends_[0], &byte, 1));
  }
  void fire() {
    close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2];
};

}  // namespace reprise::jit::testing
