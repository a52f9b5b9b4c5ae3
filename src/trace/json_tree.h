// JSON text as a flat tree, between nlohmann's parser and the reader of programs. Flat, because hostile or
// huge text must not overflow a stack; a tree of ours, because it keeps what the usual one loses: the digits
// of a number, the sign of -0, keys that occur twice.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/program.h"

namespace reprise::ir::json {

enum class kind : std::uint8_t { null, boolean, integer, unsigned_integer, real, text, list, object };

struct value {
  json::kind kind = kind::null;
  std::uint32_t next = 0;   // the following sibling, 0: none (value 0 is the root)
  std::uint32_t first = 0;  // list, object: the first child; 0: none
  std::uint32_t count = 0;  // list, object: the number of children
  std::uint32_t key_at = 0, key_size = 0;
  std::uint32_t text_at = 0, text_size = 0;  // text: the string; real: its digits
  std::uint64_t bits = 0;                    // boolean, integer, unsigned_integer
};

struct tree {
  std::vector<value> values;
  std::string characters;
  std::string_view text(value const& v) const { return {characters.data() + v.text_at, v.text_size}; }
  std::string_view key(value const& v) const { return {characters.data() + v.key_at, v.key_size}; }
};

// Throws format_error with line, column and byte for what is not JSON, and for what no program needs: too
// deep a nesting, a key twice or too many keys in an object.
tree parse(std::string_view text);

// A value with the way to it, for messages. Lives on the stack; refers to the item that it was reached from.
class item {
 public:
  explicit item(tree const& t) : tree_(t), value_(t.values[0]) {}
  item(item const& parent, value const& v, std::size_t index)
      : tree_(parent.tree_), value_(v), parent_(&parent), index_(index) {}
  item(item const&) = delete;
  item& operator=(item const&) = delete;

  std::string pointer() const;                            // RFC 6901
  [[noreturn]] void fail(std::string const& what) const;  // format_error "<pointer>: <what>"

  json::kind kind() const { return value_.kind; }
  std::uint32_t size() const { return value_.count; }
  std::uint64_t bits() const { return value_.bits; }
  std::string_view digits() const { return tree_.text(value_); }  // of a real

  std::string_view text() const;
  std::int64_t integer() const;
  std::int64_t integer(std::int64_t low, std::int64_t high) const;

  void expect_object() const;
  // Calls f(item) for each element of a list.
  template <class F>
  void each(F&& f) const {
    expect_list();
    std::size_t i = 0;
    for (std::uint32_t at = value_.first; at != 0; at = tree_.values[at].next)
      f(item(*this, tree_.values[at], i++));
  }
  // Calls f(item, key) for each member of an object.
  template <class F>
  void each_member(F&& f) const {
    expect_object();
    for (std::uint32_t at = value_.first; at != 0; at = tree_.values[at].next)
      f(item(*this, tree_.values[at], 0), tree_.key(tree_.values[at]));
  }
  // Calls f(item) for the member, if there is one.
  template <class F>
  bool with(std::string_view key, F&& f) const {
    value const* const v = find(key);
    if (v != nullptr) f(item(*this, *v, 0));
    return v != nullptr;
  }
  template <class F>
  void require(std::string_view key, F&& f) const {
    if (!with(key, f)) missing(key);
  }

 private:
  void expect_list() const;
  [[noreturn]] void missing(std::string_view key) const;
  value const* find(std::string_view key) const;

  tree const& tree_;
  value const& value_;
  item const* parent_ = nullptr;
  std::size_t index_ = 0;
};

}  // namespace reprise::ir::json
