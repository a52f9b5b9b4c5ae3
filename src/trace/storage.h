// Values and the memory behind them. A value is ready (it has a buffer), pending (a node of one tape),
// running (its program has left the tape) or lost (with the reason). Ready never changes again, so ready
// values are read without a lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <reprise/handle.h>

#include "trace/session.h"

namespace reprise::record {

using reprise::detail::handle;
using reprise::detail::value_base;

// Memory of one array. Borrowed memory is a caller's, for the length of one call.
class buffer {
 public:
  buffer(std::shared_ptr<session> s, std::size_t bytes);  // throws out_of_memory
  buffer(std::shared_ptr<session> s, void* borrowed, std::size_t bytes);
  ~buffer();
  buffer(buffer const&) = delete;
  buffer& operator=(buffer const&) = delete;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  bool borrowed() const { return borrowed_; }

 private:
  std::shared_ptr<session> session_;
  void* data_;
  std::size_t bytes_;
  bool borrowed_;
};

// One program on its way from a tape to its results; whoever needs one of them waits here.
class flight {
 public:
  void land() {
    {
      std::lock_guard hold(lock_);
      landed_ = true;
    }
    arrived_.notify_all();
  }
  void wait() {
    std::unique_lock hold(lock_);
    arrived_.wait(hold, [&] { return landed_; });
  }

 private:
  std::mutex lock_;
  std::condition_variable arrived_;
  bool landed_ = false;
};

class tape;

enum class value_state : std::uint8_t { pending, running, ready, lost };

struct value : value_base {
  std::atomic<value_state> state{value_state::pending};
  std::atomic_flag guard;  // over the fields below, except once ready
  ir::node_id node = ir::no_node;
  std::shared_ptr<session> home;
  std::shared_ptr<tape> on;                      // pending
  std::shared_ptr<flight> in;                    // running
  std::shared_ptr<buffer> storage;               // ready
  std::string reason;                            // lost
  void const* host_address = nullptr;            // of a borrowed value: the caller's memory
  std::shared_ptr<std::string const> host_copy;  // of a device value: what reading brought over

  ir::tensor_type tensor() const { return {type, extents}; }
};

class guarded {  // scope of a value's guard
 public:
  explicit guarded(value& v) : v_(v) {
    while (v_.guard.test_and_set(std::memory_order_acquire)) {}
  }
  ~guarded() { v_.guard.clear(std::memory_order_release); }
  guarded(guarded const&) = delete;
  guarded& operator=(guarded const&) = delete;

 private:
  value& v_;
};

inline value& of(handle const& h) { return *static_cast<value*>(h.get()); }

std::size_t bytes_of(ir::tensor_type const& t);
handle make_ready(std::shared_ptr<session> s, ir::tensor_type const& t, std::shared_ptr<buffer> memory);
void complete(value& v, std::shared_ptr<buffer> memory);
void lose(value& v, std::string reason);

// Makes a value ready: waits for it, or runs what it needs. Throws what running threw, or why it was lost.
void make_ready(handle const& h);

}  // namespace reprise::record
