// One compile per key across processes: an advisory lock on a file in the cache folder. The kernel frees it
// when its owner dies, so a killed compile blocks nobody; a living owner that takes too long is given up on.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "jit/disk_folder.h"

namespace reprise::jit {

class disk_lock {
 public:
  disk_lock() = default;
  disk_lock(disk_lock&& other) noexcept;
  disk_lock& operator=(disk_lock&& other) noexcept;
  ~disk_lock() { release(); }

  // False when the folder did not allow it or another owner took too long: the caller goes on without.
  bool held() const { return static_cast<bool>(fd_); }
  std::string const& why_not() const { return why_not_; }

  // Does nothing but close in a forked child, where the lock is still its parent's.
  void release();

  static disk_lock acquire(std::shared_ptr<disk_folder const> folder, std::string const& key_name,
                           std::chrono::milliseconds patience);
  static disk_lock refused(std::string why);

 private:
  std::shared_ptr<disk_folder const> folder_;
  std::string file_name_;
  std::string why_not_;
  file_descriptor fd_;
  pid_t owner_ = 0;
};

}  // namespace reprise::jit
