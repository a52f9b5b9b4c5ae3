// What the process tests share: a folder of their own, and workers started with an environment of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace process {

class scratch {
 public:
  scratch();
  ~scratch();
  scratch(scratch const&) = delete;
  scratch& operator=(scratch const&) = delete;
  std::filesystem::path const& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string contents(std::filesystem::path const& file);
void write(std::filesystem::path const& file, std::string_view bytes);

// Names in the folder with that suffix, sorted; none when the folder is not there.
std::vector<std::string> files(std::filesystem::path const& folder, std::string_view suffix = "");
std::vector<std::string> keys(std::filesystem::path const& folder);  // the entries' names

struct start {
  std::map<std::string, std::string> environment;  // all of it
  std::string what = "all";                        // or "one"
  std::string program{};                           // empty: the worker beside this test
  uid_t user = 0;                                  // not 0: the child becomes this user first
  bool fixed_addresses = false;                    // without address space randomisation
};

struct outcome {
  int status = -1;  // exit code, 1000 + a signal
  std::string said, out, err;
  // A number of the totals. Throws when there is none of this name.
  std::uint64_t total(std::string_view name) const;
  std::string checksum() const;
};

// A worker, running or finished.
class worker {
 public:
  explicit worker(start s);
  ~worker();
  worker(worker const&) = delete;
  worker& operator=(worker const&) = delete;
  pid_t id() const { return id_; }
  outcome finish();

 private:
  scratch folder_;
  pid_t id_ = -1;
};

outcome run(start s);

// A worker in an empty folder with the cache in `folder`, no other variable but those of `more`.
std::map<std::string, std::string> in(std::filesystem::path const& folder,
                                      std::map<std::string, std::string> more = {});

std::string const& right_checksum(std::string_view what);  // of a run without a disk cache

}  // namespace process
