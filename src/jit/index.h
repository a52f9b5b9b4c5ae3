// Index expressions: whole numbers made of loop variables, interned and simplified as they are built. Fusion
// follows array accesses through views as such expressions; both code generators print them, and
// vectorisation asks them for strides.
//
// Canonical form: an expression is a constant plus a sum of coefficient * atom; an atom is a loop variable, a
// floor division or a modulus (never negative for a positive divisor) of an expression by a positive
// constant. Equal expressions of one arena have equal ids. Ranges of the variables are known, so that i*4 + j
// over j < 4 divided by 4 is i, and modulo 4 is j.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace reprise::jit {

using index_id = std::uint32_t;

enum class atom_kind : std::uint8_t { variable, divide, modulo };
struct atom {
  atom_kind kind = atom_kind::variable;
  std::uint32_t variable = 0;  // kind variable: which loop
  index_id operand = 0;        // divide, modulo
  std::int64_t divisor = 1;
};
struct term {
  std::uint32_t atom;  // into index_arena::atoms()
  std::int64_t coefficient;
};
struct index_expression {
  std::vector<term> terms;  // ordered by atom, coefficients not zero
  std::int64_t constant = 0;
};
struct range {
  std::int64_t low, high;  // inclusive
};

class index_arena {
 public:
  // Declares loop variables 0..n-1 with their extents (value in [0, extent)); more can be added later.
  std::uint32_t add_variable(std::int64_t extent);
  std::int64_t extent(std::uint32_t variable) const { return extents_[variable]; }
  std::size_t variables() const { return extents_.size(); }

  index_id constant(std::int64_t c);
  index_id variable(std::uint32_t v);
  index_id add(index_id a, index_id b);
  index_id add(index_id a, std::int64_t c);
  index_id add(index_id a, int c) { return add(a, std::int64_t{c}); }  // a literal is a number, never an id
  index_id mul(index_id a, std::int64_t c);
  index_id divide(index_id a, std::int64_t c);  // floor; c > 0
  index_id modulo(index_id a, std::int64_t c);  // c > 0
  // a with every variable v replaced by by[v].
  index_id substitute(index_id a, std::span<index_id const> by);

  index_expression const& at(index_id id) const { return expressions_[id]; }
  std::vector<atom> const& atoms() const { return atoms_; }
  range bounds(index_id id) const;
  // The same with another extent for one variable.
  range bounds(index_id id, std::uint32_t variable, std::int64_t extent) const;
  std::size_t expressions() const { return expressions_.size(); }
  // Every atom that the expression is made of, at any depth, ascending: each one's operand is made of smaller
  // ones.
  std::vector<std::uint32_t> const& atoms_of(index_id id) const;
  bool depends(index_id id, std::uint32_t variable) const;
  // The coefficient s when id is s * variable + (something without it); nullopt when the variable is inside
  // an atom.
  std::optional<std::int64_t> stride(index_id id, std::uint32_t variable) const;
  std::int64_t evaluate(index_id id, std::span<std::int64_t const> variables) const;

  index_arena();
  ~index_arena();
  index_arena(index_arena const&);
  index_arena(index_arena&&) noexcept;
  index_arena& operator=(index_arena const&);
  index_arena& operator=(index_arena&&) noexcept;

 private:
  struct tables;
  std::vector<std::int64_t> extents_;
  std::vector<atom> atoms_;
  std::vector<index_expression> expressions_;
  std::vector<tables> tables_;  // hash tables for interning; one element
};

}  // namespace reprise::jit
