// Every row's rule: a legal use of each, and each way of being refused.
#include <gtest/gtest.h>

#include <limits>

#include "examples.h"

#include <reprise/error.h>

namespace reprise::ir {
namespace {

using enum dtype;
constexpr std::int64_t big = std::numeric_limits<std::int64_t>::max();

TEST(ops, reads_the_table) {
  EXPECT_EQ(info(op::add).arity, 2);
  EXPECT_STREQ(info(op::sliding_window).name, "sliding_window");
  ASSERT_EQ(info(op::slice).attributes.size(), 3u);
  EXPECT_EQ(info(op::slice).attributes[1].name, "step");
  EXPECT_EQ(info(op::constant).attributes[0].kind, attribute_kind::scalar);
  EXPECT_EQ(info(op::cast).attributes[0].kind, attribute_kind::dtype);
  EXPECT_EQ(info(op::max).identity, identity_value::lowest);
  EXPECT_EQ(info(op::sum).result, result_rule::summed);
  EXPECT_EQ(info(op::gelu).ulps, 4);
  for (int i = 0; i < op_count(); ++i) {
    op_info const& row = info(static_cast<op>(i));
    EXPECT_EQ(row.code, static_cast<op>(i));
    EXPECT_EQ(find_op(row.name), row.code);
    EXPECT_FALSE(std::string_view(row.doc).empty());
  }
  EXPECT_EQ(find_op("ad"), std::nullopt);
  EXPECT_EQ(find_op(""), std::nullopt);
}

TEST(ops, reads_attributes_by_name) {
  std::int64_t const packed[] = {2, 10, 20, 2, 1, -2, 2, 3, 4};
  EXPECT_EQ(attribute_ints(op::slice, packed, "start")[1], 20);
  EXPECT_EQ(attribute_ints(op::slice, packed, "step")[1], -2);
  EXPECT_EQ(attribute_ints(op::slice, packed, "shape")[0], 3);
  EXPECT_THROW(attribute_ints(op::slice, packed, "stop"), argument_error);
  EXPECT_THROW(attribute_int(op::slice, packed, "step"), argument_error);
  std::int64_t const iota[] = {1, 4, 0};
  EXPECT_EQ(attribute_int(op::iota, iota, "axis"), 0);
  EXPECT_THROW(attribute_ints(op::iota, iota, "axis"), argument_error);
  std::int64_t const torn[] = {-1};
  EXPECT_THROW(attribute_ints(op::iota, torn, "shape"), argument_error);
  EXPECT_THROW(attribute_int(op::iota, torn, "axis"), argument_error);
}

TEST(shape, is_a_small_value) {
  EXPECT_EQ((shape{2, 3}).str(), "(2, 3)");
  EXPECT_EQ(shape{4}.str(), "(4,)");
  EXPECT_EQ(shape{}.str(), "()");
  shape s{2, 3};
  s.insert(1, 7);
  s.insert(0, 1);
  EXPECT_EQ(s, (shape{1, 2, 7, 3}));
  s.erase(2);
  EXPECT_EQ(s, (shape{1, 2, 3}));
  EXPECT_EQ(s.size(), 6);
  EXPECT_THROW((shape{2, -1}), argument_error);
  EXPECT_THROW((shape{1, 2, 3, 4, 5, 6, 7, 8, 9}), argument_error);
  EXPECT_THROW(s.erase(3), argument_error);
  EXPECT_THROW(s.insert(4, 1), argument_error);
  EXPECT_THROW(s.insert(0, -1), argument_error);
  EXPECT_EQ(s, (shape{1, 2, 3}));
}

TEST(infer, knows_every_row) {
  std::vector<bool> covered(static_cast<std::size_t>(op_count()));
  for (example const& e : examples()) {
    covered[static_cast<std::size_t>(e.code)] = true;
    EXPECT_EQ(str(infer(e.code, e.operands, e.attributes)), str(e.expected)) << info(e.code).name;
  }
  for (int i = 0; i < op_count(); ++i) {
    op_info const& row = info(static_cast<op>(i));
    if (row.code != op::parameter && row.code != op::constant && row.kind != category::region) {
      EXPECT_TRUE(covered[static_cast<std::size_t>(i)]) << row.name << " has no example";
    }
  }
}

TEST(infer, refuses_what_no_row_takes) {
  for (example const& e : examples()) {
    op_info const& row = info(e.code);
    std::vector<tensor_type> operands = e.operands;
    operands.push_back({f32, {2}});
    if (row.arity >= 0) { EXPECT_THROW(infer(e.code, operands, e.attributes), argument_error) << row.name; }
    if (!e.operands.empty()) {
      operands.resize(row.arity < 0 ? 0 : e.operands.size() - 1);
      EXPECT_THROW(infer(e.code, operands, e.attributes), argument_error) << row.name;
    }
    std::vector<std::int64_t> attributes = e.attributes;
    attributes.push_back(0);
    EXPECT_THROW(infer(e.code, e.operands, attributes), argument_error) << row.name;
    for (std::size_t size = 0; size < e.attributes.size(); ++size)
      EXPECT_THROW(infer(e.code, e.operands, words(e.attributes).first(size)), argument_error) << row.name;
    for (dtype t : dtypes()) {
      if (row.kind != category::elementwise && row.kind != category::reduction) break;
      if (accepts_dtype(row.operands, t)) continue;
      std::vector<tensor_type> wrong(e.operands.size(), {t, {2, 3}});
      if (row.kind == category::reduction) wrong[0].shape = {2, 3, 4};
      EXPECT_THROW(infer(e.code, wrong, e.attributes), argument_error) << row.name << " " << name_of(t);
    }
    if (row.kind == category::elementwise && row.arity > 1) {
      operands = e.operands;
      operands[1].type = operands[1].type == f32 ? f64 : f32;
      EXPECT_THROW(infer(e.code, operands, e.attributes), argument_error) << row.name;
      operands = e.operands;
      operands[0].shape = {2, 3}, operands[1].shape = {2, 1};  // broadcasts are nodes
      EXPECT_THROW(infer(e.code, operands, e.attributes), argument_error) << row.name;
    }
  }
}

struct refused {
  op code;
  std::vector<tensor_type> operands;
  std::vector<std::int64_t> attributes;
  std::string message;
};

TEST(infer, says_why) {
  std::vector<refused> const cases = {
      {op::add,
       {{f32, {2}}, {f32, {3}}},
       {},
       "add: operands float32(2,) and float32(3,): shapes differ, and neither is of rank 0"},
      {op::add, {{f32, {2}}, {f64, {}}}, {}, "add: operands float32(2,) and float64(): dtypes differ"},
      {op::add, {{boolean, {2}}, {boolean, {2}}}, {}, "takes numeric dtypes"},
      {op::sqrt, {{i32, {3}}}, {}, "sqrt: operand int32(3,): takes floating dtypes"},
      {op::invert, {{f32, {3}}}, {}, "takes integer and boolean dtypes"},
      {op::left_shift, {{boolean, {3}}, {boolean, {3}}}, {}, "takes integer dtypes"},
      {op::add, {{f32, {2}}}, {}, "add: operand float32(2,): takes 2 operands, not 1"},
      {op::neg, {}, {}, "neg: takes 1 operand, not 0"},
      {op::neg, {{f32, {2}}}, {1}, "1 attribute words too many"},
      {op::where, {{f32, {}}, {f32, {}}, {f32, {}}}, {}, "the condition is not boolean"},
      {op::where, {{boolean, {}}, {f32, {}}, {i32, {}}}, {}, "dtypes of the two choices differ"},
      {op::where, {{boolean, {2}}, {f32, {3}}, {f32, {}}}, {}, "shapes differ"},
      {op::cast, {{f32, {2}}}, {dtype_count}, "is no dtype"},
      {op::cast, {{f32, {2}}}, {-1}, "is no dtype"},
      {op::cast, {{f32, {2}}}, {}, "attribute \"dtype\" is missing"},
      {op::sum, {{f32, {2, 3}}}, {0}, "reduces no axis"},
      {op::sum, {{f32, {2, 3}}}, {1, 2}, "no axis 2 in axes [2]"},
      {op::sum, {{f32, {2, 3}}}, {1, -1}, "no axis -1"},
      {op::sum, {{f32, {2, 3}}}, {2, 1, 0}, "axes [1, 0] are not in ascending order"},
      {op::sum, {{f32, {2, 3}}}, {2, 1, 1}, "axes [1, 1] are not in ascending order"},
      {op::sum, {{f32, {2, 1}}}, {1, 1}, "axis 1 has extent 1"},
      {op::sum, {{f32, {2, 3}}}, {9, 0}, "has 9 values; at most 8"},
      {op::sum, {{f32, {2, 3}}}, {-1}, "has -1 values"},
      {op::sum, {{f32, {2, 3}}}, {2, 0}, "is cut short"},
      {op::max,
       {{f32, {0, 3}}},
       {1, 0},
       "max: operand float32(0, 3): has no value for an empty axis (the result would be (3,))"},
      {op::any, {{f32, {2, 3}}}, {1, 0}, "takes boolean dtypes"},
      {op::argmax, {{f32, {2, 3}}}, {2}, "no axis 2"},
      {op::argmin, {{f32, {2, 0}}}, {1}, "has no value for an empty axis"},
      {op::argmin, {{f32, {}}}, {0}, "no axis 0"},
      {op::reshape, {{f32, {2, 3}}}, {2, 2, 2}, "6 elements do not fill shape (2, 2), which has 4"},
      {op::reshape, {{f32, {2, 3}}}, {2, -2, -3}, "has a negative extent"},
      {op::reshape, {{f32, {0}}}, {3, 0, big, 2}, "2^62 elements or more"},
      {op::transpose, {{f32, {2, 3}}}, {2, 0, 0}, "axis 0 twice in axes [0, 0]"},
      {op::transpose, {{f32, {2, 3}}}, {2, 0, 2}, "no axis 2"},
      {op::transpose, {{f32, {2, 3}}}, {1, 0}, "not a permutation of 2 axes"},
      {op::broadcast_to, {{f32, {2, 3}}}, {1, 3}, "has fewer axes"},
      {op::broadcast_to, {{f32, {2, 3}}}, {2, 4, 3}, "axis 0 of extent 2 does not broadcast to shape (4, 3)"},
      {op::broadcast_to,
       {{f32, {1}}},
       {2, std::int64_t{1} << 31, std::int64_t{1} << 31},
       "2^62 elements or more"},
      {op::slice, {{f32, {5}}}, {1, 5, 1, 1, 1, 1}, "1 elements from 5 by 1 are not all inside of extent 5"},
      {op::slice, {{f32, {5}}}, {1, 1, 1, -1, 1, 3}, "not all inside"},
      {op::slice, {{f32, {5}}}, {1, 1, 1, big, 1, 3}, "not all inside"},
      {op::slice, {{f32, {5}}}, {1, 6, 1, 1, 1, 0}, "starts at 6"},
      {op::slice, {{f32, {5}}}, {1, -1, 1, 1, 1, 1}, "start [-1] has a value below 0"},
      {op::slice, {{f32, {5}}}, {1, 0, 1, 0, 1, 1}, "axis 0 has a step of 0"},
      {op::slice, {{f32, {5}}}, {2, 0, 0, 1, 1, 1, 1}, "start [0, 0] has 2 values, not 1"},
      {op::slice, {{f32, {5}}}, {1, 0, 2, 1, 1, 1, 1}, "step [1, 1] has 2 values, not 1"},
      {op::slice, {{f32, {5}}}, {1, 0, 1, 1, 2, 1, 1}, "has another rank"},
      {op::slice_update, {{f32, {5}}, {f64, {2}}}, {1, 0, 1, 1}, "dtypes differ"},
      {op::slice_update, {{f32, {5}}, {f32, {}}}, {1, 0, 1, 1}, "ranks differ"},
      {op::slice_update, {{f32, {5}}, {f32, {3}}}, {1, 0, 1, 3}, "not all inside"},
      {op::concatenate, {{f32, {2, 3}}, {f64, {2, 3}}}, {0}, "dtypes differ"},
      {op::concatenate, {{f32, {2, 3}}, {f32, {2}}}, {0}, "ranks differ"},
      {op::concatenate, {{f32, {2, 3}}, {f32, {2, 4}}}, {0}, "extents 3 and 4 of axis 1 differ"},
      {op::concatenate, {{f32, {2, 3}}}, {2}, "no axis 2"},
      {op::concatenate, {{f32, {}}}, {0}, "no axis 0"},
      {op::concatenate, {}, {0}, "takes one operand or more"},
      {op::concatenate, {{f32, {1ll << 61}}, {f32, {1ll << 61}}}, {0}, "2^62 elements or more"},
      {op::pad, {{f32, {2}}, {f64, {}}}, {1, 0, 1, 0}, "dtypes differ"},
      {op::pad, {{f32, {2}}, {f32, {1}}}, {1, 0, 1, 0}, "the padding value is not of rank 0"},
      {op::pad, {{f32, {2}}, {f32, {}}}, {1, -1, 1, 0}, "low [-1] has a value below 0"},
      {op::pad, {{f32, {2}}, {f32, {}}}, {1, 0, 2, 0, 0}, "high [0, 0] has 2 values, not 1"},
      {op::pad, {{f32, {2}}, {f32, {}}}, {1, big, 1, big}, "2^62 or more"},
      {op::sliding_window, {{f32, {5}}}, {1, 0, 1, 0, 1, 1, 1, 1}, "window [0] has a value below 1"},
      {op::sliding_window, {{f32, {5}}}, {1, 0, 1, 3, 1, 0, 1, 1}, "stride [0]"},
      {op::sliding_window, {{f32, {5}}}, {1, 0, 1, 3, 1, 1, 1, 0}, "dilation [0]"},
      {op::sliding_window, {{f32, {5}}}, {1, 0, 1, 3, 1, 1, 1, big}, "does not fit in axis 0"},
      {op::sliding_window,
       {{f32, {5}}},
       {1, 0, 1, 6, 1, 1, 1, 1},
       "a window of 6 by 1 does not fit in axis 0"},
      {op::sliding_window, {{f32, {5, 5}}}, {2, 0, 0, 2, 1, 1, 2, 1, 1, 2, 1, 1}, "axis 0 twice"},
      {op::sliding_window, {{f32, {1, 1, 1, 1, 1, 1, 1, 1}}}, {1, 0, 1, 1, 1, 1, 1, 1}, "more than 8 axes"},
      {op::iota, {}, {1, 4, 1}, "iota: no axis 1 in shape (4,)"},
      {op::iota, {}, {0, 0}, "no axis 0 in shape ()"},
      {op::iota, {}, {2, big, big, 0}, "2^62 elements or more"},
      {op::philox, {{i32, {}}}, {1, 4}, "the key is an int64 of rank 0"},
      {op::philox, {{i64, {1}}}, {1, 4}, "the key is an int64 of rank 0"},
      {op::parameter, {}, {0}, "append_typed"},
      {op::constant, {}, {0}, "append_typed"},
      {op::repeat, {{f32, {}}}, {0, 0}, "infer_region"},
      {op::matmul,
       {{f32, {2, 3}}, {f32, {4, 5}}},
       {},
       "matmul: operands float32(2, 3) and float32(4, 5): inner extents 3 and 4 differ"},
      {op::matmul, {{f32, {2, 3}}, {f32, {3}}}, {}, "two axes or more"},
      {op::matmul, {{f32, {2, 3}}, {f64, {3, 4}}}, {}, "dtypes differ"},
      {op::matmul, {{boolean, {2, 3}}, {boolean, {3, 4}}}, {}, "takes numeric dtypes"},
      {op::matmul, {{f32, {4, 2, 3}}, {f32, {5, 3, 4}}}, {}, "leading extents 4 and 5 do not broadcast"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f32, {4, 2, 3, 3}}},
       {2, 1, 1, 4, 0, 0, 0, 0, 2, 1, 1, 1},
       "filters take 2 channels, a group has 3"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f32, {4, 3, 3}}},
       {2, 1, 1, 4, 0, 0, 0, 0, 2, 1, 1, 1},
       "four axes each"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f32, {4, 3, 3, 3}}},
       {2, 1, 1, 4, 0, 0, 0, 0, 2, 1, 1, 2},
       "do not divide into 2 groups"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f32, {4, 3, 3, 3}}},
       {2, 1, 1, 4, 0, 0, 0, 0, 2, 1, 1, 0},
       "groups is 0"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f32, {4, 3, 3, 3}}},
       {2, 1, 1, 2, 0, 0, 2, 1, 1, 1},
       "padding [0, 0] has 2 values, not 4"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f32, {4, 3, 9, 3}}},
       {2, 1, 1, 4, 0, 0, 0, 0, 2, 1, 1, 1},
       "does not fit in a padded extent of 8"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f32, {4, 3, 0, 3}}},
       {2, 1, 1, 4, 0, 0, 0, 0, 2, 1, 1, 1},
       "an empty filter"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f32, {4, 3, 3, 3}}},
       {2, 0, 1, 4, 0, 0, 0, 0, 2, 1, 1, 1},
       "stride [0, 1] has a value below 1"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f32, {4, 3, 3, 3}}},
       {2, 1, 1, 4, big, 0, big, 0, 2, 1, 1, 1},
       "2^62 or more"},
      {op::conv2d,
       {{f32, {1, 3, 8, 8}}, {f64, {4, 3, 3, 3}}},
       {2, 1, 1, 4, 0, 0, 0, 0, 2, 1, 1, 1},
       "dtypes differ"},
  };
  for (refused const& c : cases) {
    try {
      tensor_type const t = infer(c.code, c.operands, c.attributes);
      ADD_FAILURE() << info(c.code).name << " gave " << str(t) << ", not: " << c.message;
    } catch (argument_error const& e) {
      EXPECT_NE(std::string(e.what()).find(c.message), std::string::npos)
          << e.what() << "\n  not: " << c.message;
    }
  }
}

TEST(infer, takes_empty_axes_where_they_mean_something) {
  EXPECT_EQ(str(infer(op::sum, std::vector<tensor_type>{{f32, {0, 3}}}, std::vector<std::int64_t>{1, 0})),
            "float32(3,)");
  EXPECT_EQ(str(infer(op::max, std::vector<tensor_type>{{f32, {0, 3}}}, std::vector<std::int64_t>{1, 1})),
            "float32(0,)");
  EXPECT_EQ(str(infer(op::argmax, std::vector<tensor_type>{{f32, {3, 0}}}, std::vector<std::int64_t>{0})),
            "int64(0,)");
}

}  // namespace
}  // namespace reprise::ir
