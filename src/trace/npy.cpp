#include "trace/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>

#include <reprise/error.h>

#include "trace/infer.h"

namespace reprise::ir {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view magic = "\x93NUMPY";

[[noreturn]] void fail(std::string_view name, std::string const& what) {
  throw format_error(fmt::format("{}: {}", name, what));
}

// NumPy's type code without the byte order.
std::string_view code_of(dtype type) {
  switch (type) {
    case dtype::boolean: return "b1";
    case dtype::u8: return "u1";
    case dtype::i32: return "i4";
    case dtype::i64: return "i8";
    case dtype::f16: return "f2";
    case dtype::bf16:
    case dtype::f32: return "f4";
    case dtype::f64: return "f8";
  }
  return "?";
}

struct header {
  dtype type = dtype::f32;
  bool swapped = false;
  bool fortran = false;
  reprise::shape shape;
};

// The header is a Python dictionary literal of three known entries; nothing else is one.
class header_parser {
 public:
  header_parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  header run() {
    header h;
    bool seen[3] = {};
    take('{');
    while (!accept('}')) {
      std::string_view const key = quoted();
      take(':');
      int const which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0 || seen[which]) malformed();
      seen[which] = true;
      if (which == 0) read_descr(h);
      else if (which == 1) h.fortran = word();
      else read_shape(h.shape);
      if (!accept(',')) {
        take('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size() || !seen[0] || !seen[1] || !seen[2]) malformed();
    return h;
  }

 private:
  [[noreturn]] void malformed() const { fail(name_, fmt::format("its header is malformed at byte {}", at_)); }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void take(char c) {
    if (!accept(c)) malformed();
  }
  std::string_view quoted() {
    skip();
    char const quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') malformed();
    std::size_t const end = text_.find(quote, at_ + 1);
    if (end == text_.npos) malformed();
    std::string_view const inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  bool word() {
    skip();
    for (std::string_view w : {std::string_view("True"), std::string_view("False")})
      if (text_.substr(at_).starts_with(w)) {
        at_ += w.size();
        return w == "True";
      }
    malformed();
  }
  void read_descr(header& h) {
    skip();
    if (at_ < text_.size() && text_[at_] == '[')
      fail(name_, "it holds records; arrays of one dtype are read");
    std::string_view const descr = quoted();
    for (int i = 0; i < dtype_count; ++i) {
      dtype const type = static_cast<dtype>(i);
      if (type == dtype::bf16 || descr.empty() || descr.substr(1) != code_of(type)) continue;
      if (std::string_view("<|>=").find(descr[0]) == std::string_view::npos) continue;
      h.type = type;
      h.swapped = descr[0] == '>' && size_of(type) > 1;
      return;
    }
    fail(name_, fmt::format("no dtype of ours is \"{}\" (b1, u1, i4, i8, f2, f4, f8 are read)", descr));
  }
  void read_shape(reprise::shape& s) {
    take('(');
    while (!accept(')')) {
      skip();
      std::int64_t extent = -1;
      auto const parsed = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (parsed.ec != std::errc() || extent < 0) malformed();
      if (s.rank() == max_rank) fail(name_, fmt::format("it has more than {} axes", max_rank));
      s.push_back(extent);
      at_ = static_cast<std::size_t>(parsed.ptr - text_.data());
      accept('L');  // Python 2 wrote 3L
      if (!accept(',')) {
        take(')');
        break;
      }
    }
    if (!small_enough(s)) fail(name_, fmt::format("{} has 2^62 elements or more", s.str()));
  }

  std::string_view text_, name_;
  std::size_t at_ = 0;
};

// Column-major bytes to row-major ones: the source place of each element in turn, counted like an odometer.
std::vector<std::byte> row_major(std::vector<std::byte> const& from, reprise::shape const& s,
                                 std::size_t size) {
  std::int64_t stride[max_rank] = {}, place[max_rank] = {};
  for (std::int64_t i = 0, step = 1; i < s.rank(); ++i) {
    stride[i] = step;
    step *= s[static_cast<int>(i)];
  }
  std::vector<std::byte> to(from.size());
  std::int64_t source = 0;
  for (std::size_t at = 0; at < to.size(); at += size) {
    std::memcpy(to.data() + at, from.data() + static_cast<std::size_t>(source) * size, size);
    for (int axis = s.rank() - 1; axis >= 0; --axis) {
      source += stride[axis];
      if (++place[axis] < s[axis]) break;
      source -= stride[axis] * place[axis];
      place[axis] = 0;
    }
  }
  return to;
}

}  // namespace

npy_array parse_npy(std::string_view bytes, std::string_view name) {
  if (!bytes.starts_with(magic)) fail(name, "it is not a .npy file");
  if (bytes.size() < 12) fail(name, "it ends inside its header");
  unsigned const version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 2)
    fail(name, fmt::format(".npy version {}; versions 1 and 2 are read", version));
  auto const byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  std::size_t const size = byte(8) | byte(9) << 8 | (version == 2 ? byte(10) << 16 | byte(11) << 24 : 0);
  std::string_view rest = bytes.substr(version == 1 ? 10 : 12);
  if (size > rest.size()) fail(name, "it ends inside its header");
  header const h = header_parser(rest.substr(0, size), name).run();
  rest.remove_prefix(size);

  std::size_t const element = static_cast<std::size_t>(size_of(h.type));
  wide const expected = static_cast<wide>(h.shape.size()) * static_cast<wide>(element);
  if (expected != static_cast<wide>(rest.size()))
    fail(name, fmt::format("{} bytes of data; {} has {} elements of {} bytes", rest.size(),
                           str({h.type, h.shape}), h.shape.size(), element));
  npy_array a{{h.type, h.shape}, std::vector<std::byte>(rest.size())};
  std::ranges::transform(rest, a.data.begin(), [](char c) { return static_cast<std::byte>(c); });
  if (h.swapped)
    for (std::size_t at = 0; at < a.data.size(); at += element)
      std::reverse(a.data.begin() + static_cast<std::ptrdiff_t>(at),
                   a.data.begin() + static_cast<std::ptrdiff_t>(at + element));
  if (h.type == dtype::boolean)
    for (std::byte& b : a.data) b = static_cast<std::byte>(b != std::byte{0});
  if (h.fortran) a.data = row_major(a.data, h.shape, element);
  return a;
}

npy_array read_npy(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(file.native(), fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::string bytes;
  char block[65536];
  while (in.read(block, sizeof block), in.gcount() > 0)
    bytes.append(block, static_cast<std::size_t>(in.gcount()));
  if (in.bad()) fail(file.native(), fmt::format("cannot be read: {}", std::strerror(errno)));
  return parse_npy(bytes, file.native());
}

void write_npy(std::filesystem::path const& file, tensor_type const& type, std::span<std::byte const> data) {
  std::size_t const count = static_cast<std::size_t>(type.shape.size());
  if (data.size() != count * static_cast<std::size_t>(size_of(type.type)))
    fail(file.native(), fmt::format("{} bytes given for {}", data.size(), str(type)));
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}",
                                 size_of(type.type) == 1 ? '|' : '<', code_of(type.type), type.shape.str());
  // The data starts at a multiple of 64 bytes; a header of rank 8 fits version 1.
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!out) fail(file.native(), fmt::format("cannot be opened: {}", std::strerror(errno)));
  out << magic << '\x01' << '\0' << static_cast<char>(text.size() & 0xff)
      << static_cast<char>(text.size() >> 8) << text;
  if (type.type == dtype::bf16) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, data.data() + 2 * i, 2);
      float const value = static_cast<float>(bfloat16::from_bits(bits));
      out.write(reinterpret_cast<char const*>(&value), sizeof value);
    }
  } else {
    out.write(reinterpret_cast<char const*>(data.data()), static_cast<std::streamsize>(data.size()));
  }
  out.close();
  if (!out) fail(file.native(), fmt::format("cannot be written: {}", std::strerror(errno)));
}

}  // namespace reprise::ir
