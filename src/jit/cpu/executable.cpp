#include "jit/cpu/executable.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "reprise/error.h"

namespace reprise::cpu {
namespace {

constexpr std::uint32_t default_mode = 0x1f80;  // all exceptions masked, to nearest, denormals kept
constexpr std::uint32_t status_flags = 0x3f;
constexpr std::size_t tables_on_stack = 64;
constexpr std::size_t copy_grain = std::size_t{1} << 20;

std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct kernel_loop {
  kernel_function function;
  void* const* buffers;
  std::uint64_t const* scalars;
  std::byte* scratch;
  std::size_t stride;
  static void body(void* context, int slot, std::int64_t begin, std::int64_t end) {
    auto const& l = *static_cast<kernel_loop const*>(context);
    float_mode const mode;
    l.function(begin, end, l.buffers, l.scalars, l.scratch + static_cast<std::size_t>(slot) * l.stride);
  }
};

struct copy_loop {
  std::byte* to;
  std::byte const* from;
  static void body(void* context, std::int64_t begin, std::int64_t end) {
    auto const& c = *static_cast<copy_loop const*>(context);
    std::memcpy(c.to + begin, c.from + begin, static_cast<std::size_t>(end - begin));
  }
};

}  // namespace

float_mode::float_mode() noexcept : before_(_mm_getcsr()) {
  if ((before_ & ~status_flags) != default_mode) _mm_setcsr(default_mode);
}
float_mode::~float_mode() {
  if ((before_ & ~status_flags) != default_mode) _mm_setcsr(before_);
}

void run_kernel(pool& threads, kernel_function f, launch const& how, void* const* buffers,
                std::uint64_t const* scalars, std::byte* scratch, std::size_t stride) noexcept {
  if (how.units < 2 * how.grain) return f(0, how.units, buffers, scalars, scratch);
  kernel_loop l{f, buffers, scalars, scratch, stride};
  threads.run(how.units, how.grain, kernel_loop::body, &l);
}

shared_state::~shared_state() { memory.deallocate(waiting_.memory, waiting_.bytes); }

shared_state::workspace shared_state::take_workspace(std::size_t bytes) {
  workspace w;
  {
    std::lock_guard const hold(lock_);
    std::swap(w, waiting_);
  }
  if (w.bytes >= bytes) return w;
  memory.deallocate(w.memory, w.bytes);
  return {memory.allocate(bytes), bytes};
}

void shared_state::give_workspace(workspace w) noexcept {
  {
    std::lock_guard const hold(lock_);
    if (w.bytes > waiting_.bytes) std::swap(w, waiting_);
  }
  if (w.memory) memory.deallocate(w.memory, w.bytes);
}

void shared_state::trim() noexcept {
  workspace w;
  {
    std::lock_guard const hold(lock_);
    std::swap(w, waiting_);
  }
  memory.deallocate(w.memory, w.bytes);
  memory.trim();
}

cpu_executable::cpu_executable(std::shared_ptr<shared_state> shared, jit::plan const& p,
                               std::vector<loaded_step> steps, std::vector<std::uint32_t> arguments,
                               std::vector<std::uint32_t> scalars, std::unique_ptr<loaded_code> code,
                               std::size_t code_bytes)
    : shared_(std::move(shared)),
      steps_(std::move(steps)),
      arguments_(std::move(arguments)),
      scalars_(std::move(scalars)),
      code_(std::move(code)),
      code_bytes_(code_bytes),
      arena_bytes_(static_cast<std::size_t>(p.arena_bytes)) {
  for (auto const& b : p.buffers) buffers_.push_back({b.place, b.slot, b.offset, b.bytes()});
  std::size_t scratch = 0, library = 0;
  for (auto const& s : steps_) {
    most_arguments_ = std::max<std::size_t>(most_arguments_, s.arguments);
    most_scalars_ = std::max<std::size_t>(most_scalars_, s.scalars);
    switch (s.what) {
      case loaded_step::kind::kernel:
        scratch = std::max(scratch, rounded(static_cast<std::size_t>(s.how.scratch_bytes)));
        ++kernels_;
        break;
      case loaded_step::kind::library:
        library = std::max(library, s.call->workspace_bytes());
        ++library_calls_;
        break;
      case loaded_step::kind::copy: break;
    }
  }
  // [temporaries][scratch of each thread, or a library's workspace][tables of pointers and scalars]
  scratch_offset_ = rounded(arena_bytes_);
  scratch_stride_ = scratch;
  tables_offset_ = scratch_offset_ +
                   rounded(std::max(scratch * static_cast<std::size_t>(shared_->threads.threads()), library));
  workspace_bytes_ = tables_offset_;
  if (std::max({buffers_.size(), most_arguments_, most_scalars_}) > tables_on_stack)
    workspace_bytes_ += 8 * (buffers_.size() + most_arguments_ + most_scalars_);
}

void cpu_executable::run_step(loaded_step const& s, jit::bindings const& b, std::byte* scratch,
                              void* const* buffers, void** table, std::uint64_t* scalars) {
  std::uint32_t const* const which = arguments_.data() + s.first_argument;
  for (std::uint32_t n = 0; n < s.arguments; ++n) table[n] = buffers[which[n]];
  switch (s.what) {
    case loaded_step::kind::kernel: {
      for (std::uint32_t n = 0; n < s.scalars; ++n) scalars[n] = b.scalars[scalars_[s.first_scalar + n]];
      run_kernel(shared_->threads, s.function, s.how, table, scalars, scratch, scratch_stride_);
      break;
    }
    case loaded_step::kind::library:
      s.call->run(table[0], table[1], s.bias ? table[2] : nullptr, table[s.arguments - 1], scratch);
      break;
    case loaded_step::kind::copy: {
      auto const bytes = static_cast<std::size_t>(s.copy_bytes);
      if (table[0] == table[1] || bytes == 0) break;
      if (bytes < 2 * copy_grain) {
        std::memcpy(table[1], table[0], bytes);
      } else {
        copy_loop c{static_cast<std::byte*>(table[1]), static_cast<std::byte const*>(table[0])};
        shared_->threads.run(s.copy_bytes, static_cast<std::int64_t>(copy_grain), copy_loop::body, &c);
      }
      break;
    }
  }
}

void cpu_executable::bind(jit::bindings const& b, std::byte* arena, void** buffers) const {
  for (std::size_t n = 0; n < buffers_.size(); ++n) {
    buffer_source const& s = buffers_[n];
    switch (s.place) {
      case jit::buffer_place::parameter: buffers[n] = b.parameters[s.slot]; break;
      case jit::buffer_place::result: buffers[n] = b.results[s.slot]; break;
      case jit::buffer_place::temporary: buffers[n] = arena ? arena + s.offset : nullptr; break;
    }
  }
}

void cpu_executable::run(jit::bindings const& b) {
  float_mode const mode;
  if (shared_->memory.separate()) return run_separate(b);
  struct lent {
    shared_state& s;
    shared_state::workspace w;
    ~lent() {
      if (w.memory) s.give_workspace(w);
    }
  } const lent{*shared_,
               workspace_bytes_ == 0 ? shared_state::workspace{} : shared_->take_workspace(workspace_bytes_)};
  auto* const workspace = static_cast<std::byte*>(lent.w.memory);
  std::byte* const scratch = workspace + scratch_offset_;
  if (tables_offset_ == workspace_bytes_) {
    void *buffers[tables_on_stack], *table[tables_on_stack];
    std::uint64_t scalars[tables_on_stack];
    bind(b, workspace, buffers);
    for (auto const& s : steps_) run_step(s, b, scratch, buffers, table, scalars);
  } else {
    auto** const buffers = reinterpret_cast<void**>(workspace + tables_offset_);
    void** const table = buffers + buffers_.size();
    auto* const scalars = reinterpret_cast<std::uint64_t*>(table + most_arguments_);
    bind(b, workspace, buffers);
    for (auto const& s : steps_) run_step(s, b, scratch, buffers, table, scalars);
  }
  shared_->kernel_launches.fetch_add(kernels_, std::memory_order_relaxed);
  if (library_calls_ != 0) shared_->library_calls.fetch_add(library_calls_, std::memory_order_relaxed);
}

// Each temporary, and the scratch memory, is an allocation of its own.
void cpu_executable::run_separate(jit::bindings const& b) {
  struct blocks {
    memory_pool& memory;
    std::vector<std::pair<void*, std::size_t>> held;
    void* take(std::size_t bytes) {
      held.reserve(held.size() + 1);
      held.emplace_back(memory.allocate(bytes), bytes);
      return held.back().first;
    }
    ~blocks() {
      for (auto [p, bytes] : held) memory.deallocate(p, bytes);
    }
  } taken{shared_->memory, {}};
  std::vector<void*> buffers(buffers_.size());
  bind(b, nullptr, buffers.data());
  for (std::size_t n = 0; n < buffers_.size(); ++n)
    if (buffers_[n].place == jit::buffer_place::temporary)
      buffers[n] = taken.take(static_cast<std::size_t>(buffers_[n].bytes));
  auto* const scratch = static_cast<std::byte*>(taken.take(tables_offset_ - scratch_offset_));
  std::vector<void*> table(most_arguments_ + 1);
  std::vector<std::uint64_t> scalars(most_scalars_ + 1);
  for (auto const& s : steps_) run_step(s, b, scratch, buffers.data(), table.data(), scalars.data());
  shared_->kernel_launches.fetch_add(kernels_, std::memory_order_relaxed);
  shared_->library_calls.fetch_add(library_calls_, std::memory_order_relaxed);
}

}  // namespace reprise::cpu
