// The extents of an array: rank 0 to 8, 64-bit, row-major. A small value without allocation.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <reprise/error.h>

namespace reprise::inline v1 {

inline constexpr int max_rank = 8;

// One extent or axis as a user writes it: any integer type, never bool.
struct dim {
  std::int64_t value;
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  constexpr dim(I i) : value(static_cast<std::int64_t>(i)) {}  // implicit, so that {n, v.size()} is a shape
};

class REPRISE_API shape {
 public:
  constexpr shape() = default;
  shape(std::initializer_list<dim> extents);  // throws argument_error: more than 8, or a negative extent
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  shape(I n) : shape({dim(n)}) {}

  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int axis) const { return extent_[axis]; }
  constexpr std::int64_t& operator[](int axis) { return extent_[axis]; }
  constexpr std::int64_t const* begin() const { return extent_; }
  constexpr std::int64_t const* end() const { return extent_ + rank_; }
  constexpr std::int64_t back() const { return extent_[rank_ - 1]; }
  // The number of elements; 1 for rank 0.
  constexpr std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= extent_[i];
    return n;
  }
  void push_back(std::int64_t extent);  // throws argument_error past rank 8
  void insert(int axis, std::int64_t extent);
  void erase(int axis);
  std::string str() const;  // "(2, 3)", "(4,)", "()"

  friend constexpr bool operator==(shape const& a, shape const& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.extent_[i] != b.extent_[i]) return false;
    return true;
  }

 private:
  std::int64_t extent_[max_rank] = {};
  int rank_ = 0;
};

}  // namespace reprise::inline v1
