// Object files into callable memory, by LLVM's JITLink. What a loaded object refers to is a fixed list of
// host functions, so that an object of the disk cache links in any process. No compiler is made here.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace reprise::cpu {

// Loaded code; unloads it when destroyed. May outlive the linker that made it.
class loaded_code {
 public:
  virtual ~loaded_code() = default;
  virtual void* address(std::string const& symbol) = 0;  // throws format_error when there is none
};

class linker {
 public:
  linker();
  ~linker();
  // Thread-safe. Throws format_error when the bytes are not an object that links.
  std::unique_ptr<loaded_code> load(std::span<std::vector<std::byte> const> objects);

 private:
  struct session;
  struct library;
  std::shared_ptr<session> session_;
};

}  // namespace reprise::cpu
