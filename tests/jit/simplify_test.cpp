// Each rule by what it makes of a small program, written as text, and by the bits of the results; then random
// programs, whose results must keep every bit.
#include <chrono>
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "jit/plan.h"
#include "support/build.h"
#include "support/compare.h"
#include "support/random_program.h"

namespace reprise::jit {
namespace {

using ir::node_id;
using ir::op;
using test::attribute_words;
using numbers = std::vector<std::int64_t>;

// "add(p0, 0x1)": parameters by number, constants by bits, attributes in brackets.
std::string text(ir::program const& p, node_id n) {
  ir::node const& x = p.nodes[n];
  if (x.code == op::parameter) return fmt::format("p{}", p.int_of(n, "index"));
  if (x.code == op::constant) return fmt::format("{:#x}", static_cast<std::uint64_t>(p.attributes_of(n)[0]));
  std::string out = ir::info(x.code).name;
  if (x.attribute_count > 0) {
    out += "[";
    for (std::int64_t w : p.attributes_of(n)) out += fmt::format("{}{}", out.back() == '[' ? "" : " ", w);
    out += "]";
  }
  out += "(";
  for (node_id o : p.operands_of(n)) out += (out.back() == '(' ? "" : ", ") + text(p, o);
  return out + ")";
}

// Checks that nothing but the form has changed, for values at which rules go wrong, too.
std::string simplified(ir::program const& p) {
  ir::program const q = simplify(p);
  ir::verify_runnable(q);
  EXPECT_EQ(ir::key_bytes(ir::canonical(q)), ir::key_bytes(q));
  test::random_engine r(7);
  for (int round = 0; round < 4; ++round) {
    auto const in = test::random_parameters(r, p, {.specials = 0.5, .spread = 3, .any_bits = 0.2});
    auto const want = ir::run_reference(p, in), got = ir::run_reference(q, in);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(test::difference(got[i], want[i]), "");
  }
  std::string out;
  for (ir::result const& x : q.results) out += (out.empty() ? "" : "; ") + text(q, x.value);
  return out;
}

struct maker {
  ir::program p;
  ir::builder b{p};
  dtype type = dtype::f32;
  reprise::shape shape{3, 64};

  node_id parameter(dtype t, reprise::shape const& s) { return b.parameter({t, s}); }
  node_id x() { return parameter(type, shape); }
  node_id number(double v) { return b.constant(type, v); }
  node_id full(double v) { return b.broadcast(number(v), shape); }
  node_id add(op code, std::vector<node_id> const& in, ir::words attributes = {}) {
    return b.add(code, in, attributes);
  }
  node_id view(op code, node_id n, numbers const& list) {
    return add(code, {n}, attribute_words().list(list));
  }
  node_id slice(node_id n, numbers const& start, numbers const& step, numbers const& extent) {
    return add(op::slice, {n}, attribute_words().list(start).list(step).list(extent));
  }
  node_id pad(node_id n, node_id value, numbers const& low, numbers const& high) {
    return add(op::pad, {n, value}, attribute_words().list(low).list(high));
  }
  node_id cast(node_id n, dtype to) {
    return add(op::cast, {n}, attribute_words().one(static_cast<std::int64_t>(to)));
  }
};

std::string after(std::function<node_id(maker&)> const& make, dtype type = dtype::f32,
                  reprise::shape const& shape = {3, 64}) {
  maker m;
  m.type = type;
  m.shape = shape;
  node_id const n = make(m);
  test::finish(m.p, {&n, 1});
  return simplified(m.p);
}

constexpr dtype floats[] = {dtype::f16, dtype::bf16, dtype::f32, dtype::f64};
constexpr dtype integers[] = {dtype::u8, dtype::i32, dtype::i64};

TEST(Simplify, ArithmeticWithNothing) {
  auto const with = [](op code, double v) {
    return [=](maker& m) { return m.add(code, {m.x(), m.number(v)}); };
  };
  auto const behind = [](op code, double v) {
    return [=](maker& m) { return m.add(code, {m.number(v), m.x()}); };
  };
  for (dtype t : floats) {
    EXPECT_EQ(after(with(op::add, -0.0), t), "p0");
    EXPECT_EQ(after(behind(op::add, -0.0), t), "p0");
    EXPECT_NE(after(with(op::add, 0.0), t), "p0");
    EXPECT_EQ(after(with(op::sub, 0.0), t), "p0");
    EXPECT_NE(after(with(op::sub, -0.0), t), "p0");
    EXPECT_EQ(after(behind(op::sub, -0.0), t), "neg(p0)");
    EXPECT_NE(after(behind(op::sub, 0.0), t), "neg(p0)");
    EXPECT_EQ(after(with(op::mul, 1), t), "p0");
    EXPECT_NE(after(with(op::mul, 0), t), "0x0");
    EXPECT_EQ(after(with(op::mul, -1), t), "neg(p0)");
    EXPECT_EQ(after(with(op::div, 1), t), "p0");
    EXPECT_EQ(after(behind(op::div, 1), t).substr(0, 3), "div");
    EXPECT_NE(after(with(op::floor_divide, 1), t), "p0");
    EXPECT_EQ(after(with(op::pow, 1), t).substr(0, 3), "pow");
  }
  for (dtype t : integers) {
    EXPECT_EQ(after(with(op::add, 0), t), "p0");
    EXPECT_EQ(after(with(op::sub, 0), t), "p0");
    EXPECT_EQ(after(behind(op::sub, 0), t), "neg(p0)");
    EXPECT_EQ(after(behind(op::mul, 1), t), "p0");
    EXPECT_EQ(after(with(op::mul, 0), t), "broadcast_to[2 3 64](0x0)");
    EXPECT_EQ(after(with(op::div, 1), t), "p0");
    EXPECT_EQ(after(with(op::floor_divide, 1), t), "p0");
    EXPECT_EQ(after(with(op::mod, 1), t), "broadcast_to[2 3 64](0x0)");
    EXPECT_EQ(after(with(op::pow, 1), t), "p0");
    EXPECT_EQ(after(with(op::pow, 0), t), "broadcast_to[2 3 64](0x1)");
    EXPECT_EQ(after(with(op::bitwise_and, 0), t), "broadcast_to[2 3 64](0x0)");
    EXPECT_EQ(after(with(op::bitwise_and, t == dtype::u8 ? 255 : -1), t), "p0");
    EXPECT_EQ(after(with(op::bitwise_or, 0), t), "p0");
    EXPECT_EQ(after(with(op::bitwise_xor, 0), t), "p0");
    EXPECT_EQ(after(with(op::left_shift, 0), t), "p0");
    EXPECT_EQ(after(with(op::right_shift, 0), t), "p0");
    EXPECT_EQ(after(with(op::mul, -1), t),
              t == dtype::u8 ? "broadcast_to[2 3 64](0x0)" : "neg(p0)");  // u8: saturates to 0
  }
}

TEST(Simplify, DivisionByAPowerOfTwoIsMultiplication) {
  for (dtype t : floats)
    for (double v : {2.0, 0.25, -8.0, 1024.0}) {
      auto const divided = [&](maker& m) { return m.add(op::div, {m.x(), m.number(v)}); };
      EXPECT_EQ(after(divided, t),
                after([&](maker& m) { return m.add(op::mul, {m.x(), m.number(1 / v)}); }, t));
    }
  for (double v : {3.0, 0.0, 0x1p-149, 0x1p127, std::numeric_limits<double>::infinity()})
    EXPECT_EQ(after([&](maker& m) { return m.add(op::div, {m.x(), m.number(v)}); }).substr(0, 3), "div") << v;
}

TEST(Simplify, TwiceTheSame) {
  auto const twice = [](op code) { return [=](maker& m) { return m.add(code, {m.add(code, {m.x()})}); }; };
  for (dtype t : floats) {
    EXPECT_EQ(after(twice(op::neg), t), "p0");
    EXPECT_EQ(after(twice(op::abs), t), "abs(p0)");
    EXPECT_EQ(after(twice(op::relu), t), "relu(p0)");
    EXPECT_EQ(after(twice(op::sign), t), "sign(p0)");
    EXPECT_EQ(after(twice(op::floor), t), "floor(p0)");
    EXPECT_EQ(after([](maker& m) { return m.add(op::round, {m.add(op::ceil, {m.x()})}); }, t), "ceil(p0)");
    EXPECT_EQ(after(twice(op::sqrt), t), "sqrt(sqrt(p0))");
  }
  for (dtype t : integers) {
    EXPECT_EQ(after(twice(op::neg), t), "p0");
    EXPECT_EQ(after(twice(op::invert), t), "p0");
  }
  EXPECT_EQ(after(twice(op::logical_not), dtype::boolean), "p0");
  EXPECT_EQ(after(twice(op::logical_not), dtype::i32), "logical_not(logical_not(p0))");
  EXPECT_EQ(after([](maker& m) { return m.add(op::abs, {m.add(op::neg, {m.x()})}); }), "abs(p0)");
}

TEST(Simplify, SumsOfNegatives) {
  auto const two = [](op code, bool left) {
    return [=](maker& m) {
      node_id const x = m.x(), y = m.x(), n = m.add(op::neg, {y});
      return left ? m.add(code, {n, x}) : m.add(code, {x, n});
    };
  };
  for (dtype t : {dtype::f16, dtype::f32, dtype::i32, dtype::u8}) {
    EXPECT_EQ(after(two(op::add, false), t), "sub(p0, p1)");
    EXPECT_EQ(after(two(op::add, true), t), "sub(p0, p1)");
    EXPECT_EQ(after(two(op::sub, false), t), "add(p0, p1)");
    EXPECT_EQ(after(two(op::sub, true), t), "sub(neg(p1), p0)");
  }
}

TEST(Simplify, OperandsOfCommutativeOperationsAreSorted) {
  for (op code : {op::add, op::mul, op::minimum, op::maximum})
    EXPECT_EQ(after([&](maker& m) {
                node_id const x = m.x(), y = m.x();
                return m.add(op::div, {m.add(code, {x, y}), m.add(code, {y, x})});
              }),
              fmt::format("div({0}(p0, p1), {0}(p0, p1))", ir::info(code).name));
}

TEST(Simplify, OfItself) {
  auto const itself = [](op code) {
    return [=](maker& m) {
      node_id const x = m.x();
      return m.add(code, {x, x});
    };
  };
  std::string const zero = "broadcast_to[2 3 64](0x0)", one = "broadcast_to[2 3 64](0x1)";
  EXPECT_EQ(after(itself(op::minimum)), "p0");
  EXPECT_EQ(after(itself(op::maximum)), "p0");
  EXPECT_EQ(after(itself(op::less)), zero);
  EXPECT_EQ(after(itself(op::greater)), zero);
  EXPECT_EQ(after(itself(op::sub)), "sub(p0, p0)");
  EXPECT_EQ(after(itself(op::equal)), "equal(p0, p0)");
  EXPECT_EQ(after(itself(op::less_equal)), "less_equal(p0, p0)");
  EXPECT_EQ(after(itself(op::logical_xor)), zero);
  for (dtype t : integers) {
    EXPECT_EQ(after(itself(op::sub), t), zero);
    EXPECT_EQ(after(itself(op::bitwise_xor), t), zero);
    EXPECT_EQ(after(itself(op::bitwise_and), t), "p0");
    EXPECT_EQ(after(itself(op::bitwise_or), t), "p0");
    EXPECT_EQ(after(itself(op::equal), t), one);
    EXPECT_EQ(after(itself(op::greater_equal), t), one);
    EXPECT_EQ(after(itself(op::not_equal), t), zero);
  }
  EXPECT_EQ(after(itself(op::logical_and), dtype::boolean), "p0");
  EXPECT_EQ(after(itself(op::logical_or), dtype::boolean), "p0");
}

TEST(Simplify, Logic) {
  auto const with = [](op code, double v) {
    return [=](maker& m) { return m.add(code, {m.x(), m.number(v)}); };
  };
  std::string const no = "broadcast_to[2 3 64](0x0)", yes = "broadcast_to[2 3 64](0x1)";
  dtype const b = dtype::boolean;
  EXPECT_EQ(after(with(op::logical_and, 1), b), "p0");
  EXPECT_EQ(after(with(op::logical_and, 0), b), no);
  EXPECT_EQ(after(with(op::logical_and, 0)), no);
  EXPECT_EQ(after(with(op::logical_and, -0.0)), no);
  EXPECT_EQ(after(with(op::logical_and, 1)).substr(0, 11), "logical_and");
  EXPECT_EQ(after(with(op::logical_or, 0), b), "p0");
  EXPECT_EQ(after(with(op::logical_or, 1), b), yes);
  EXPECT_EQ(after(with(op::logical_xor, 0), b), "p0");
  EXPECT_EQ(after(with(op::bitwise_and, 1), b), "p0");
  EXPECT_EQ(after(with(op::bitwise_or, 1), b), yes);
  EXPECT_EQ(after(with(op::equal, 1), b), "p0");
  EXPECT_EQ(after(with(op::equal, 0), b), "logical_not(p0)");
  EXPECT_EQ(after(with(op::not_equal, 0), b), "p0");
  EXPECT_EQ(after(with(op::not_equal, 1), b), "logical_not(p0)");
  auto const refused = [](op code) {
    return [=](maker& m) { return m.add(op::logical_not, {m.add(code, {m.x(), m.x()})}); };
  };
  for (dtype t : {dtype::f32, dtype::i32}) {
    EXPECT_EQ(after(refused(op::equal), t), "not_equal(p0, p1)");
    EXPECT_EQ(after(refused(op::not_equal), t), "equal(p0, p1)");
  }
  EXPECT_EQ(after(refused(op::less), dtype::i64), "greater_equal(p0, p1)");
  EXPECT_EQ(after(refused(op::greater_equal), dtype::u8), "less(p0, p1)");
  EXPECT_EQ(after(refused(op::less), dtype::f64), "logical_not(less(p0, p1))");
}

TEST(Simplify, Where) {
  auto const choice = [](std::function<node_id(maker&)> const& condition, bool same = false) {
    return [=](maker& m) {
      node_id const x = m.x(), y = same ? x : m.x();
      return m.add(op::where, {condition(m), x, y});
    };
  };
  auto const constant = [](bool v) {
    return [=](maker& m) { return m.b.constant(dtype::boolean, v ? 1.0 : 0.0); };
  };
  auto const unknown = [](maker& m) { return m.parameter(dtype::boolean, m.shape); };
  EXPECT_EQ(after(choice(constant(true))), "p0");
  EXPECT_EQ(after(choice(constant(false))), "p1");
  EXPECT_EQ(after(choice(unknown, true)), "p0");
  EXPECT_EQ(after(choice(unknown)), "where(p2, p0, p1)");
  EXPECT_EQ(after(choice([&](maker& m) { return m.add(op::logical_not, {unknown(m)}); })),
            "where(p2, p1, p0)");
  auto const truth = [&](bool x, bool y) {
    return after([&](maker& m) {
      return m.add(op::where, {unknown(m), m.b.constant(dtype::boolean, x ? 1.0 : 0.0),
                               m.b.constant(dtype::boolean, y ? 1.0 : 0.0)});
    });
  };
  EXPECT_EQ(truth(true, false), "p0");
  EXPECT_EQ(truth(false, true), "logical_not(p0)");
}

TEST(Simplify, Casts) {
  for (dtype a : test::all_dtypes())
    for (dtype b : test::all_dtypes())
      for (dtype c : test::all_dtypes()) {
        // bits are compared inside
        std::string const t = after([&](maker& m) { return m.cast(m.cast(m.x(), b), c); }, a);
        if (a == b && b == c) { EXPECT_EQ(t, "p0"); }
      }
  auto const chain = [](dtype a, dtype b, dtype c) {
    return after([=](maker& m) { return m.cast(m.cast(m.x(), b), c); }, a);
  };
  EXPECT_EQ(chain(dtype::f16, dtype::f32, dtype::f16), "p0");
  EXPECT_EQ(chain(dtype::bf16, dtype::f64, dtype::bf16), "p0");
  EXPECT_EQ(chain(dtype::boolean, dtype::i32, dtype::boolean), "p0");
  EXPECT_EQ(chain(dtype::u8, dtype::f16, dtype::u8), "p0");
  EXPECT_EQ(chain(dtype::i32, dtype::f64, dtype::i32), "p0");
  EXPECT_EQ(chain(dtype::i64, dtype::i32, dtype::u8), "cast[1](p0)");
  EXPECT_NE(chain(dtype::i32, dtype::f32, dtype::i32), "p0");
  EXPECT_NE(chain(dtype::f32, dtype::f16, dtype::f32), "p0");
  EXPECT_NE(chain(dtype::i32, dtype::f64, dtype::u8), "cast[1](p0)");
}

TEST(Simplify, ConstantsFold) {
  EXPECT_EQ(after([](maker& m) { return m.add(op::add, {m.full(1), m.full(2)}); }),
            "broadcast_to[2 3 64](0x40400000)");
  EXPECT_EQ(after([](maker& m) { return m.add(op::sqrt, {m.number(2)}); }), "0x3fb504f3");
  EXPECT_EQ(after([](maker& m) { return m.cast(m.number(3.7), dtype::i32); }), "0x3");
  EXPECT_EQ(after([](maker& m) { return m.add(op::div, {m.number(7), m.number(0)}); }, dtype::i32), "0x0");
  EXPECT_EQ(after([](maker& m) { return m.add(op::pow, {m.number(3), m.number(4)}); }, dtype::i64), "0x51");
  // generated code may differ from the reference here
  EXPECT_EQ(after([](maker& m) { return m.add(op::exp, {m.number(1)}); }), "exp(0x3f800000)");
  EXPECT_EQ(after([](maker& m) { return m.add(op::pow, {m.number(1), m.number(2)}); }),
            "pow(0x3f800000, 0x40000000)");
}

TEST(Simplify, ScalarsNeedNoBroadcast) {
  EXPECT_EQ(after([](maker& m) { return m.add(op::add, {m.x(), m.full(2)}); }), "add(p0, 0x40000000)");
  EXPECT_EQ(after([](maker& m) {
              return m.add(op::add, {m.x(), m.b.broadcast(m.parameter(m.type, {}), m.shape)});
            }),
            "add(p0, p1)");
  EXPECT_EQ(after([](maker& m) {
              node_id const s = m.b.broadcast(m.parameter(m.type, {}), m.shape);
              return m.add(op::mul, {s, m.full(3)});
            }),
            "mul(broadcast_to[2 3 64](p0), 0x40400000)");
}

TEST(Simplify, ViewsOfScalars) {
  auto const splat = [](maker& m) { return m.b.broadcast(m.parameter(m.type, {}), m.shape); };
  EXPECT_EQ(after([&](maker& m) { return m.view(op::reshape, splat(m), {192}); }), "broadcast_to[1 192](p0)");
  EXPECT_EQ(after([&](maker& m) { return m.view(op::transpose, splat(m), {1, 0}); }),
            "broadcast_to[2 64 3](p0)");
  EXPECT_EQ(after([&](maker& m) { return m.slice(splat(m), {1, 2}, {1, 3}, {2, 4}); }),
            "broadcast_to[2 2 4](p0)");
  EXPECT_EQ(after([&](maker& m) { return m.view(op::reshape, m.parameter(m.type, {}), {1, 1}); }),
            "broadcast_to[2 1 1](p0)");
  EXPECT_EQ(after([](maker& m) {
              return m.add(op::concatenate, {m.full(1), m.full(1)}, attribute_words().one(0));
            }),
            "broadcast_to[2 6 64](0x3f800000)");
  EXPECT_EQ(after([](maker& m) { return m.pad(m.full(1), m.number(1), {1, 0}, {0, 2}); }),
            "broadcast_to[2 4 66](0x3f800000)");
  EXPECT_EQ(after([](maker& m) { return m.pad(m.full(1), m.number(2), {1, 0}, {0, 2}); }).substr(0, 3),
            "pad");
}

TEST(Simplify, ReshapesAndTransposes) {
  EXPECT_EQ(after([](maker& m) { return m.view(op::reshape, m.view(op::reshape, m.x(), {192}), {6, 32}); }),
            "reshape[2 6 32](p0)");
  EXPECT_EQ(after([](maker& m) { return m.view(op::reshape, m.view(op::reshape, m.x(), {192}), {3, 64}); }),
            "p0");
  EXPECT_EQ(
      after([](maker& m) { return m.view(op::transpose, m.view(op::transpose, m.x(), {1, 0}), {1, 0}); }),
      "p0");
  EXPECT_EQ(
      after(
          [](maker& m) { return m.view(op::transpose, m.view(op::transpose, m.x(), {2, 0, 1}), {0, 2, 1}); },
          dtype::f32, {2, 3, 4}),
      "transpose[3 2 1 0](p0)");
  EXPECT_EQ(after([](maker& m) { return m.view(op::transpose, m.x(), {1, 0, 2}); }, dtype::f32, {1, 3, 4}),
            "reshape[3 3 1 4](p0)");
  EXPECT_EQ(after([](maker& m) { return m.view(op::transpose, m.x(), {0, 1}); }), "p0");
}

TEST(Simplify, Broadcasts) {
  EXPECT_EQ(after(
                [](maker& m) {
                  return m.view(op::broadcast_to, m.view(op::broadcast_to, m.x(), {2, 1, 4}), {5, 2, 3, 4});
                },
                dtype::f32, {1, 4}),
            "broadcast_to[4 5 2 3 4](p0)");
  EXPECT_EQ(after([](maker& m) { return m.view(op::broadcast_to, m.x(), {1, 3, 64}); }),
            "reshape[3 1 3 64](p0)");
  EXPECT_EQ(after([](maker& m) { return m.view(op::broadcast_to, m.x(), {3, 64}); }), "p0");
}

TEST(Simplify, Slices) {
  EXPECT_EQ(after([](maker& m) { return m.slice(m.x(), {0, 0}, {1, 1}, {3, 64}); }), "p0");
  EXPECT_EQ(after([](maker& m) {
              return m.slice(m.slice(m.x(), {2, 60}, {-1, -3}, {3, 20}), {1, 2}, {1, -2}, {2, 2});
            }),
            "slice[2 1 54 2 -1 6 2 2 2](p0)");
  EXPECT_EQ(after([](maker& m) { return m.slice(m.x(), {1, 7}, {5, -4}, {1, 1}); }),
            "slice[2 1 7 2 1 1 2 1 1](p0)");
  EXPECT_EQ(after([](maker& m) {
              node_id const row = m.parameter(m.type, {1, 64});
              return m.slice(m.view(op::broadcast_to, row, {5, 3, 64}), {1, 0, 4}, {2, 1, 1}, {2, 2, 8});
            }),
            "broadcast_to[3 2 2 8](slice[2 0 4 2 1 1 2 1 8](p0))");
  EXPECT_EQ(after([](maker& m) {
              node_id const row = m.parameter(m.type, {64});
              return m.slice(m.view(op::broadcast_to, row, {3, 64}), {1, 0}, {1, 1}, {1, 64});
            }),
            "reshape[2 1 64](p0)");
}

TEST(Simplify, SlicesOfParts) {
  auto const of_two = [](numbers const& start, numbers const& step, numbers const& extent) {
    return after([=](maker& m) {
      node_id const both = m.add(op::concatenate, {m.x(), m.x()}, attribute_words().one(0));
      return m.slice(both, start, step, extent);
    });
  };
  EXPECT_EQ(of_two({0, 0}, {1, 1}, {3, 64}), "p0");
  EXPECT_EQ(of_two({5, 1}, {-1, 1}, {3, 2}), "slice[2 2 1 2 -1 1 2 3 2](p1)");
  EXPECT_EQ(of_two({2, 0}, {1, 1}, {2, 64}).substr(0, 5), "slice");

  auto const of_padded = [](numbers const& start, numbers const& step, numbers const& extent) {
    return after(
        [=](maker& m) { return m.slice(m.pad(m.x(), m.number(2), {2, 0}, {1, 5}), start, step, extent); });
  };
  EXPECT_EQ(of_padded({2, 0}, {1, 1}, {3, 64}), "p0");
  EXPECT_EQ(of_padded({4, 10}, {-2, 1}, {2, 3}), "slice[2 2 10 2 -2 1 2 2 3](p0)");
  EXPECT_EQ(of_padded({0, 0}, {1, 1}, {2, 10}), "broadcast_to[2 2 10](0x40000000)");
  EXPECT_EQ(of_padded({1, 0}, {1, 1}, {2, 10}).substr(0, 5), "slice");

  auto const of_update = [](numbers const& start, numbers const& step, numbers const& extent) {
    return after([=](maker& m) {
      node_id const x = m.x(), y = m.parameter(m.type, {1, 10});
      return m.slice(
          m.add(op::slice_update, {x, y}, attribute_words().list(numbers{1, 20}).list(numbers{1, 3})), start,
          step, extent);
    });
  };
  EXPECT_EQ(of_update({1, 20}, {1, 3}, {1, 10}), "p1");
  EXPECT_EQ(of_update({2, 0}, {1, 1}, {1, 64}), "slice[2 2 0 2 1 1 2 1 64](p0)");
  EXPECT_EQ(of_update({0, 0}, {1, 1}, {3, 20}), "slice[2 0 0 2 1 1 2 3 20](p0)");
  EXPECT_EQ(of_update({1, 20}, {1, 1}, {1, 10}).substr(0, 5), "slice");
}

TEST(Simplify, UpdatesConcatenationsPadsAndWindows) {
  EXPECT_EQ(after([](maker& m) {
              return m.add(op::slice_update, {m.x(), m.x()},
                           attribute_words().list(numbers{0, 0}).list(numbers{1, 1}));
            }),
            "p1");
  EXPECT_EQ(after([](maker& m) {
              return m.add(op::slice_update, {m.x(), m.parameter(m.type, {0, 64})},
                           attribute_words().list(numbers{1, 0}).list(numbers{1, 1}));
            }),
            "p0");
  EXPECT_EQ(after([](maker& m) {
              return m.add(op::slice_update, {m.x(), m.x()},
                           attribute_words().list(numbers{2, 0}).list(numbers{-1, 1}));
            }).substr(0, 12),
            "slice_update");
  EXPECT_EQ(after([](maker& m) { return m.add(op::concatenate, {m.x()}, attribute_words().one(1)); }), "p0");
  EXPECT_EQ(after([](maker& m) {
              return m.add(op::concatenate, {m.parameter(m.type, {0, 64}), m.x(), m.x()},
                           attribute_words().one(0));
            }),
            "concatenate[0](p1, p2)");
  EXPECT_EQ(after([](maker& m) { return m.pad(m.x(), m.number(1), {0, 0}, {0, 0}); }), "p0");
  EXPECT_EQ(after([](maker& m) {
              return m.pad(m.pad(m.x(), m.number(1), {1, 0}, {0, 2}), m.number(1), {3, 1}, {0, 0});
            }),
            "pad[2 4 1 2 0 2](p0, 0x3f800000)");
  EXPECT_EQ(after([](maker& m) {
              return m.add(op::sliding_window, {m.x()},
                           attribute_words().list(numbers{}).list(numbers{}).list(numbers{}).list(numbers{}));
            }),
            "p0");
}

// The order of a sum is by its operand's axes: a transpose before it stays.
TEST(Simplify, ReductionsKeepTheirOrder) {
  EXPECT_EQ(after([](maker& m) {
              return m.add(op::sum, {m.view(op::transpose, m.x(), {1, 0})},
                           attribute_words().list(numbers{1}));
            }),
            "sum[1 1](transpose[2 1 0](p0))");
  EXPECT_EQ(after([](maker& m) {
              return m.add(op::sum, {m.full(0.1)}, attribute_words().list(numbers{1}));
            }).substr(0, 3),
            "sum");
}

TEST(Simplify, RandomProgramsKeepEveryBit) {
  std::size_t fewer = 0, nodes = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    test::random_case const c = test::random_program(seed, {.inexact = seed % 3 != 0});
    ir::program const q = simplify(c.code);
    ir::verify_runnable(q);
    auto const want = ir::run_reference(c.code, c.parameters), got = ir::run_reference(q, c.parameters);
    ASSERT_EQ(want.size(), got.size());
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(test::difference(got[i], want[i]), "") << c.name;
    nodes += c.code.nodes.size();
    fewer += c.code.nodes.size() - std::min(q.nodes.size(), c.code.nodes.size());
    ASSERT_EQ(q.parameters.size(), c.code.parameters.size());
  }
  EXPECT_GT(fewer * 20, nodes);
}

TEST(Simplify, AMillionNodes) {
  ir::program p;
  std::int64_t const zero = 0;
  p.parameters.push_back({{dtype::f32, {4}}, ir::parameter_role::argument, "0"});
  node_id n = p.append_typed(op::parameter, {dtype::f32, {4}}, {&zero, 1});
  for (int i = 0; i < 500000; ++i) n = p.append(op::neg, {&n, 1}, {});
  for (int i = 0; i < 500000; ++i) n = p.append(i % 2 ? op::sqrt : op::abs, {&n, 1}, {});
  test::finish(p, {&n, 1});
  ir::program const q = simplify(p);
  EXPECT_EQ(q.nodes.size(), 500001u);
}

TEST(Simplify, NamesRolesAndLinesStay) {
  ir::program p;
  ir::builder b(p);
  node_id const x = b.parameter({dtype::f32, {4}}, ir::parameter_role::captured, "weight");
  node_id const y = b.add(op::add, {x, b.constant(dtype::f32, 1.0)});
  p.nodes[y].line = p.add_line("model.cpp", 12);
  p.results = {{y, ir::result_role::in_out, 0, "weight"}};
  p.segments = {{static_cast<node_id>(p.nodes.size()), {}}};
  ir::program const q = simplify(p);
  EXPECT_EQ(q.parameters[0].name, "weight");
  EXPECT_EQ(q.results[0].role, ir::result_role::in_out);
  EXPECT_EQ(q.lines.at(q.nodes[q.results[0].value].line).file, "model.cpp");
}

}  // namespace
}  // namespace reprise::jit
