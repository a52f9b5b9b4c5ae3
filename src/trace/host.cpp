// Host memory in and out: copies of callers' memory, reads that finish the work, run-time numbers, text.
#include <algorithm>
#include <cstring>
#include <iostream>

#include <fmt/format.h>

#include <reprise/trace.h>

#include "trace/record.h"

namespace reprise::inline v1::detail {

using namespace record;

void throw_empty(location at) {
  throw argument_error(message("array", "this array is empty or moved-from", at));
}

handle from_host(dtype type, void const* data, shape const& extents, location) {
  tape* const trace = current_trace();
  std::shared_ptr<session> const home = trace ? trace->home : current_session();
  home->check_alive();
  ir::tensor_type const t{type, extents};
  auto memory = std::make_shared<buffer>(home, bytes_of(t));
  if (bytes_of(t)) {
    home->engine().to_device(memory->data(), data, bytes_of(t));
    tally count;
    count.bytes_to_device = bytes_of(t);
    home->add_to_totals(count);
  }
  return make_ready(home, t, std::move(memory));
}

bool is_recording() noexcept { return current_trace() != nullptr; }

void note_use(handle const& x) noexcept {
  tape* const t = current_trace();
  if (!t || !x) return;
  value& v = of(x);
  if (v.state.load(std::memory_order_acquire) != value_state::ready)
    return;  // made in this body, or recorded as read
  std::lock_guard hold(t->lock);
  if (!t->known_values.contains(x.get())) t->captured = true;
}

namespace {

// A read inside a traced body: what was recorded so far runs, and the body will run on every call.
void note_read(value const& v) {
  if (tape* t = current_trace(); t && t->home == v.home) {
    std::lock_guard hold(t->lock);
    t->read = true;
  }
}

}  // namespace

void host_read(handle const& x, location at) {
  if (!x) throw_empty(at);
  if (!current_trace()) return;
  note_read(of(x));
  current_trace()->readable.push_back(x);
}

void const* host_data(handle const& x, bool bulk, location at) {
  if (!x) throw_empty(at);
  value& v = of(x);
  if (bulk && current_trace()) {
    bool const allowed = std::find(current_trace()->readable.begin(), current_trace()->readable.end(), x) !=
                         current_trace()->readable.end();
    if (!allowed)
      throw argument_error(
          message("read",
                  fmt::format("this reads {} values into the host while recording; use any(), all() or "
                              "item(), or allow it with reprise::host_read(x)",
                              v.extents.size()),
                  at));
  }
  note_read(v);
  make_ready(x);
  v.home->check_alive();
  if (v.home->engine().host_visible()) {
    v.home->engine().wait();
    return v.storage->data();
  }
  {
    guarded g(v);
    if (v.host_copy) return v.host_copy->data();
  }
  auto copy = std::make_shared<std::string>(bytes_of(v.tensor()), '\0');
  if (!copy->empty()) {
    v.home->engine().to_host(copy->data(), v.storage->data(), copy->size());
    tally count;
    count.bytes_to_host = copy->size();
    v.home->add_to_totals(count);
  }
  guarded g(v);
  if (!v.host_copy) v.host_copy = std::move(copy);
  return v.host_copy->data();
}

std::uint64_t host_item(handle const& x, std::int64_t index, location at) {
  if (!x) throw_empty(at);
  value& v = of(x);
  std::int64_t const n = v.extents.size(), i = index < 0 ? index + n : index;
  if (i < 0 || i >= n)
    throw argument_error(
        message("read", fmt::format("index {} is out of range for shape {}", index, v.extents.str()), at));
  auto const* bytes = static_cast<char const*>(host_data(x, false, at));
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes + i * size_of(v.type), static_cast<std::size_t>(size_of(v.type)));
  return v.type == dtype::boolean ? bits != 0 : bits;
}

std::uint64_t next_scalar_id() noexcept {
  // Blocks of a thread's own, so that making a number is not a contended increment.
  static std::atomic<std::uint64_t> blocks{1};
  thread_local std::uint64_t next = 0, end = 0;
  if (next == end) {
    next = blocks.fetch_add(1, std::memory_order_relaxed) << 12;
    end = next + (1u << 12);
  }
  return next++;
}

void scalar_was_read(std::uint64_t) {
  if (tape* t = current_trace()) {
    std::lock_guard hold(t->lock);
    t->read = true;
  }
}

namespace {

std::string element_text(dtype type, char const* p) {
  switch (type) {
    case dtype::boolean: return *p ? "true" : "false";
    case dtype::u8: return fmt::format("{}", static_cast<unsigned char>(*p));
    case dtype::i32:
      return fmt::format("{}", element_of<std::int32_t>(*reinterpret_cast<std::uint32_t const*>(p)));
    case dtype::i64: return fmt::format("{}", *reinterpret_cast<std::int64_t const*>(p));
    case dtype::f16: return fmt::format("{:g}", f16_value(*reinterpret_cast<std::uint16_t const*>(p)));
    case dtype::bf16: return fmt::format("{:g}", bf16_value(*reinterpret_cast<std::uint16_t const*>(p)));
    case dtype::f32: return fmt::format("{:g}", *reinterpret_cast<float const*>(p));
    case dtype::f64: return fmt::format("{:g}", *reinterpret_cast<double const*>(p));
  }
  return {};
}

// As NumPy prints: long axes are shortened to three at each end.
void write(std::string& out, value const& v, char const* data, int axis, std::int64_t offset,
           std::int64_t stride) {
  if (axis == v.extents.rank()) {
    out += element_text(v.type, data + offset * size_of(v.type));
    return;
  }
  std::int64_t const n = v.extents[axis], inner = n ? stride / n : 0;
  out += '[';
  for (std::int64_t i = 0; i < n; ++i) {
    if (i)
      out +=
          axis + 1 == v.extents.rank() ? ", " : ",\n" + std::string(static_cast<std::size_t>(axis) + 1, ' ');
    if (v.extents.size() > 1000 && n > 6 && i == 3) {
      out += "...";
      i = n - 4;
      continue;
    }
    write(out, v, data, axis + 1, offset + i * inner, inner);
  }
  out += ']';
}

}  // namespace

std::string to_text(handle const& x, location at) {
  auto const* data = static_cast<char const*>(host_data(x, false, at));
  std::string out;
  write(out, of(x), data, 0, 0, of(x).extents.size());
  return out;
}

}  // namespace reprise::inline v1::detail

namespace reprise::inline v1 {

void print_text(std::string_view label, std::string const& text, std::ostream* to) {
  std::ostream& out = to ? *to : std::clog;
  if (!label.empty()) out << label << ": ";
  out << text << '\n';
}

}  // namespace reprise::inline v1
