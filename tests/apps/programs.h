// Running a program as a user does: its exit status, what it wrote, and folders of the test's own.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace reprise::test {

struct outcome {
  int status = -1;  // the exit status; 128 and the signal's number when one killed it
  std::string out, err;
};

using variables = std::map<std::string, std::string>;

// With these variables set above the test's own environment. REPRISE_CACHE_DIR is always one that the caller
// gave.
outcome run(std::vector<std::string> const& command, variables const& environment);

// An empty folder that goes with its owner.
class scratch {
 public:
  scratch();
  ~scratch();
  scratch(scratch const&) = delete;
  scratch& operator=(scratch const&) = delete;
  std::filesystem::path operator/(std::string const& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string contents(std::filesystem::path const& file);

// One line that ends with a newline, and nothing else.
bool is_one_line(std::string const& text);

}  // namespace reprise::test
