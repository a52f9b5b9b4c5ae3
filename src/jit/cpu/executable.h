// A plan, loaded: for each step what to call, where its pointers come from, and how much of the calling
// thread's workspace it needs. A run allocates nothing once the workspace has its size.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "jit/backend.h"
#include "jit/cpu/arena.h"
#include "jit/cpu/emit.h"
#include "jit/cpu/onednn.h"
#include "jit/cpu/orc.h"
#include "jit/cpu/parallel.h"

namespace reprise::cpu {

using kernel_function = void (*)(std::int64_t begin, std::int64_t end, void* const* buffers,
                                 std::uint64_t const* scalars, void* scratch);

// What executables of one backend share. It lives as long as the last of them.
struct shared_state {
  shared_state(int threads, bool separate) : memory(separate), threads(threads) {}
  ~shared_state();
  memory_pool memory;
  pool threads;
  linker link;
  // One workspace waits for the next run; runs at the same time take more from the pool.
  struct workspace {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };
  workspace take_workspace(std::size_t bytes);
  void give_workspace(workspace w) noexcept;
  void trim() noexcept;
  std::atomic<std::uint64_t> kernel_launches{0}, library_calls{0}, bytes_to_device{0}, bytes_to_host{0};

 private:
  std::mutex lock_;
  workspace waiting_;
};

// In the floating-point mode of docs/numbers.md: to nearest even, nothing flushed, nothing traps. Gives the
// thread its own back.
class float_mode {
 public:
  float_mode() noexcept;
  ~float_mode();
  float_mode(float_mode const&) = delete;
  float_mode& operator=(float_mode const&) = delete;

 private:
  std::uint32_t before_;
};

// All units of a kernel, shared among the threads when that is worth it. `stride`: bytes of scratch memory of
// each thread.
void run_kernel(pool& threads, kernel_function f, launch const& how, void* const* buffers,
                std::uint64_t const* scalars, std::byte* scratch, std::size_t stride) noexcept;

// One step as it is run. Which of the three it is says what is set.
struct loaded_step {
  enum class kind : std::uint8_t { kernel, library, copy } what = kind::copy;
  kernel_function function = nullptr;
  launch how;
  std::unique_ptr<library_call> call;
  bool bias = false;
  std::uint32_t first_argument = 0,
                arguments = 0;  // into loaded_plan::arguments: buffers in the order of the callee
  std::uint32_t first_scalar = 0, scalars = 0;  // into loaded_plan::scalars
  std::int64_t copy_bytes = 0;
};

class cpu_executable final : public jit::executable {
 public:
  // `steps` in the plan's order, `code` keeps their functions alive.
  cpu_executable(std::shared_ptr<shared_state> shared, jit::plan const& p, std::vector<loaded_step> steps,
                 std::vector<std::uint32_t> arguments, std::vector<std::uint32_t> scalars,
                 std::unique_ptr<loaded_code> code, std::size_t code_bytes);

  void run(jit::bindings const& b) override;
  std::uint64_t bytes() const override {
    return code_bytes_ + steps_.size() * sizeof(loaded_step) + sizeof *this;
  }
  std::uint32_t kernels() const override { return kernels_; }
  std::uint32_t library_calls() const override { return library_calls_; }

 private:
  struct buffer_source {
    jit::buffer_place place;
    std::uint32_t slot;
    std::int64_t offset;  // of a temporary, into the workspace
    std::int64_t bytes;
  };
  void bind(jit::bindings const& b, std::byte* arena, void** buffers) const;
  void run_step(loaded_step const& s, jit::bindings const& b, std::byte* scratch, void* const* buffers,
                void** table, std::uint64_t* scalars);
  void run_separate(jit::bindings const& b);

  std::shared_ptr<shared_state> shared_;
  std::vector<loaded_step> steps_;
  std::vector<std::uint32_t> arguments_, scalars_;
  std::vector<buffer_source> buffers_;
  std::unique_ptr<loaded_code> code_;
  std::size_t code_bytes_;
  std::size_t arena_bytes_ = 0, scratch_offset_ = 0, scratch_stride_ = 0, tables_offset_ = 0,
              workspace_bytes_ = 0;
  std::size_t most_arguments_ = 0, most_scalars_ = 0;
  std::uint32_t kernels_ = 0, library_calls_ = 0;
};

}  // namespace reprise::cpu
