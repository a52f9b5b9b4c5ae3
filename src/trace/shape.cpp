// Shapes: the few members that may throw or allocate.
#include <reprise/shape.h>

#include <fmt/format.h>

namespace reprise::inline v1 {

shape::shape(std::initializer_list<dim> extents) {
  for (dim d : extents) push_back(d.value);
}

void shape::push_back(std::int64_t extent) {
  if (extent < 0)
    throw argument_error(fmt::format("shape: an extent is {}; extents are not negative", extent));
  if (rank_ == max_rank) throw argument_error(fmt::format("shape: more than {} axes", max_rank));
  extent_[rank_++] = extent;
}

void shape::insert(int axis, std::int64_t extent) {
  if (axis < 0 || axis > rank_)
    throw argument_error(fmt::format("shape: no place {} to insert an axis in {}", axis, str()));
  push_back(extent);
  for (int i = rank_ - 1; i > axis; --i) extent_[i] = extent_[i - 1];
  extent_[axis] = extent;
}

void shape::erase(int axis) {
  if (axis < 0 || axis >= rank_) throw argument_error(fmt::format("shape: no axis {} in {}", axis, str()));
  for (int i = axis; i + 1 < rank_; ++i) extent_[i] = extent_[i + 1];
  extent_[--rank_] = 0;
}

std::string shape::str() const {
  std::string text = "(";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(extent_[i]);
  }
  text += rank_ == 1 ? ",)" : ")";
  return text;
}

}  // namespace reprise::inline v1
