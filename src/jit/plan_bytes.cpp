// A plan as bytes, for the disk cache. Numbers are variable-length (seven bits a byte; signed ones zigzag),
// lists are counted, and a count is believed only when the bytes that are left could hold it. Of a kernel's
// index expressions those are written that it uses: its atoms in their order, each after what is inside it,
// so that reading them back builds the same ones in the same order and the bytes of what was read are the
// bytes again.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include <reprise/error.h>

#include "jit/plan.h"

namespace reprise::jit {
namespace {

constexpr std::uint64_t version = 1;
constexpr std::string_view magic = "plan";

class writer {
 public:
  void number(std::uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_.push_back(static_cast<char>(v | 0x80));
    out_.push_back(static_cast<char>(v));
  }
  void integer(std::int64_t v) {
    std::uint64_t const u = static_cast<std::uint64_t>(v);
    number(u << 1 ^ (v < 0 ? ~std::uint64_t{0} : 0));
  }
  void flag(bool v) { out_.push_back(v ? 1 : 0); }
  template <class E>
    requires std::is_enum_v<E>
  void choice_of(E v) {
    out_.push_back(static_cast<char>(v));
  }
  void text(std::string_view s) {
    number(s.size());
    out_ += s;
  }
  void raw(std::string_view s) { out_ += s; }
  template <class T, class F>
  void list(std::vector<T> const& items, F&& each) {
    number(items.size());
    for (T const& item : items) each(item);
  }
  void ids(std::vector<std::uint32_t> const& items) {
    list(items, [&](std::uint32_t id) { number(id); });
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class reader {
 public:
  explicit reader(std::string_view bytes) : bytes_(bytes) {}

  [[noreturn]] void refuse(std::string_view what) const {
    throw format_error(fmt::format("plan: byte {}: {}", at_, what));
  }
  std::size_t left() const { return bytes_.size() - at_; }
  std::uint8_t byte() {
    if (left() == 0) refuse("the bytes end too early");
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  std::uint64_t number() {
    std::uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      std::uint8_t const b = byte();
      if (shift == 63 && b > 1) break;
      v |= static_cast<std::uint64_t>(b & 0x7f) << shift;
      if (b < 0x80) return v;
    }
    refuse("a number does not fit in 64 bits");
  }
  std::int64_t integer() {
    std::uint64_t const u = number();
    return static_cast<std::int64_t>(u >> 1 ^ (u & 1 ? ~std::uint64_t{0} : 0));
  }
  std::uint32_t id() {
    std::uint64_t const v = number();
    if (v > std::numeric_limits<std::uint32_t>::max()) refuse("a number does not fit in 32 bits");
    return static_cast<std::uint32_t>(v);
  }
  bool flag() {
    std::uint8_t const b = byte();
    if (b > 1) refuse("neither false nor true");
    return b == 1;
  }
  template <class E>
  E choice_of(E last, char const* what) {
    std::uint8_t const b = byte();
    if (b > static_cast<std::uint8_t>(last)) refuse(fmt::format("{} is not a {}", b, what));
    return static_cast<E>(b);
  }
  dtype type() { return choice_of(static_cast<dtype>(dtype_count - 1), "dtype"); }
  // Each item is at least one byte.
  std::size_t count() {
    std::uint64_t const n = number();
    if (n > left()) refuse(fmt::format("{} items do not fit in {} bytes", n, left()));
    return static_cast<std::size_t>(n);
  }
  std::string_view raw(std::size_t n) {
    if (n > left()) refuse("the bytes end too early");
    std::string_view const s = bytes_.substr(at_, n);
    at_ += n;
    return s;
  }
  std::string text() { return std::string(raw(count())); }
  template <class F>
  auto list(F&& each) {
    std::vector<std::invoke_result_t<F>> items;
    for (std::size_t n = count(); n > 0; --n) items.push_back(each());
    return items;
  }
  std::vector<std::uint32_t> ids() {
    return list([&] { return id(); });
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

bool uses_index(kop code) {
  return code == kop::index || code == kop::load || code == kop::load_local || code == kop::store ||
         code == kop::store_local;
}

// The expressions of a kernel that it uses, in the order in which they are written.
class expression_writer {
 public:
  expression_writer(kernel const& k, writer& out) : arena_(k.index), out_(out) {
    for (phase const& ph : k.phases)
      for (instruction const& i : ph.body)
        if (uses_index(i.code)) mark(i.index);
    for (std::size_t a = atom_used_.size(); a-- > 0;)  // an atom is younger than what is inside it
      if (atom_used_[a] && arena_.atoms()[a].kind != atom_kind::variable) mark(arena_.atoms()[a].operand);

    std::vector<std::int64_t> extents;
    for (std::uint32_t v = 0; v < arena_.variables(); ++v) extents.push_back(arena_.extent(v));
    out_.list(extents, [&](std::int64_t e) { out_.integer(e); });
    out_.number(static_cast<std::uint64_t>(std::count(atom_used_.begin(), atom_used_.end(), true)));
    for (std::size_t a = 0; a < atom_used_.size(); ++a)
      if (atom_used_[a]) write_atom(static_cast<std::uint32_t>(a));
  }

  void write(index_id id) {
    index_expression const& e = arena_.at(id);
    out_.integer(e.constant);
    out_.list(e.terms, [&](term t) {
      out_.number(atom_number_.at(t.atom));
      out_.integer(t.coefficient);
    });
  }

 private:
  void mark(index_id id) {
    for (term t : arena_.at(id).terms) {
      if (t.atom >= atom_used_.size()) atom_used_.resize(t.atom + 1);
      atom_used_[t.atom] = true;
    }
  }
  void write_atom(std::uint32_t a) {
    atom const& what = arena_.atoms()[a];
    out_.choice_of(what.kind);
    if (what.kind == atom_kind::variable) {
      out_.number(what.variable);
    } else {
      write(what.operand);
      out_.integer(what.divisor);
    }
    atom_number_.emplace(a, static_cast<std::uint32_t>(atom_number_.size()));
  }

  index_arena const& arena_;
  writer& out_;
  std::vector<bool> atom_used_;
  std::unordered_map<std::uint32_t, std::uint32_t> atom_number_;
};

class expression_reader {
 public:
  expression_reader(index_arena& arena, reader& in) : arena_(arena), in_(in) {
    for (std::int64_t extent : in_.list([&] { return in_.integer(); })) arena_.add_variable(extent);
    for (std::size_t n = in_.count(); n > 0; --n) atoms_.push_back(read_atom());
  }

  index_id read() {
    index_id sum = arena_.constant(small(in_.integer()));
    for (std::size_t n = in_.count(); n > 0; --n) {
      std::uint32_t const a = in_.id();
      if (a >= atoms_.size()) in_.refuse(fmt::format("an index expression uses the unknown atom {}", a));
      sum = arena_.add(sum, arena_.mul(atoms_[a], small(in_.integer())));
    }
    return sum;
  }

 private:
  // Program rule P6 keeps every number of an index far below this.
  std::int64_t small(std::int64_t v) const {
    constexpr std::int64_t limit = std::int64_t{1} << 62;
    if (v > limit || v < -limit) in_.refuse("a number of an index expression is too large");
    return v;
  }
  index_id read_atom() {
    switch (in_.choice_of(atom_kind::modulo, "kind of atom")) {
      case atom_kind::variable: return arena_.variable(in_.id());
      case atom_kind::divide: {
        index_id const operand = read();
        return arena_.divide(operand, small(in_.integer()));
      }
      case atom_kind::modulo: {
        index_id const operand = read();
        return arena_.modulo(operand, small(in_.integer()));
      }
    }
    in_.refuse("not a kind of atom");
  }

  index_arena& arena_;
  reader& in_;
  std::vector<index_id> atoms_;  // as expressions
};

void write(writer& out, kernel const& k) {
  out.text(k.name);
  out.list(k.grid, [&](std::int64_t e) { out.integer(e); });
  out.list(k.buffers, [&](kernel_buffer const& b) {
    out.choice_of(b.type);
    out.integer(b.elements);
    out.flag(b.written);
  });
  out.list(k.scalars, [&](dtype t) { out.choice_of(t); });
  out.list(k.locals, [&](kernel_local const& l) {
    out.choice_of(l.type);
    out.integer(l.elements);
  });
  out.list(k.rows, [&](dtype t) { out.choice_of(t); });
  out.choice_of(k.lanes);
  out.number(k.tile_loop);
  out.integer(k.tile);
  expression_writer expressions(k, out);
  out.list(k.phases, [&](phase const& ph) {
    out.integer(ph.extent);
    out.list(ph.body, [&](instruction const& i) {
      out.choice_of(i.code);
      out.choice_of(i.type);
      for (value_id v : {i.a, i.b, i.c, i.guard}) out.number(v == no_value ? 0 : std::uint64_t{v} + 1);
      out.number(i.slot);
      out.number(i.bits);
      if (uses_index(i.code)) expressions.write(i.index);
    });
    out.list(ph.reductions, [&](reduction const& r) {
      out.choice_of(r.kind);
      out.choice_of(r.order);
      out.choice_of(r.type);
      for (value_id v : {r.value, r.factor}) out.number(v == no_value ? 0 : std::uint64_t{v} + 1);
      out.number(r.row);
    });
  });
}

value_id read_value(reader& in) {
  std::uint64_t const v = in.number();
  if (v > no_value) in.refuse("a value's number does not fit in 32 bits");
  return v == 0 ? no_value : static_cast<value_id>(v - 1);
}

instruction read_instruction(reader& in, expression_reader& expressions) {
  instruction i;
  i.code = in.choice_of(kop::store_local, "instruction");
  i.type = in.type();
  for (value_id* v : {&i.a, &i.b, &i.c, &i.guard}) *v = read_value(in);
  i.slot = in.id();
  i.bits = in.number();
  if (uses_index(i.code)) i.index = expressions.read();
  return i;
}

reduction read_reduction(reader& in) {
  reduction r;
  r.kind = in.choice_of(reduction_kind::argmin, "reduction");
  r.order = in.choice_of(order::contract, "order");
  r.type = in.type();
  for (value_id* v : {&r.value, &r.factor}) *v = read_value(in);
  r.row = in.id();
  return r;
}

kernel read_kernel(reader& in) {
  kernel k;
  k.name = in.text();
  k.grid = in.list([&] { return in.integer(); });
  k.buffers = in.list([&] {
    kernel_buffer b;
    b.type = in.type();
    b.elements = in.integer();
    b.written = in.flag();
    return b;
  });
  k.scalars = in.list([&] { return in.type(); });
  k.locals = in.list([&] {
    kernel_local l;
    l.type = in.type();
    l.elements = in.integer();
    return l;
  });
  k.rows = in.list([&] { return in.type(); });
  k.lanes = in.choice_of(lanes_along::grid, "direction of lanes");
  k.tile_loop = in.id();
  k.tile = in.integer();
  expression_reader expressions(k.index, in);
  k.phases = in.list([&] {
    phase ph;
    ph.extent = in.integer();
    ph.body = in.list([&] { return read_instruction(in, expressions); });
    ph.reductions = in.list([&] { return read_reduction(in); });
    return ph;
  });
  return k;
}

// The numbers of a library step in the order in which they are written.
template <class M, class F>
void matmul_numbers(M& m, F&& each) {
  for (auto* v : {&m.batch, &m.m, &m.n, &m.k, &m.stride_a, &m.stride_b, &m.stride_c}) each(*v);
}
template <class C, class F>
void conv2d_numbers(C& c, F&& each) {
  for (auto* v : {&c.n, &c.c, &c.h, &c.w, &c.o, &c.kh, &c.kw, &c.stride_h, &c.stride_w, &c.pad_top,
                  &c.pad_left, &c.pad_bottom, &c.pad_right, &c.dilation_h, &c.dilation_w, &c.groups})
    each(*v);
}

void write(writer& out, kernel_step const& s) {
  out.number(s.kernel);
  out.ids(s.scalars);
}
void write(writer& out, matmul_step const& s) {
  out.choice_of(s.type);
  matmul_numbers(s, [&](std::int64_t v) { out.integer(v); });
  out.flag(s.transpose_a);
  out.flag(s.transpose_b);
  out.flag(s.bias);
  out.choice_of(s.act);
}
void write(writer& out, conv2d_step const& s) {
  out.choice_of(s.type);
  conv2d_numbers(s, [&](std::int64_t v) { out.integer(v); });
  out.flag(s.bias);
  out.choice_of(s.act);
}
void write(writer&, copy_step const&) {}

using work = decltype(step::work);

work read_work(reader& in) {
  std::uint8_t const kind = in.byte();
  switch (kind) {
    case 0: {
      kernel_step s;
      s.kernel = in.id();
      s.scalars = in.ids();
      return s;
    }
    case 1: {
      matmul_step s;
      s.type = in.type();
      matmul_numbers(s, [&](std::int64_t& v) { v = in.integer(); });
      s.transpose_a = in.flag();
      s.transpose_b = in.flag();
      s.bias = in.flag();
      s.act = in.choice_of(activation::relu, "activation");
      return s;
    }
    case 2: {
      conv2d_step s;
      s.type = in.type();
      conv2d_numbers(s, [&](std::int64_t& v) { v = in.integer(); });
      s.bias = in.flag();
      s.act = in.choice_of(activation::relu, "activation");
      return s;
    }
    case 3: return copy_step{};
    default: in.refuse(fmt::format("{} is not a kind of step", kind));
  }
}
static_assert(std::variant_size_v<work> == 4);

step read_step(reader& in) {
  step s;
  s.work = read_work(in);
  s.operands = in.ids();
  s.written = in.ids();
  s.arguments = in.ids();
  s.alternative = in.integer();
  s.chosen = in.choice_of(choice::generated, "choice");
  return s;
}

plan_buffer read_buffer(reader& in) {
  plan_buffer b;
  b.place = in.choice_of(buffer_place::temporary, "place of a buffer");
  b.slot = in.id();
  b.type = in.type();
  b.elements = in.integer();
  b.offset = in.integer();
  return b;
}

plan read_plan(reader& in) {
  if (in.raw(magic.size()) != magic) in.refuse("this is not a plan");
  if (std::uint64_t const v = in.number(); v != version)
    in.refuse(fmt::format("version {} of the form, not {}", v, version));
  plan p;
  p.kernels = in.list([&] { return read_kernel(in); });
  p.steps = in.list([&] { return read_step(in); });
  p.edges = in.list([&] {
    edge e{};
    e.from = in.id();
    e.to = in.id();
    return e;
  });
  p.buffers = in.list([&] { return read_buffer(in); });
  p.results = in.ids();
  p.arena_bytes = in.integer();
  p.notes = in.list([&] { return in.text(); });
  if (in.left() != 0) in.refuse(fmt::format("{} bytes too many", in.left()));
  return p;
}

}  // namespace

std::string to_bytes(plan const& p) {
  writer out;
  out.raw(magic);
  out.number(version);
  out.list(p.kernels, [&](kernel const& k) { write(out, k); });
  out.list(p.steps, [&](step const& s) {
    out.number(s.work.index());
    std::visit([&](auto const& w) { write(out, w); }, s.work);
    out.ids(s.operands);
    out.ids(s.written);
    out.ids(s.arguments);
    out.integer(s.alternative);
    out.choice_of(s.chosen);
  });
  out.list(p.edges, [&](edge e) {
    out.number(e.from);
    out.number(e.to);
  });
  out.list(p.buffers, [&](plan_buffer const& b) {
    out.choice_of(b.place);
    out.number(b.slot);
    out.choice_of(b.type);
    out.integer(b.elements);
    out.integer(b.offset);
  });
  out.ids(p.results);
  out.integer(p.arena_bytes);
  out.list(p.notes, [&](std::string const& n) { out.text(n); });
  return out.take();
}

plan from_bytes(std::string_view bytes) {
  reader in(bytes);
  try {
    return read_plan(in);
  } catch (compile_error const& e) {  // an index expression that no kernel has
    in.refuse(e.what());
  }
}

}  // namespace reprise::jit
