#include "trace/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include <reprise/error.h>

namespace reprise::ir::json {
namespace {

// A region adds four levels: the list of nodes, a node, its list of regions, a region.
constexpr std::size_t max_depth = 4 * (max_nesting + 2);
constexpr std::uint32_t max_keys = 32;
constexpr std::size_t max_text = 0xfffffff0u;

std::string escaped(std::string_view key) {
  std::string out;
  for (char c : key) {
    if (c == '~') out += "~0";
    else if (c == '/') out += "~1";
    else out += c;
  }
  return out;
}

// nlohmann's events. Its parser keeps its own stack, so depth costs no recursion.
class events {
 public:
  explicit events(std::string_view text) : text_(text) {}

  bool null() { return add({.kind = kind::null}); }
  bool boolean(bool b) { return add({.kind = kind::boolean, .bits = b}); }
  bool number_integer(std::int64_t n) {
    return add({.kind = kind::integer, .bits = static_cast<std::uint64_t>(n)});
  }
  bool number_unsigned(std::uint64_t n) { return add({.kind = kind::unsigned_integer, .bits = n}); }
  bool number_float(double, std::string const& digits) {
    value v{.kind = kind::real};
    v.text_at = store(digits, v.text_size);
    // The parser has put the locale's decimal point in.
    for (char& c : std::span(tree_.characters).subspan(v.text_at))
      if ((c < '0' || c > '9') && c != 'e' && c != 'E' && c != '+' && c != '-') c = '.';
    return add(v);
  }
  bool string(std::string const& s) {
    value v{.kind = kind::text};
    v.text_at = store(s, v.text_size);
    return add(v);
  }
  bool binary(nlohmann::json::binary_t const&) { return false; }
  bool start_object(std::size_t) { return open(kind::object); }
  bool start_array(std::size_t) { return open(kind::list); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string const& k) {
    value const& object = tree_.values[stack_.back().value];
    for (std::uint32_t at = object.first; at != 0; at = tree_.values[at].next)
      if (tree_.key(tree_.values[at]) == k) fail(fmt::format("the key \"{}\" occurs twice", k.substr(0, 40)));
    if (object.count == max_keys) fail(fmt::format("an object has more than {} keys", max_keys));
    key_at_ = store(k, key_size_);
    return true;
  }

  bool parse_error(std::size_t position, std::string const&, nlohmann::detail::exception const& e) {
    std::string_view what = e.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
    if (std::size_t const at = what.find("] "); at != what.npos) what.remove_prefix(at + 2);
    if (what.starts_with("parse error"))
      if (std::size_t const at = what.find(": "); at != what.npos) what.remove_prefix(at + 2);
    std::string_view const before = text_.substr(0, position == 0 ? 0 : position - 1);
    std::size_t const line = 1 + static_cast<std::size_t>(std::ranges::count(before, '\n'));
    std::size_t const column =
        before.size() - (before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1) + 1;
    throw format_error(fmt::format("line {}, column {} (byte {}): {}", line, column, before.size(),
                                   what.substr(0, std::min<std::size_t>(what.size(), 200))));
  }

  tree take() { return std::move(tree_); }

 private:
  struct open_value {
    std::uint32_t value, last_child;
  };

  [[noreturn]] void fail(std::string const& what) const {
    std::string pointer;
    for (std::size_t i = 1; i < stack_.size() && i < 40; ++i) {
      value const& parent = tree_.values[stack_[i - 1].value];
      pointer += parent.kind == kind::object ? "/" + escaped(tree_.key(tree_.values[stack_[i].value]))
                                             : fmt::format("/{}", parent.count - 1);
    }
    throw format_error((pointer.empty() ? "the document" : pointer) + ": " + what);
  }

  std::uint32_t store(std::string const& s, std::uint32_t& size) {
    std::size_t const at = tree_.characters.size();
    tree_.characters += s;
    size = static_cast<std::uint32_t>(s.size());
    return static_cast<std::uint32_t>(at);
  }

  bool add(value v) {
    std::uint32_t const at = static_cast<std::uint32_t>(tree_.values.size());
    if (!stack_.empty()) {
      value& parent = tree_.values[stack_.back().value];
      if (parent.kind == kind::object) {
        v.key_at = key_at_;
        v.key_size = key_size_;
      }
      (parent.count == 0 ? parent.first : tree_.values[stack_.back().last_child].next) = at;
      ++parent.count;
      stack_.back().last_child = at;
    }
    tree_.values.push_back(v);
    return true;
  }

  bool open(json::kind k) {
    add({.kind = k});
    stack_.push_back({static_cast<std::uint32_t>(tree_.values.size() - 1), 0});
    if (stack_.size() > max_depth) fail(fmt::format("nested more than {} deep", max_depth));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  std::string_view text_;
  tree tree_;
  std::vector<open_value> stack_;
  std::uint32_t key_at_ = 0, key_size_ = 0;
};

char const* name_of(kind k) {
  switch (k) {
    case kind::null: return "null";
    case kind::boolean: return "a boolean";
    case kind::integer:
    case kind::unsigned_integer: return "an integer";
    case kind::real: return "a number with a fraction or exponent";
    case kind::text: return "a string";
    case kind::list: return "a list";
    case kind::object: return "an object";
  }
  return "?";
}

}  // namespace

tree parse(std::string_view text) {
  // No text has more values or characters than bytes, so 32 bits number them all.
  if (text.size() > max_text) throw format_error("a text of 4 GiB or more");
  events e(text);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &e)) throw format_error("this is not JSON text");
  return e.take();
}

std::string item::pointer() const {
  if (parent_ == nullptr) return "";
  return parent_->pointer() + "/" +
         (parent_->kind() == kind::object ? escaped(tree_.key(value_)) : std::to_string(index_));
}

void item::fail(std::string const& what) const {
  throw format_error((parent_ == nullptr ? "the document" : pointer()) + ": " + what);
}

void item::missing(std::string_view key) const { fail(fmt::format("\"{}\" is missing", key)); }

std::string_view item::text() const {
  if (kind() != kind::text) fail(fmt::format("is {}, not a string", name_of(kind())));
  return tree_.text(value_);
}

std::int64_t item::integer() const {
  if (kind() == kind::integer || (kind() == kind::unsigned_integer && bits() >> 63 == 0))
    return static_cast<std::int64_t>(bits());
  if (kind() == kind::unsigned_integer) fail(fmt::format("{} does not fit 64 bits with a sign", bits()));
  fail(fmt::format("is {}, not an integer", name_of(kind())));
}

std::int64_t item::integer(std::int64_t low, std::int64_t high) const {
  std::int64_t const n = integer();
  if (n < low || n > high) fail(fmt::format("{} is not in [{}, {}]", n, low, high));
  return n;
}

void item::expect_object() const {
  if (kind() != kind::object) fail(fmt::format("is {}, not an object", name_of(kind())));
}

void item::expect_list() const {
  if (kind() != kind::list) fail(fmt::format("is {}, not a list", name_of(kind())));
}

value const* item::find(std::string_view key) const {
  expect_object();
  for (std::uint32_t at = value_.first; at != 0; at = tree_.values[at].next)
    if (tree_.key(tree_.values[at]) == key) return &tree_.values[at];
  return nullptr;
}

}  // namespace reprise::ir::json
