#include "apps/programs.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace reprise::test {

namespace {

std::string quoted(std::string const& text) {
  std::string out = "'";
  for (char const c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

outcome run(std::vector<std::string> const& command, variables const& environment) {
  if (!environment.contains("REPRISE_CACHE_DIR")) throw std::logic_error("run: no REPRISE_CACHE_DIR");
  scratch const folder;
  std::string line = "env";
  for (auto const& [name, value] : environment) line += ' ' + quoted(name + '=' + value);
  for (auto const& word : command) line += ' ' + quoted(word);
  line +=
      " >" + quoted((folder / "out").string()) + " 2>" + quoted((folder / "err").string()) + " </dev/null";
  int const status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(folder / "out"),
          contents(folder / "err")};
}

scratch::scratch() {
  std::string name = (std::filesystem::temp_directory_path() / "reprise-apps-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

scratch::~scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string contents(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error(file.string() + " is not there");
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_one_line(std::string const& text) {
  return !text.empty() && text.back() == '\n' && std::count(text.begin(), text.end(), '\n') == 1;
}

}  // namespace reprise::test
