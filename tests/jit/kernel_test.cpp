// What the verifier refuses, by rule; the text; what the key bytes do and do not see.
#include "kernels.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reprise/error.h>

namespace reprise::jit {
namespace {

TEST(Kernel, ALegalOnePasses) {
  EXPECT_NO_THROW(verify(row_softmax(3, 70)));
  EXPECT_NO_THROW(verify(row_softmax(3, 1)));
}

struct fault {
  char const* rule;
  std::function<void(kernel&)> make;
};

TEST(Kernel, EachFaultIsNamedByItsRule) {
  auto const instruction_of = [](kernel& k, std::size_t phase, kop code) -> instruction& {
    for (auto& i : k.phases[phase].body)
      if (i.code == code) return i;
    throw std::logic_error("no such instruction");
  };
  for (auto const& f : std::vector<fault>{
           {"K1", [](kernel& k) { k.name = "2x"; }},
           {"K1", [](kernel& k) { k.name = "a-b"; }},
           {"K2", [](kernel& k) { k.grid[0] = 4; }},
           {"K2", [](kernel& k) { k.phases[0].extent = 71; }},
           {"K2", [](kernel& k) { k.index.add_variable(2); }},
           {"K2", [](kernel& k) { k.tile = 4; }},
           {"K3", [&](kernel& k) { instruction_of(k, 1, kop::sub).b = 999; }},
           {"K3", [&](kernel& k) { instruction_of(k, 1, kop::sub).c = 0; }},
           {"K3", [&](kernel& k) { instruction_of(k, 2, kop::div).b = no_value; }},
           {"K4", [&](kernel& k) { instruction_of(k, 1, kop::sub).type = dtype::f64; }},
           {"K4", [&](kernel& k) { instruction_of(k, 1, kop::lt).type = dtype::i32; }},
           {"K4", [&](kernel& k) { instruction_of(k, 1, kop::shl).type = dtype::i64; }},
           {"K5", [&](kernel& k) { instruction_of(k, 0, kop::load).slot = 2; }},
           {"K5", [&](kernel& k) { instruction_of(k, 2, kop::store).slot = 0; }},
           {"K5", [](kernel& k) { k.buffers[0].type = dtype::i32; }},
           {"K5", [](kernel& k) { std::swap(k.phases[1], k.phases[2]); }},
           {"K6", [&](kernel& k) { instruction_of(k, 0, kop::load).index = 1000; }},
           {"K7", [&](kernel& k) { instruction_of(k, 2, kop::store).guard = 0; }},
           {"K7", [&](kernel& k) { instruction_of(k, 1, kop::sub).guard = 0; }},
           {"K8", [](kernel& k) { k.buffers[0].elements = 209; }},
           {"K8", [](kernel& k) { k.locals[0].elements = 69; }},
           {"K8",
            [&](kernel& k) {
              auto& i = instruction_of(k, 0, kop::load);
              i.index = k.index.add(i.index, -1);
            }},
           {"K9", [](kernel& k) { k.phases[0].reductions[0].value = 5; }},
           {"K9", [](kernel& k) { k.phases[1].reductions[0].row = 0; }},
           {"K9", [](kernel& k) { k.phases[0].reductions[0].kind = reduction_kind::any; }},
           {"K9", [](kernel& k) { k.phases[0].reductions[0].type = dtype::f64; }},
           {"K9", [](kernel& k) { k.phases[0].extent = 0; }},
           {"K10", [](kernel& k) { k.phases[0].reductions[0].factor = 0; }},
           {"K10", [](kernel& k) { k.phases[1].reductions[0].order = order::contract; }},
       }) {
    kernel k = row_softmax(3, 70);
    f.make(k);
    try {
      verify(k);
      ADD_FAILURE() << f.rule << " was not noticed";
    } catch (compile_error const& e) { EXPECT_THAT(e.what(), testing::HasSubstr(std::string(f.rule) + ":")); }
  }
}

TEST(Kernel, AShorterPhaseHasTighterBounds) {
  kernel k = row_softmax(3, 70);
  code::body b;
  store(load(b, dtype::f32, 0, k.index.add(k.index.variable(1), 200)), 1, k.index.variable(1));
  k.phases.push_back({10, b.take(), {}});
  EXPECT_NO_THROW(verify(k));
  k.phases.back().extent = 11;
  EXPECT_THROW(verify(k), compile_error);
}

TEST(Kernel, Text) {
  kernel k = empty_kernel({4}, 6);
  k.name = "transposed";
  k.buffers = {{dtype::f16, 24, false}, {dtype::f32, 24, true}};
  k.scalars = {dtype::f32};
  auto& x = k.index;
  index_id const at = x.add(x.mul(x.variable(0), 6), x.variable(1)),
                 turned = x.add(x.mul(x.modulo(at, 4), 6), x.divide(at, 4));
  code::body b;
  code::val const v = code::convert(load(b, dtype::f16, 0, turned), dtype::f32);
  code::val const scalar = b.append({.code = kop::scalar, .type = dtype::f32}), tenth = code::number(v, 0.1);
  store(code::add(v, code::mul(scalar, tenth)), 1, at);
  k.phases.push_back({6, b.take(), {}});
  verify(k);
  EXPECT_EQ(str(k), R"(kernel transposed over (4)
  b0: read float16[24]
  b1: write float32[24]
  s0: float32
  for i in 6
    %0 = float16 load b0[g0 + ((2*g0 + i) / 4) + 6*((2*g0 + i) % 4)]
    %1 = float32 convert %0
    %2 = float32 scalar s0
    %3 = float32 const 0.1
    %4 = float32 mul %2 %3
    %5 = float32 add %1 %4
    store b1[6*g0 + i] = %5
)");
}

TEST(Kernel, KeyBytesSeeTheWorkAndNothingElse) {
  kernel const a = row_softmax(3, 70);
  kernel b = row_softmax(3, 70);
  b.name = "another";
  EXPECT_EQ(key_bytes(a), key_bytes(b));
  // an arena that has held other expressions
  kernel c = empty_kernel({3}, 70);
  index_arena used = c.index;
  used.divide(used.variable(1), 7);
  used.modulo(used.add(used.variable(0), 5), 2);
  kernel d = row_softmax(3, 70);
  auto const moved = [&](index_id id) {
    index_id const by[] = {used.variable(0), used.variable(1)};
    index_id r = used.constant(d.index.at(id).constant);
    for (term t : d.index.at(id).terms)
      r = used.add(r, used.mul(by[d.index.atoms()[t.atom].variable], t.coefficient));
    return r;
  };
  for (auto& p : d.phases)
    for (auto& i : p.body)
      if (i.code == kop::load || i.code == kop::store || i.code == kop::load_local ||
          i.code == kop::store_local)
        i.index = moved(i.index);
  d.index = used;
  verify(d);
  EXPECT_EQ(key_bytes(a), key_bytes(d));
  for (auto const& change : std::vector<std::function<void(kernel&)>>{
           [](kernel& k) { k.buffers[1].elements++; },
           [](kernel& k) { k.phases[0].reductions[0].kind = reduction_kind::min; },
           [](kernel& k) { k.lanes = lanes_along::grid; }, [](kernel& k) { k.phases[1].body[0].slot = 1; },
           [](kernel& k) { k.phases[2].body.back().index = k.index.variable(1); },
           [](kernel& k) { k.rows[0] = dtype::f64; }}) {
    kernel other = row_softmax(3, 70);
    change(other);
    EXPECT_NE(key_bytes(a), key_bytes(other));
  }
}

}  // namespace
}  // namespace reprise::jit
