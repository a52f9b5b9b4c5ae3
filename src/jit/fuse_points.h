// A node of a program, evaluated at index coordinates. Asking a `point_space` for the value of a node at
// coordinates follows the node's operands through views (which only change coordinates) down to loads from
// memory, and leaves a small graph of `points`: what one kernel has to compute for each point of its loops.
// Fusion builds such graphs to find out what fits together; lowering turns them into instructions.
//
// Equal points are one point. Coordinates are expressions over the axes of the space, one variable an axis. A
// pad, concatenation or slice update becomes a choice under a guard: a conjunction of tests low <= expression
// <= high. Loads that could leave their array where the guard is false carry it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "jit/index.h"
#include "trace/program.h"

namespace reprise::jit {

using point_id = std::uint32_t;
inline constexpr point_id no_point = 0xffffffffu;
using guard_id = std::uint32_t;
inline constexpr guard_id no_guard = 0;

// The coordinates of one element of an array.
struct coordinates {
  std::array<index_id, max_rank> at{};
  int rank = 0;
  friend bool operator==(coordinates const&, coordinates const&) = default;
};

enum class point_kind : std::uint8_t {
  load,      // element `index` of the array that `node` is stored in
  scalar,    // lifted parameter `node`
  constant,  // constant `node`
  index,     // the value of `index`, as i64
  row,       // what reduction `node` left for this row
  philox,    // word `index` of philox node `node`; operand 0 is the key
  apply,     // the operation of elementwise node `node`
  choose,    // operand 0 where `guard` holds, else operand 1
};
struct point {
  point_kind kind = point_kind::constant;
  ir::node_id node = ir::no_node;  // choose, load: gives the dtype
  index_id index = 0;
  guard_id guard = no_guard;
  std::array<point_id, 3> operand{no_point, no_point, no_point};
  int level =
      0;  // the first phase in which it can be computed: one more than that of the latest row it needs
};

// low <= expression <= high, and all of `parent`.
struct guard_test {
  guard_id parent = no_guard;
  index_id expression = 0;
  std::int64_t low = 0, high = 0;
};

// How many instructions an operation is, roughly. Views cost nothing.
int own_cost(ir::program const& p, ir::node_id n);
inline constexpr int expensive_operation = 12;

// A reshape away: the node whose elements, in the same order, these are.
ir::node_id without_reshapes(ir::program const& p, ir::node_id n);

// What the space asks about a node before it goes through it.
enum class access : std::uint8_t { through, load, row, refuse };
class point_policy {
 public:
  virtual ~point_policy() = default;
  virtual access at(ir::node_id n, coordinates const& c) = 0;
  // A node that was gone through has become point p. True: from now on at() answers `load` for it.
  virtual bool made(ir::node_id n, coordinates const& c, point_id p) = 0;
};

class point_space {
 public:
  point_space(ir::program const& p, reprise::shape const& axes);

  ir::program const& program() const { return *program_; }
  reprise::shape const& axes() const { return axes_; }
  coordinates const& identity() const { return identity_; }  // of an array whose shape is that of the axes
  index_arena& arena() { return arena_; }
  index_arena const& arena() const { return arena_; }
  std::vector<point> const& points() const { return points_; }
  std::vector<guard_test> const& guards() const { return guards_; }

  // The coordinates in `to` of the element that lies at `from` of an array of the same size, row-major.
  coordinates reshaped(coordinates const& c, reprise::shape const& from, reprise::shape const& to);
  index_id flat(coordinates const& c, reprise::shape const& s);

  // nullopt when the policy refused; the space is then as before. Under a guard, elements are 0 where it is
  // false.
  std::optional<point_id> pull(ir::node_id n, coordinates const& c, point_policy& policy,
                               guard_id guard = no_guard);
  // `parent` and low <= e <= high.
  guard_id within(guard_id parent, index_id e, std::int64_t low, std::int64_t high);
  // The level at which a reduction's row is left.
  void set_row_level(ir::node_id reduction, int level) { row_level_[reduction] = level; }

  // Everything made after a mark can be taken back.
  struct marker {
    std::size_t points, made;
    std::int64_t cost;
  };
  marker mark() const { return {points_.size(), made_order_.size(), cost_}; }
  void rollback(marker m);
  // Roughly the number of instructions of all points; each array that is read counts as a few.
  std::int64_t cost() const { return cost_; }
  // Has the last pull met a load that was there before it?
  bool shared_a_load() const { return shared_; }

 private:
  struct key {
    ir::node_id node;
    guard_id guard;
    coordinates c;
    friend bool operator==(key const&, key const&) = default;
  };
  struct key_hash {
    std::size_t operator()(key const& k) const;
  };
  struct point_hash {
    std::size_t operator()(point const& p) const;
  };
  struct point_equal {
    bool operator()(point const& a, point const& b) const;
  };
  struct guard_hash {
    std::size_t operator()(guard_test const& t) const;
  };
  struct guard_equal {
    bool operator()(guard_test const& a, guard_test const& b) const;
  };
  struct frame;
  struct request {
    ir::node_id node;
    coordinates c;
    guard_id guard;
  };

  point_id intern(point p);
  // nullopt: never true
  std::optional<guard_id> guarded(guard_id parent, index_id e, std::int64_t low, std::int64_t high);
  point_id load(ir::node_id n, coordinates const& c, guard_id g);
  coordinates through_view(ir::node_id n, coordinates const& c);
  // The point when there is nothing to go through; else a frame is pushed.
  std::optional<point_id> enter(request r, point_policy& policy, std::vector<frame>& stack);
  void expand(frame& f);
  void expand_pad(frame& f);
  void expand_concatenate(frame& f);
  void expand_slice_update(frame& f);
  point_id finish(frame const& f);

  ir::program const* program_;
  reprise::shape axes_;
  index_arena arena_;
  coordinates identity_;
  std::vector<point> points_;
  std::vector<guard_test> guards_{1};
  std::unordered_map<point, point_id, point_hash, point_equal> known_;
  std::unordered_map<key, point_id, key_hash> made_;
  std::vector<key> made_order_;
  std::unordered_map<guard_test, guard_id, guard_hash, guard_equal> known_guards_;
  std::unordered_map<ir::node_id, int> row_level_;
  std::unordered_map<ir::node_id, int> loads_of_;  // load points of each array
  std::int64_t cost_ = 0;
  std::size_t old_points_ = 0;
  bool shared_ = false, refused_ = false, zero_outside_ = false;
};

}  // namespace reprise::jit
