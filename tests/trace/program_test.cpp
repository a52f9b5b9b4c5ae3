// Programs: appending, value numbering, canonical order, keys and lifting; none depends on evaluation order,
// addresses, processes or size.
#include "trace/program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "examples.h"

#include <reprise/error.h>

namespace reprise::ir {
namespace {

using enum dtype;

TEST(program, appends_what_infer_gives) {
  program p;
  builder b(p);
  node_id const x = b.parameter({f32, {2, 3}}), y = b.parameter({f32, {3, 4}}, parameter_role::captured, "w");
  node_id const operands[] = {x, y};
  node_id const z = p.append(op::matmul, operands, {}, p.add_line("a.cpp", 3));
  EXPECT_EQ(str(p.type_of(z)), "float32(2, 4)");
  EXPECT_EQ(p.lines[p.nodes[z].line].line, 3);
  EXPECT_EQ(p.add_line("a.cpp", 3), p.nodes[z].line);
  EXPECT_NE(p.add_line("a.cpp", 4), p.nodes[z].line);
  EXPECT_EQ(p.parameters[0].name, "0");
  EXPECT_EQ(p.parameters[1].name, "w");
  node_id const missing[] = {x, 77};
  EXPECT_THROW(p.append(op::add, missing, {}), argument_error);
  EXPECT_EQ(p.nodes.size(), 3u);
  std::int64_t const index = 2, wide = 256;
  EXPECT_THROW(p.append_typed(op::parameter, {f32, {2, 3}}, {&index, 1}), argument_error);
  EXPECT_THROW(p.append_typed(op::constant, {u8, {}}, {&wide, 1}), argument_error);
  EXPECT_THROW(p.append_typed(op::constant, {f32, {1}}, {&index, 1}), argument_error);
  EXPECT_THROW(p.append_typed(op::constant, {f32, {}}, {}), argument_error);
  EXPECT_THROW(p.append_typed(op::add, {f32, {}}, {&index, 1}), argument_error);
  EXPECT_THROW(b.parameter({f32, {1}}, parameter_role::lifted), argument_error);
}

TEST(builder, numbers_values) {
  program p;
  builder b(p);
  node_id const x = b.parameter({f32, {3}});
  EXPECT_EQ(b.add(op::add, {x, x}), b.add(op::add, {x, x}));
  EXPECT_EQ(b.constant(f32, 1.0), b.constant(f32, 1.0));
  EXPECT_NE(b.constant(f32, 0.0), b.constant(f32, -0.0));
  EXPECT_NE(b.constant(f32, std::uint64_t{1}), b.constant(i32, std::uint64_t{1}));
  EXPECT_EQ(b.constant(f32, std::uint64_t{0xff812345}), b.constant(f32, std::nan("")));  // there is one nan
  EXPECT_NE(b.add(op::sum, {x}, {1, 0}), b.add(op::prod, {x}, {1, 0}));
  EXPECT_EQ(b.broadcast(x, {3}), x);
  EXPECT_EQ(str(p.type_of(b.broadcast(x, {2, 3}))), "float32(2, 3)");
  std::size_t const size = p.nodes.size();
  builder again(p);  // knows what is there
  again.add(op::add, {x, x});
  again.constant(f32, 1.0);
  EXPECT_EQ(p.nodes.size(), size);
  EXPECT_EQ(&again.target(), &p);
}

TEST(constants, are_rounded_once) {
  double const above_tie =
      1 + 0x1p-11 + 0x1p-40;  // f32 in between would lose the last bit, and with it the decision
  EXPECT_EQ(constant_bits(f16, above_tie), 0x3c01u);
  EXPECT_EQ(constant_bits(f16, 1 + 0x1p-11), 0x3c00u);
  EXPECT_EQ(constant_bits(bf16, 1 + 0x1p-8 + 0x1p-40), 0x3f81u);
  EXPECT_EQ(constant_bits(f16, 0x1p-25 + 0x1p-60), 1u);
  EXPECT_EQ(constant_bits(f16, 65520.0), 0x7c00u);
  EXPECT_EQ(constant_bits(f16, 65519.999999999), 0x7bffu);
  EXPECT_EQ(constant_bits(bf16, 1e300), 0x7f80u);
  EXPECT_EQ(constant_bits(f16, -1e-300), 0x8000u);
  EXPECT_EQ(constant_bits(f32, 0.1), std::bit_cast<std::uint32_t>(0.1f));
  EXPECT_EQ(constant_bits(i32, 1e30), 0x7fffffffu);
  EXPECT_EQ(constant_bits(i32, -1e30), 0x80000000u);
  EXPECT_EQ(constant_bits(i64, -9223372036854775808.0), 0x8000000000000000u);
  EXPECT_EQ(constant_bits(i64, 9223372036854775808.0), 0x7fffffffffffffffu);
  EXPECT_EQ(constant_bits(u8, -3.0), 0u);
  EXPECT_EQ(constant_bits(u8, 255.9), 255u);
  EXPECT_EQ(constant_bits(i32, std::nan("")), 0u);
  EXPECT_EQ(constant_bits(boolean, std::nan("")), 1u);
  EXPECT_EQ(constant_bits(f64, -std::nan("")), 0x7ff8000000000000u);
}

// A random program; with the same seed and another order, the same work appended in another order, with dead
// nodes in between.
struct random_program {
  std::mt19937_64 choose;
  std::vector<std::pair<op, std::vector<std::size_t>>> work;
  explicit random_program(std::uint64_t seed, std::size_t size) : choose(seed) {
    op const unary[] = {op::neg, op::abs, op::relu, op::exp},
             binary[] = {op::add, op::mul, op::sub, op::maximum};
    for (std::size_t i = 0; i < size; ++i) {
      std::size_t const earlier = i + 3, a = choose() % earlier, c = choose() % earlier;
      if (choose() % 2 == 0) work.push_back({unary[choose() % 4], {a}});
      else work.push_back({binary[choose() % 4], {a, c}});
    }
  }

  program build(std::uint64_t order) const {
    std::mt19937_64 shuffle(order);
    program p;
    builder b(p);
    std::vector<node_id> made(work.size() + 3, no_node);
    made[0] = b.parameter({f32, {4}});
    made[1] = b.parameter({f32, {4}});
    if (order == 0) made[2] = b.constant(f32, 2.0);
    for (std::size_t left = work.size(); left > 0;) {
      std::size_t const i = order == 0 ? work.size() - left : shuffle() % work.size();
      if (made[2] == no_node) made[2] = b.constant(f32, 2.0);
      bool ready = made[i + 3] == no_node;
      std::vector<node_id> operands;
      for (std::size_t o : work[i].second) {
        ready = ready && made[o] != no_node;
        operands.push_back(made[o]);
      }
      if (!ready) continue;
      // Not through the builder, so that duplicates stay.
      made[i + 3] =
          p.append(work[i].first, operands, {}, p.add_line("f.cpp", static_cast<int>(shuffle() % 9)));
      if (order != 0 && shuffle() % 4 == 0) p.append(op::sin, operands = {made[i + 3]}, {});
      --left;
    }
    for (std::size_t i = 0; i < 5; ++i)
      p.results.push_back({made[made.size() - 1 - i], result_role::returned, 0, ""});
    p.segments.push_back({static_cast<node_id>(p.nodes.size()), {}});
    return p;
  }
};

TEST(canonical, does_not_depend_on_the_order_of_recording) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    random_program const r(seed, 60);
    program const first = canonical(r.build(0));
    verify(first);
    std::string const key = key_bytes(first);
    for (std::uint64_t order = 1; order <= 10; ++order) {
      program const p = r.build(order);
      verify(p);
      program const c = canonical(p);
      verify(c);
      ASSERT_EQ(key_bytes(c), key) << "seed " << seed << " order " << order;
      ASSERT_EQ(key_bytes(canonical(c)), key);
    }
    random_program const other(seed + 1000, 60);
    EXPECT_NE(key_bytes(canonical(other.build(0))), key);
  }
}

TEST(canonical, drops_what_is_dead_and_merges_what_is_equal) {
  program p;
  builder b(p);
  b.parameter({f32, {3}});
  node_id const x = b.parameter({f32, {3}});
  node_id const one[] = {x};
  node_id const e = p.append(op::exp, one, {}, p.add_line("a.cpp", 1)),
                f = p.append(op::exp, one, {}, p.add_line("a.cpp", 2));
  p.append(op::log, one, {});
  node_id const both[] = {f, e};
  p.results.push_back({p.append(op::add, both, {}), result_role::returned, 0, "sum"});
  program const c = canonical(p);
  ASSERT_EQ(c.nodes.size(), 3u);
  EXPECT_EQ(c.nodes[0].code, op::parameter);
  EXPECT_EQ(c.int_of(0, "index"), 1);
  EXPECT_EQ(c.nodes[1].code, op::exp);
  EXPECT_EQ(c.lines[c.nodes[1].line].line, 2);
  EXPECT_EQ(c.operands_of(2)[0], 1u);
  EXPECT_EQ(c.operands_of(2)[1], 1u);
  EXPECT_EQ(c.parameters.size(), 2u);
  EXPECT_EQ(c.results[0].name, "sum");
  ASSERT_EQ(c.segments.size(), 1u);
  EXPECT_EQ(c.segments[0].end, 3u);
  verify(c);
}

TEST(canonical, numbers_what_a_read_needs_before_its_segment_ends) {
  program const p = program_of_examples();
  verify(p);
  program const c = canonical(p);
  verify(c);
  ASSERT_EQ(c.segments.size(), 2u);
  EXPECT_EQ(c.segments[0].end, 2u);  // the two parameters that are read, nothing else
  EXPECT_EQ(key_bytes(canonical(c)), key_bytes(c));
}

TEST(canonical, merges_equal_regions_only) {
  program body;
  builder in(body);
  node_id const x = in.parameter({f32, {}});
  body.results.push_back({in.add(op::neg, {x}), result_role::returned, 0, "0"});
  body.segments.push_back({2, {}});
  program other = body;
  other.nodes[1].code = op::abs;
  program p;
  builder b(p);
  node_id const start[] = {b.parameter({f32, {}})};
  std::int64_t const count[] = {2, 0};
  for (program const* region : {&body, &other, &body})
    p.results.push_back({p.append_region(op::repeat, start, count, {*region}), result_role::returned, 0, ""});
  p.segments.push_back({4, {}});
  verify(p);
  program const c = canonical(p);
  verify(c);
  EXPECT_EQ(c.nodes.size(), 3u);
  EXPECT_EQ(c.regions.size(), 2u);
  EXPECT_EQ(c.results[0].value, c.results[2].value);
}

TEST(key, holds_all_but_names_and_lines) {
  program const p = canonical(program_of_examples());
  std::string const key = key_bytes(p);
  program same = p;
  same.parameters[0].name = "other";
  same.results[0].name = "other";
  same.nodes[0].line = 0;
  same.lines.resize(1);
  for (node& n : same.nodes) n.line = 0;
  EXPECT_EQ(key_bytes(same), key);
  auto differs = [&](auto&& change) {
    program q = p;
    change(q);
    return key_bytes(q) != key;
  };
  EXPECT_TRUE(differs([](program& q) { q.parameters[0].role = parameter_role::captured; }));
  EXPECT_TRUE(differs([](program& q) { q.parameters[0].type.shape = {2, 4}; }));
  EXPECT_TRUE(
      differs([](program& q) { q.parameters[0].type.type = q.parameters[0].type.type == u8 ? i32 : u8; }));
  EXPECT_TRUE(differs([](program& q) { q.results[0].role = result_role::handle; }));
  EXPECT_TRUE(differs([](program& q) { q.results[0].value = 1; }));
  EXPECT_TRUE(differs([](program& q) { q.segments[0].end += 1; }));
  EXPECT_TRUE(differs([](program& q) { q.segments[0].reads[0].seen[0] ^= 1; }));
  EXPECT_TRUE(differs([](program& q) { q.regions[0].parameters[0].type.shape = {5}; }));
  EXPECT_TRUE(differs([](program& q) { q.parameters.push_back(q.parameters[0]); }));
  for (std::size_t i = 0; i < p.attributes.size(); ++i)
    EXPECT_TRUE(differs([&](program& q) {
      // A list's count keeps its sense; every other word may change.
      for (node const& n : q.nodes) {
        if (i < n.first_attribute || i >= n.first_attribute + n.attribute_count) continue;
        std::size_t at = n.first_attribute;
        for (attribute const& a : info(n.code).attributes) {
          if (a.kind == attribute_kind::dtype && at == i) {
            q.attributes[i] ^= 1;
            return;
          }
          if (a.kind == attribute_kind::integers) {
            if (at == i) {
              q.nodes[0].shape.push_back(3);
              return;
            }
            at += static_cast<std::size_t>(q.attributes[at]);
          }
          ++at;
        }
      }
      q.attributes[i] ^= std::int64_t{1} << 40;
    })) << i;
  for (std::size_t i = 0; i < p.operands.size(); ++i)
    EXPECT_TRUE(differs([&](program& q) { q.operands[i] += 1; })) << i;
}

node_id pair(builder& b, op code, node_id x, node_id y) { return b.add(code, {x, y}); }

// Arguments are evaluated in an order of the compiler's choice, so the nodes below are made in different
// orders.
program fixed_program() {
  program p;
  builder b(p);
  node_id const x = b.parameter({f32, {4, 3}}), w = b.parameter({f32, {3, 2}}, parameter_role::captured);
  node_id const h = pair(b, op::matmul, pair(b, op::add, b.add(op::exp, {x}), b.add(op::tanh, {x})), w);
  node_id const y = pair(b, op::mul, b.add(op::relu, {h}), b.constant(f32, 0.1));
  node_id const s = b.add(op::sum, {y}, {2, 0, 1});
  p.results.push_back({s, result_role::returned, 0, "0"});
  p.results.push_back(
      {pair(b, op::less, b.add(op::neg, {y}), b.add(op::abs, {y})), result_role::handle, 0, "1"});
  return p;
}

constexpr char const* fixed_key = "6b9da63337478e61605036572bf7ecce";

TEST(key, is_the_stored_one) {
  program const p = canonical(fixed_program());
  EXPECT_EQ(hex(hash_bytes(key_bytes(p))), fixed_key) << to_json(p);
}

// A key that holds an address, or a per-process salt, is never found again.
TEST(key, is_the_same_in_twenty_processes) {
  char self[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 20; ++i) {
    std::string const command = "MALLOC_PERTURB_=" + std::to_string(i) + " X" +
                                std::string(static_cast<std::size_t>(i) * 31, 'x') + "=1 '" + self +
                                "' --gtest_filter=key.is_the_stored_one > /dev/null 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
}

TEST(hash, is_xxh3_128) {
  EXPECT_EQ(hex(hash_bytes("")), "99aa06d3014798d86001c324468d497f");  // from its own test vectors
  EXPECT_NE(hash_bytes("a"), hash_bytes("b"));
}

TEST(lift, turns_numbers_into_parameters) {
  auto step = [](double rate, double decay) {
    program p;
    builder b(p);
    node_id const w = b.parameter({f32, {3}}), g = b.parameter({f32, {3}});
    node_id const update = b.add(op::mul, {g, b.constant(f32, rate)});
    p.results.push_back({b.add(op::sub, {b.add(op::mul, {w, b.constant(f32, decay)}), update}),
                         result_role::returned, 0, "0"});
    return canonical(p);
  };
  program const first = step(0.1, 0.9), second = step(0.2, 0.9);
  EXPECT_NE(key_bytes(first), key_bytes(second));
  skeleton const a = skeleton_of(first), b = skeleton_of(second);
  EXPECT_EQ(a.bytes, b.bytes);
  ASSERT_EQ(a.constants.size(), 2u);
  EXPECT_EQ(a.values[0], std::bit_cast<std::uint32_t>(0.9f));
  EXPECT_EQ(b.values[1], std::bit_cast<std::uint32_t>(0.2f));
  node_id const changed[] = {a.constants[1]};
  program const lifted = lift(first, changed);
  verify(lifted);
  ASSERT_EQ(lifted.parameters.size(), 3u);
  EXPECT_EQ(lifted.parameters[2].name, "lifted.0");
  EXPECT_EQ(lifted.parameters[2].role, parameter_role::lifted);
  EXPECT_EQ(key_bytes(lifted), key_bytes(lift(second, changed)));
  EXPECT_EQ(key_bytes(canonical(lifted)), key_bytes(lifted));
  program const both = lift(lifted, skeleton_of(lifted).constants);
  EXPECT_EQ(both.parameters[3].name, "lifted.1");
  EXPECT_TRUE(skeleton_of(both).constants.empty());
  EXPECT_THROW(lift(lifted, changed), argument_error);
  node_id const twice[] = {a.constants[0], a.constants[0]};
  EXPECT_THROW(lift(first, twice), argument_error);
  node_id const none[] = {99};
  EXPECT_THROW(lift(first, none), argument_error);
}

TEST(skeleton, keeps_numbers_inside_of_regions) {
  program const p = canonical(program_of_examples());
  std::size_t outer = 0;
  for (node const& n : p.nodes) outer += n.code == op::constant;
  skeleton const s = skeleton_of(p);
  EXPECT_EQ(s.constants.size(), outer);
  program changed = p;
  for (program& region : changed.regions)
    for (node const& n : region.nodes)
      if (n.code == op::constant) region.attributes[n.first_attribute] ^= 1;
  EXPECT_NE(skeleton_of(changed).bytes, s.bytes);
}

class stopwatch {
 public:
  ~stopwatch() {
    double const s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    ::testing::Test::RecordProperty(name_, std::to_string(s));
    EXPECT_LT(s, 120) << name_;  // under 3 s each, measured; a quadratic step would take hours
  }
  explicit stopwatch(char const* name) : name_(name) {}

 private:
  char const* name_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST(program, has_a_million_nodes_without_recursion) {
  auto p = std::make_unique<program>();
  {
    stopwatch const s("build");
    builder b(*p);
    node_id y = b.parameter({f32, {8}});
    node_id const x = y, half = b.constant(f32, 0.5);
    for (int i = 0; i < 1'000'000; ++i) y = b.add(op::add, {y, i % 2 == 0 ? x : half});
    p->results.push_back({y, result_role::returned, 0, "0"});
    p->segments.push_back({static_cast<node_id>(p->nodes.size()), {}});
  }
  program c;
  {
    stopwatch const s("canonical");
    c = canonical(*p);
  }
  ASSERT_EQ(c.nodes.size(), p->nodes.size());
  {
    stopwatch const s("destroy");
    p.reset();
  }
  {
    stopwatch const s("verify");
    verify(c);
  }
  {
    stopwatch const s("key");
    skeleton const k = skeleton_of(c);
    program const l = lift(c, k.constants);
    EXPECT_NE(key_bytes(c), key_bytes(l));
  }
  std::string text;
  {
    stopwatch const s("to_json");
    text = to_json(c);
  }
  {
    stopwatch const s("from_json");
    EXPECT_EQ(key_bytes(from_json(text)), key_bytes(c));
  }
}

}  // namespace
}  // namespace reprise::ir
