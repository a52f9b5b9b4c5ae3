#include "jit/cpu/direct.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "reprise/error.h"

namespace reprise::cpu {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t most_measured_bytes = std::size_t{1} << 30;

// Numbers near one of the dtype, none of them 0 (a library may be faster with zeros), none denormal.
void fill(void* p, dtype type, std::int64_t elements) {
  auto each = [&]<class T>(T const& low, T const& high) {
    auto* const to = static_cast<T*>(p);
    for (std::int64_t i = 0; i < elements; ++i) to[i] = i % 3 == 0 ? high : low;
  };
  switch (type) {
    case dtype::boolean:
    case dtype::u8: return each(std::uint8_t{1}, std::uint8_t{1});
    case dtype::i32: return each(std::int32_t{1}, std::int32_t{-2});
    case dtype::i64: return each(std::int64_t{1}, std::int64_t{-2});
    case dtype::f16: return each(float16(0.5f).bits, float16(-0.75f).bits);
    case dtype::bf16: return each(bfloat16(0.5f).bits, bfloat16(-0.75f).bits);
    case dtype::f32: return each(0.5f, -0.75f);
    case dtype::f64: return each(0.5, -0.75);
  }
}

// The fastest of several runs: at least three, about 8 ms.
template <class F>
double fastest(F const& run) {
  run();
  double best = 1e30;
  auto const start = clock::now();
  for (int n = 0; n < 200; ++n) {
    auto const before = clock::now();
    run();
    auto const after = clock::now();
    best = std::min(best, std::chrono::duration<double>(after - before).count());
    if (n >= 2 && after - start > std::chrono::milliseconds(8)) break;
  }
  return best;
}

}  // namespace

bool is_library_step(jit::step const& s) {
  return std::holds_alternative<jit::matmul_step>(s.work) || std::holds_alternative<jit::conv2d_step>(s.work);
}

std::unique_ptr<library_call> make_library_call(onednn const& library, pool& threads, jit::step const& s,
                                                std::string& reason) {
  if (auto const* m = std::get_if<jit::matmul_step>(&s.work))
    return make_matmul(library, threads, dense(*m), reason);
  if (auto const* c = std::get_if<jit::conv2d_step>(&s.work))
    return make_conv2d(library, threads, *c, reason);
  throw compile_error("a step that is no library call");
}

jit::choice fixed_choice(jit::step const& s) {
  if (auto const* c = std::get_if<jit::conv2d_step>(&s.work))
    return c->c / std::max<std::int64_t>(c->groups, 1) * c->kh * c->kw <= 64 ? jit::choice::generated
                                                                             : jit::choice::library;
  return jit::choice::library;
}

jit::choice measured_choice(jit::plan const& p, jit::step const& s, library_call const& call,
                            kernel_function function, launch how, shared_state& shared) {
  std::vector<jit::buffer_id> buffers = s.operands;
  buffers.insert(buffers.end(), s.written.begin(), s.written.end());
  std::size_t total = 0;
  for (auto b : buffers) total += static_cast<std::size_t>(p.buffers[b].bytes());
  if (total > most_measured_bytes) return fixed_choice(s);
  struct memory {
    memory_pool& pool;
    std::vector<std::pair<void*, std::size_t>> blocks;
    ~memory() {
      for (auto [q, bytes] : blocks) pool.deallocate(q, bytes);
    }
    void* take(std::size_t bytes) {
      blocks.reserve(blocks.size() + 1);
      blocks.emplace_back(pool.allocate(bytes), bytes);
      return blocks.back().first;
    }
  } held{shared.memory, {}};
  std::vector<void*> table;
  for (auto b : buffers) {
    auto const& buffer = p.buffers[b];
    table.push_back(held.take(static_cast<std::size_t>(buffer.bytes())));
    fill(table.back(), buffer.type, buffer.elements);
  }
  void* const workspace = held.take(call.workspace_bytes());
  auto const threads = static_cast<std::size_t>(shared.threads.threads());
  std::size_t const stride = (static_cast<std::size_t>(how.scratch_bytes) + 255) / 256 * 256;
  auto* const scratch = static_cast<std::byte*>(held.take(stride * threads));
  bool const bias = s.operands.size() > 2;
  double const library =
      fastest([&] { call.run(table[0], table[1], bias ? table[2] : nullptr, table.back(), workspace); });
  double const generated =
      fastest([&] { run_kernel(shared.threads, function, how, table.data(), nullptr, scratch, stride); });
  return generated < library ? jit::choice::generated : jit::choice::library;
}

}  // namespace reprise::cpu
