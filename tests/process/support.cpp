#include "process/support.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace process {

scratch::scratch() {
  std::string name = (std::filesystem::temp_directory_path() / "reprise-process-XXXXXX").string();
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

void write(std::filesystem::path const& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::ptrdiff_t>(bytes.size()));
  if (!out.flush()) throw std::runtime_error(file.string() + " cannot be written");
  out.close();
  std::filesystem::permissions(file, std::filesystem::perms(0600));
}

std::vector<std::string> files(std::filesystem::path const& folder, std::string_view suffix) {
  std::vector<std::string> out;
  std::error_code absent;
  for (auto const& item : std::filesystem::directory_iterator(folder, absent))
    if (item.path().filename().string().ends_with(suffix)) out.push_back(item.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> keys(std::filesystem::path const& folder) { return files(folder, ".entry"); }

std::uint64_t outcome::total(std::string_view name) const {
  std::string const quoted = '"' + std::string(name) + '"';
  auto at = said.find(quoted);
  if (at == std::string::npos) throw std::runtime_error("no " + quoted + " in: " + said);
  at = said.find_first_not_of(" :", at + quoted.size());
  return std::stoull(said.substr(at));
}

std::string outcome::checksum() const {
  constexpr std::string_view name = "\"checksum\": \"";
  auto const at = said.find(name);
  if (at == std::string::npos) return "none: " + said + err;
  return said.substr(at + name.size(), said.find('"', at + name.size()) - at - name.size());
}

worker::worker(start s) {
  if (s.program.empty()) s.program = PROCESS_WORKER;
  std::string const said = (folder_ / "said").string();
  std::vector<std::string> variables;
  for (auto const& [name, value] : s.environment) variables.push_back(name + '=' + value);
  std::vector<char*> environment;
  for (auto& v : variables) environment.push_back(v.data());
  environment.push_back(nullptr);
  char* words[] = {s.program.data(), s.what.data(), const_cast<char*>(said.c_str()), nullptr};
  std::string const out = (folder_ / "out").string(), err = (folder_ / "err").string();
  if (s.user != 0) std::filesystem::permissions(folder_.path(), std::filesystem::perms(0777));
  id_ = fork();
  if (id_ < 0) throw std::runtime_error("fork");
  if (id_ != 0) return;
  if (s.fixed_addresses) personality(ADDR_NO_RANDOMIZE);
  if (s.user != 0 && (setgroups(0, nullptr) != 0 || setgid(s.user) != 0 || setuid(s.user) != 0)) _exit(101);
  int const to_out = open(out.c_str(), O_WRONLY | O_CREAT, 0600),
            to_err = open(err.c_str(), O_WRONLY | O_CREAT, 0600);
  if (dup2(to_out, 1) < 0 || dup2(to_err, 2) < 0) _exit(102);
  execve(s.program.c_str(), words, environment.data());
  _exit(103);
}

worker::~worker() {
  if (id_ > 0) finish();
}

outcome worker::finish() {
  outcome result;
  int status = 0;
  while (waitpid(id_, &status, 0) < 0)
    if (errno != EINTR) throw std::runtime_error("waitpid");
  id_ = -1;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  auto const read = [&](char const* name) {
    return std::filesystem::exists(folder_ / name) ? contents(folder_ / name) : std::string();
  };
  result.said = read("said");
  result.out = read("out");
  result.err = read("err");
  return result;
}

outcome run(start s) { return worker(std::move(s)).finish(); }

std::map<std::string, std::string> in(std::filesystem::path const& folder,
                                      std::map<std::string, std::string> more) {
  more.emplace("REPRISE_CACHE_DIR", folder.string());
  more.emplace("REPRISE_TUNE", "off");  // measuring takes time, and its result is no right or wrong
  return more;
}

std::string const& right_checksum(std::string_view what) {
  static std::map<std::string, std::string, std::less<>> known;
  auto const found = known.find(what);
  if (found != known.end()) return found->second;
  auto const result =
      run({.environment = {{"REPRISE_CACHE", "off"}, {"REPRISE_TUNE", "off"}}, .what = std::string(what)});
  if (result.status != 0) throw std::runtime_error("the worker fails: " + result.said + result.err);
  return known.emplace(what, result.checksum()).first->second;
}

}  // namespace process
