// What is built: one value for equal instructions, folded constants, and nothing left out whose bits would
// change.
#include "jit/code_ops.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <reprise/error.h>

#include "lanes.h"

namespace reprise::jit {
namespace {

using code::body;
using code::val;

val load(body& b, dtype t, std::uint32_t slot = 0) {
  return b.append({.code = kop::load, .type = t, .slot = slot});
}
kop code_of(val v) { return v.in->at(v.id).code; }
std::uint64_t bits_of(val v) {
  EXPECT_EQ(code_of(v), kop::const_);
  return v.in->at(v.id).bits;
}
float f32_of(val v) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_of(v))); }

TEST(Code, EqualInstructionsAreOne) {
  body b;
  val const x = load(b, dtype::f32), y = load(b, dtype::f32, 1);
  EXPECT_EQ(code::add(x, y).id, code::add(y, x).id);
  EXPECT_NE(code::sub(x, y).id, code::sub(y, x).id);
  EXPECT_EQ(load(b, dtype::f32).id, x.id);
  EXPECT_EQ(code::number(x, 2).id, code::number(y, 2).id);
  EXPECT_NE(code::number(x, 0.0).id, code::number(x, -0.0).id);
  EXPECT_EQ(code::number(x, NAN).id, code::bits(x, 0xffc12345u).id);
}

TEST(Code, ALoadAfterAStoreIsAnother) {
  body b;
  val const x = load(b, dtype::f32);
  b.append({.code = kop::store, .type = dtype::f32, .a = x.id, .slot = 1});
  EXPECT_EQ(load(b, dtype::f32).id, x.id);
  b.append({.code = kop::store, .type = dtype::f32, .a = x.id, .slot = 0});
  EXPECT_NE(load(b, dtype::f32).id, x.id);
}

TEST(Code, ExactIdentitiesOnly) {
  body b;
  val const x = load(b, dtype::f32), i = load(b, dtype::i32, 1), c = load(b, dtype::boolean, 2);
  auto const n = [&](double v) { return code::number(x, v); };
  EXPECT_EQ(code::mul(x, n(1)).id, x.id);
  EXPECT_EQ(code::add(x, n(-0.0)).id, x.id);
  EXPECT_EQ(code::sub(x, n(0.0)).id, x.id);
  EXPECT_EQ(code::div(x, n(1)).id, x.id);
  EXPECT_EQ(code::neg(code::neg(x)).id, x.id);
  EXPECT_EQ(code::select(c, x, x).id, x.id);
  EXPECT_EQ(code::convert(x, dtype::f32).id, x.id);
  EXPECT_EQ(code_of(code::add(x, n(0.0))), kop::add);  // -0 + 0 is 0
  EXPECT_EQ(code_of(code::sub(x, n(-0.0))), kop::sub);
  EXPECT_EQ(code_of(code::mul(x, n(0.0))), kop::mul);  // nan, inf, -0
  EXPECT_EQ(code_of(code::sub(x, x)), kop::sub);
  EXPECT_EQ(code_of(code::eq(x, x)), kop::eq);
  EXPECT_EQ(code_of(code::div(x, n(3))), kop::div);
  EXPECT_EQ(code_of(code::div(x, n(8))), kop::mul);
  EXPECT_EQ(code_of(code::div(x, n(0x1p-149))), kop::div);
  EXPECT_EQ(bits_of(code::mul(i, code::integer(i, 0))), 0u);
  EXPECT_EQ(code::add(i, code::integer(i, 0)).id, i.id);
}

TEST(Code, ConversionsThatCancel) {
  body b;
  val const h = load(b, dtype::f16), i = load(b, dtype::i32, 1), w = load(b, dtype::i64, 2),
            x = load(b, dtype::f32, 3);
  EXPECT_EQ(code::convert(code::convert(h, dtype::f32), dtype::f16).id, h.id);
  EXPECT_EQ(code::convert(code::convert(i, dtype::f64), dtype::i32).id, i.id);
  EXPECT_EQ(code::convert(code::convert(i, dtype::i64), dtype::i32).id, i.id);
  EXPECT_NE(code::convert(code::convert(w, dtype::f64), dtype::i64).id, w.id);
  EXPECT_NE(code::convert(code::convert(x, dtype::f16), dtype::f32).id, x.id);
  // int32 to uint8 keeps the low bits, float64 to uint8 saturates
  val const detour = code::convert(code::convert(i, dtype::f64), dtype::u8);
  EXPECT_EQ(b.at(b.at(detour.id).a).type, dtype::f64);
  // halves by way of f32 only
  val const narrow = code::convert(load(b, dtype::f64, 4), dtype::bf16);
  EXPECT_EQ(b.at(b.at(narrow.id).a).type, dtype::f32);
}

TEST(Code, ConstantsFoldByTheRules) {
  body b;
  auto const i32 = [&](std::int32_t v) { return b.constant(dtype::i32, static_cast<std::uint32_t>(v)); };
  auto const f32 = [&](float v) { return b.number(dtype::f32, static_cast<double>(v)); };
  auto const i32_of = [](val v) { return static_cast<std::int32_t>(bits_of(v)); };
  float const inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(i32_of(code::add(i32(INT32_MAX), i32(1))), INT32_MIN);
  EXPECT_EQ(i32_of(code::div(i32(INT32_MIN), i32(-1))), INT32_MIN);
  EXPECT_EQ(i32_of(code::rem(i32(INT32_MIN), i32(-1))), 0);
  EXPECT_EQ(i32_of(code::div(i32(7), i32(0))), 0);
  EXPECT_EQ(i32_of(code::rem(i32(7), i32(0))), 0);
  EXPECT_EQ(i32_of(code::floor_divide(i32(-7), i32(2))), -4);
  EXPECT_EQ(i32_of(code::mod(i32(-7), i32(3))), 2);
  EXPECT_EQ(i32_of(code::mod(i32(7), i32(-3))), -2);
  EXPECT_EQ(i32_of(code::mod(i32(7), i32(0))), 0);
  EXPECT_EQ(i32_of(code::floor_divide(i32(INT32_MIN), i32(-1))), INT32_MIN);
  EXPECT_EQ(i32_of(code::left_shift(i32(1), i32(31))), INT32_MIN);
  EXPECT_EQ(i32_of(code::left_shift(i32(1), i32(32))), 0);
  EXPECT_EQ(i32_of(code::left_shift(i32(1), i32(-1))), 0);
  EXPECT_EQ(i32_of(code::right_shift(i32(-8), i32(1))), -4);
  EXPECT_EQ(i32_of(code::right_shift(i32(-8), i32(99))), -1);
  EXPECT_EQ(i32_of(code::right_shift(i32(-8), i32(-1))), -1);
  EXPECT_EQ(i32_of(code::convert(f32(3e9f), dtype::i32)), INT32_MAX);
  EXPECT_EQ(i32_of(code::convert(f32(-3e9f), dtype::i32)), INT32_MIN);
  EXPECT_EQ(i32_of(code::convert(f32(NAN), dtype::i32)), 0);
  EXPECT_EQ(i32_of(code::convert(f32(-1.9f), dtype::i32)), -1);
  EXPECT_EQ(bits_of(code::convert(f32(255.9f), dtype::u8)), 255u);
  EXPECT_EQ(bits_of(code::convert(f32(-1), dtype::u8)), 0u);
  EXPECT_EQ(bits_of(code::convert(i32(-1), dtype::u8)), 255u);
  EXPECT_EQ(bits_of(code::convert(f32(inf), dtype::i64)), static_cast<std::uint64_t>(INT64_MAX));
  EXPECT_EQ(bits_of(code::convert(f32(NAN), dtype::boolean)), 1u);
  EXPECT_EQ(bits_of(code::convert(f32(-0.0f), dtype::boolean)), 0u);
  EXPECT_TRUE(std::signbit(f32_of(code::minimum(f32(0), f32(-0.0f)))));
  EXPECT_FALSE(std::signbit(f32_of(code::maximum(f32(-0.0f), f32(0)))));
  EXPECT_TRUE(std::isnan(f32_of(code::minimum(f32(NAN), f32(1)))));
  EXPECT_TRUE(std::isnan(f32_of(code::maximum(f32(1), f32(NAN)))));
  EXPECT_EQ(f32_of(code::rint(f32(2.5f))), 2);
  EXPECT_EQ(bits_of(code::sub(f32(inf), f32(inf))), 0x7fc00000u);
  EXPECT_EQ(f32_of(code::sign(f32(-3))), -1);
  EXPECT_FALSE(std::signbit(f32_of(code::sign(f32(-0.0f)))));
  EXPECT_EQ(bits_of(code::isfinite(f32(inf))), 0u);
  EXPECT_EQ(bits_of(code::isinf(f32(-inf))), 1u);
  EXPECT_EQ(bits_of(code::lt(f32(NAN), f32(1))), 0u);
  EXPECT_EQ(bits_of(code::ne(f32(NAN), f32(NAN))), 1u);
  EXPECT_EQ(code_of(code::call(libm::exp, b.number(dtype::f64, 1))), kop::call);  // the running machine's own
}

TEST(Code, NumbersAreRoundedOnce) {
  body b;
  // 2049.0000001 lies above the middle of two halves, its float does not
  EXPECT_EQ(bits_of(b.number(dtype::f16, 2049.0000001)), float16(2050.0f).bits);
  EXPECT_EQ(bits_of(b.number(dtype::f16, 2049)), float16(2048.0f).bits);
  EXPECT_EQ(bits_of(b.number(dtype::f16, -1e9)), 0xfc00u);
  EXPECT_EQ(bits_of(b.number(dtype::bf16, 257.0000001)), bfloat16(258.0f).bits);
  EXPECT_EQ(bits_of(b.number(dtype::i32, -1)), 0xffffffffu);
  EXPECT_EQ(bits_of(b.number(dtype::boolean, 2)), 1u);
}

TEST(Code, RowsExpandForEveryDtypeTheyAccept) {
  int expanded = 0;
  for (int n = 0; n < ir::op_count(); ++n) {
    auto const& row = ir::info(static_cast<ir::op>(n));
    if (row.kind != ir::category::elementwise && row.kind != ir::category::select) continue;
    for (int t = 0; t < dtype_count; ++t) {
      dtype const type = static_cast<dtype>(t);
      if (row.kind == ir::category::elementwise && !ir::accepts_dtype(row.operands, type)) continue;
      body b;
      val o[3];
      for (std::uint32_t a = 0; a < static_cast<std::uint32_t>(row.arity); ++a)
        o[a] = load(b, row.kind == ir::category::select && a == 0 ? dtype::boolean : type, a);
      val const r = code::expand(row.code, o[0], o[1], o[2]);
      EXPECT_EQ(r.type(), row.result == ir::result_rule::boolean ? dtype::boolean : type)
          << row.name << " of " << name_of(type);
      ++expanded;
    }
  }
  EXPECT_GT(expanded, 200);
  body b;
  EXPECT_THROW(code::expand(ir::op::matmul, load(b, dtype::f32), load(b, dtype::f32)), compile_error);
}

TEST(Code, OperandsThatDoNotFitAreRefused) {
  body b;
  EXPECT_THROW(code::add(load(b, dtype::f32), load(b, dtype::f64)), compile_error);
  EXPECT_THROW(code::bitcast(load(b, dtype::f32), dtype::i64), compile_error);
  EXPECT_THROW(b.append({.code = kop::neg, .type = dtype::f32, .a = 99}), compile_error);
}

}  // namespace
}  // namespace reprise::jit
