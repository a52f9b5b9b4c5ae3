// A tape is a recording in progress: the operations of one thread in one context, appended as they are
// called. The ambient tape takes what happens outside traces; a traced call has its own. Values are named
// weakly: a node whose value has died is dead unless another node needs it. Results leave the tape as
// programs.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "trace/program.h"
#include "trace/storage.h"

namespace reprise::record {

// What a parameter of the tape's program is: a ready value, or a run-time number.
struct input {
  handle array;  // empty for a number
  std::uint64_t scalar_id = 0;
  std::uint64_t bits = 0;
};

class tape : public std::enable_shared_from_this<tape> {
 public:
  tape(std::shared_ptr<session> s, bool traced);

  std::mutex lock;
  std::shared_ptr<session> home;
  bool const traced;

  // Facts about a traced body, read after it: whether its program depends on more than its arguments.
  bool read = false;          // the host looked at a value
  bool captured = false;      // an array or number was reached that was not an argument
  std::size_t arguments = 0;  // the first parameters are the call's arguments

  std::vector<handle> readable;  // arrays that host_read allows bulk reads of, for this body

  ir::program program;
  std::vector<value*> owners;  // of each node: the living value that it is, or null
  std::vector<input> inputs;   // of each parameter
  std::unordered_map<void const*, ir::node_id> known_values;
  std::unordered_map<std::uint64_t, ir::node_id> known_scalars;

  ir::node_id node_of_input(handle const& ready);  // with the lock held
  ir::node_id node_of_scalar(std::uint64_t id, dtype type, std::uint64_t bits);
  std::uint32_t line(location at);
  void clear();

 private:
  struct site {
    char const* file = nullptr;
    int line = 0;
    std::uint32_t index = 0;
  };
  site sites_[64];
};

// A program that left a tape, and whom its results belong to.
struct departure {
  std::shared_ptr<session> home;
  ir::program program;          // canonical
  std::vector<input> inputs;    // of each parameter of the program
  std::vector<handle> outputs;  // values that become ready; several may name one result
  std::vector<std::uint32_t> result_of_output;
  std::shared_ptr<flight> in;
};

// What running a departure used: enough to replay it.
struct arrival {
  prepared code;
  std::shared_ptr<ir::program const> program;
};

// Takes everything off the tape that `wanted` living values need (all living ones when empty); they are
// running afterwards. Returns false if there is nothing to run. Locks the tape. Results are in the order of
// `first`, then as they were recorded: C++ leaves the order of a call's arguments to the compiler, and the
// program must not depend on it.
bool depart(tape& t, std::span<value* const> wanted, departure& d,
            std::span<value_base const* const> first = {});
// Compiles and runs; outputs become ready, or lost when it throws. Holds no lock.
arrival run(departure& d, tally& count, std::vector<std::string>& compile_reasons);

// The tapes of this thread.
tape* current_trace();  // the innermost traced body, or null
void push_trace(std::shared_ptr<tape> t);
std::shared_ptr<tape> pop_trace();
std::shared_ptr<tape> tape_for(
    std::shared_ptr<session> const& s);  // the trace's, or the ambient one of the context
bool recording_here(tape const& t);

// One operation being recorded: resolves operands, appends nodes, and ends with the value of one node.
class editor {
 public:
  editor(std::span<handle const* const> operands, char const* operation, location at);
  ir::node_id in(handle const& h);
  ir::node_id scalar(std::uint64_t id, dtype type, std::uint64_t bits);
  ir::node_id constant(dtype type, std::uint64_t bits);
  ir::node_id add(ir::op code, std::span<ir::node_id const> operands, ir::words attributes);
  ir::node_id add(ir::op code, std::initializer_list<ir::node_id> operands,
                  std::initializer_list<std::int64_t> attributes = {});
  ir::tensor_type type_of(ir::node_id n) const { return tape_->program.type_of(n); }
  ir::node_id cast(ir::node_id n, dtype to);
  ir::node_id reshape(ir::node_id n, shape const& to);
  ir::node_id broadcast(ir::node_id n, shape const& to);  // NumPy's rule; no node when it has the shape
  handle finish(ir::node_id n);
  [[noreturn]] void fail(std::string const& why) const;  // argument_error with operation and line

 private:
  std::shared_ptr<tape> tape_;
  std::unique_lock<std::mutex> hold_;
  char const* operation_;
  location at_;
  std::uint32_t line_;
};

// "operation: why (file:line)".
std::string message(std::string_view operation, std::string_view why, location at);

}  // namespace reprise::record
