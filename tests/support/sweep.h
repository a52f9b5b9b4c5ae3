// The sweep: every row of ops.def over every dtype that it accepts, many shapes and layouts, and inputs full
// of trouble, as programs with their inputs and a judge. "Compiled equals reference" is one loop over it:
//
//   for_each_case([&](sweep_case const& c) { EXPECT_EQ(c.check(run(c.code, c.parameters)), ""); });
//
// A row added to ops.def is swept without a line here. One program holds all shapes of one row and dtype, as
// separate results.
#pragma once

#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "support/bounds.h"
#include "support/build.h"

namespace reprise::test {

struct sweep_case {
  std::string name;  // "add float32"
  program code;      // canonical
  std::vector<host_tensor> parameters;

  // Empty, or which results differ, and where first.
  std::string check(std::span<host_tensor const> got) const {
    std::string const wrong = check_results(code, parameters, got);
    return wrong.empty() ? wrong : name + "\n" + wrong;
  }
};

struct sweep_options {
  std::uint64_t seed = 1;  // REPRISE_TEST_SEED in the environment outranks it
  std::string only;        // the prefix of the names to run; empty: all
};

namespace sweep_detail {

using list = std::vector<std::int64_t>;

// One program being filled: parameters with their values, and results.
class sheet {
 public:
  explicit sheet(random_engine& r) : r_(r), b_(p_) {}

  node_id given(host_tensor t) {
    node_id const n =
        b_.parameter(t.type, ir::parameter_role::argument, std::to_string(p_.parameters.size()));
    parameters_.push_back(std::move(t));
    return n;
  }
  node_id input(tensor_type const& type, values const& like = {}) {
    return given(random_tensor(r_, type, like));
  }
  node_id lifted(tensor_type const& type) {
    node_id const n = b_.parameter(type, ir::parameter_role::lifted, std::to_string(p_.parameters.size()));
    parameters_.push_back(random_tensor(r_, type));
    return n;
  }
  node_id add(op code, std::vector<node_id> const& in, ir::words attributes = {}) {
    return b_.add(code, in, attributes);
  }
  node_id constant(dtype type, double value) { return b_.constant(type, value); }
  node_id spread(node_id n, reprise::shape const& to) { return b_.broadcast(n, to); }
  void result(node_id n) { results_.push_back(n); }

  reprise::shape const& shape(node_id n) const { return p_.nodes[n].shape; }
  random_engine& random() { return r_; }

  sweep_case done(std::string name) {
    finish(p_, results_);
    return {std::move(name), canonical(p_), std::move(parameters_)};
  }

 private:
  random_engine& r_;
  program p_;
  builder b_;
  std::vector<host_tensor> parameters_;
  std::vector<node_id> results_;
};

using receiver = std::function<void(std::string const&, std::function<sweep_case(std::string)> const&)>;

inline host_tensor specials(dtype type, std::size_t operand, std::size_t arity) {
  std::vector<std::uint64_t> const bits = special_bits(type);
  std::size_t const n = bits.size(), total = arity == 1 ? n : n * n;
  host_tensor t = make_tensor(tensor_type{type, {total}});
  for (std::size_t i = 0; i < total; ++i)
    t.set_bits(static_cast<std::int64_t>(i), bits[operand == 0   ? i % n
                                                  : operand == 1 ? i / n
                                                                 : (i * 7 + i / n) % n]);
  return t;
}

// f(operands of one shape) for every kind of shape and layout that a row's operands can have.
inline void every_layout(sheet& s, dtype type, std::size_t arity,
                         std::function<void(std::vector<node_id> const&)> const& f) {
  auto const all = [&](auto make) {
    std::vector<node_id> in;
    for (std::size_t k = 0; k < arity; ++k) in.push_back(make(k));
    f(in);
  };
  all([&](std::size_t k) { return s.given(specials(type, k, arity)); });
  all([&](std::size_t) { return s.input({type, {2048}}, {.specials = 0, .spread = 0, .any_bits = 1}); });
  all([&](std::size_t) { return s.input({type, {1500}}, {.specials = 0, .spread = 1.5, .any_bits = 0}); });
  for (reprise::shape const& shape : {reprise::shape{}, {1}, {0, 3}, {7}, {3, 5}, {2, 1, 3, 1, 5}, {33, 65}})
    all([&](std::size_t) { return s.input({type, shape}); });
  reprise::shape const whole{17, 23};
  for (std::size_t scalar = 0; arity > 1 && scalar < arity; ++scalar) {
    all([&](std::size_t k) { return s.input({type, k == scalar ? reprise::shape{} : whole}); });
    all([&](std::size_t k) { return k == scalar ? s.constant(type, 3) : s.input({type, whole}); });
    all([&](std::size_t k) { return k == scalar ? s.input({type, whole}) : s.lifted({type, {}}); });
    all([&](std::size_t k) {
      return k == scalar ? s.spread(s.input({type, {23}}), whole) : s.input({type, whole});
    });
    all([&](std::size_t k) {
      return k == scalar ? s.spread(s.input({type, {17, 1}}), whole) : s.input({type, whole});
    });
  }
  all([&](std::size_t k) {
    if (k % 2 == 1) return s.input({type, whole});
    return s.add(op::transpose, {s.input({type, {23, 17}})}, attribute_words().list({1, 0}));
  });
  all([&](std::size_t k) {
    if (k % 2 == 1) return s.input({type, whole});
    return s.add(op::slice, {s.input({type, {40, 50}})},
                 attribute_words().list({35, 1}).list({-2, 2}).list(whole));
  });
  // the same value in each place
  node_id const once = s.input({type, {129}});
  f(std::vector<node_id>(arity, once));
}

inline void elementwise(random_engine& r, receiver const& out) {
  for (int i = 0; i < ir::op_count(); ++i) {
    ir::op_info const& row = ir::info(static_cast<op>(i));
    if (row.kind != ir::category::elementwise) continue;
    for (dtype type : all_dtypes()) {
      if (!ir::accepts_dtype(row.operands, type)) continue;
      out(fmt::format("{} {}", row.name, name_of(type)), [&](std::string name) {
        sheet s(r);
        every_layout(s, type, static_cast<std::size_t>(row.arity),
                     [&](std::vector<node_id> const& in) { s.result(s.add(row.code, in)); });
        return s.done(name);
      });
    }
  }
}

inline void select_and_cast(random_engine& r, receiver const& out) {
  for (dtype type : all_dtypes()) {
    out(fmt::format("where {}", name_of(type)), [&](std::string name) {
      sheet s(r);
      every_layout(s, type, 2, [&](std::vector<node_id> const& in) {
        reprise::shape const& shape = s.shape(in[0]).rank() ? s.shape(in[0]) : s.shape(in[1]);
        s.result(s.add(op::where, {s.input({dtype::boolean, shape}), in[0], in[1]}));
        s.result(s.add(op::where, {s.input({dtype::boolean, {}}), in[1], in[0]}));
      });
      return s.done(name);
    });
    out(fmt::format("cast {}", name_of(type)), [&](std::string name) {
      sheet s(r);
      for (dtype to : all_dtypes()) {
        attribute_words a;
        a.one(static_cast<std::int64_t>(to));
        s.result(s.add(op::cast, {s.given(specials(type, 0, 1))}, a));
        s.result(
            s.add(op::cast, {s.input({type, {777}}, {.specials = 0.1, .spread = 6, .any_bits = 0.3})}, a));
        s.result(s.add(op::cast, {s.input({type, {}})}, a));
      }
      return s.done(name);
    });
  }
}

inline std::vector<list> axis_subsets(reprise::shape const& s) {
  std::vector<list> all;
  for (int mask = 1; mask < 1 << s.rank(); ++mask) {
    list axes;
    bool legal = true;
    for (int axis = 0; axis < s.rank(); ++axis) {
      if (!(mask >> axis & 1)) continue;
      axes.push_back(axis);
      legal &= s[axis] != 1;
    }
    if (legal) all.push_back(axes);
  }
  return all;
}

inline void reductions(random_engine& r, receiver const& out) {
  for (int i = 0; i < ir::op_count(); ++i) {
    ir::op_info const& row = ir::info(static_cast<op>(i));
    if (row.kind != ir::category::reduction) continue;
    bool const of_something =
        row.identity == ir::identity_value::lowest || row.identity == ir::identity_value::highest;
    for (dtype type : all_dtypes()) {
      if (!ir::accepts_dtype(row.operands, type)) continue;
      // spread 0 keeps a product of thousands from vanishing at once
      values const calm{.specials = 0, .spread = row.code == op::prod ? 0.0 : 2.0, .any_bits = 0};
      out(fmt::format("{} {}", row.name, name_of(type)), [&](std::string name) {
        sheet s(r);
        for (reprise::shape const& shape : {reprise::shape{7},
                                            {5, 7, 9},
                                            {2, 129, 130},
                                            {4, 1, 33},
                                            {4097},
                                            {9000},
                                            {3, 4500},
                                            {300, 5},
                                            {0, 3},
                                            {3, 0}}) {
          node_id const x = s.input({type, shape}, calm),
                        troubled = s.input({type, shape}, {.specials = 0.02, .spread = 1, .any_bits = 0});
          for (list const& axes : axis_subsets(shape)) {
            if (of_something && shape.size() == 0) continue;
            s.result(s.add(row.code, {x}, attribute_words().list(axes)));
            s.result(s.add(row.code, {troubled}, attribute_words().list(axes)));
          }
        }
        return s.done(name);
      });
      // over what other operations made, and beside its own operand
      out(fmt::format("{} {} fused", row.name, name_of(type)), [&](std::string name) {
        sheet s(r);
        reprise::shape const shape{19, 150};
        node_id const x = s.input({type, shape}, calm), y = s.input({type, {150}}, calm);
        node_id const mixed = type == dtype::boolean ? s.add(op::bitwise_xor, {x, s.spread(y, shape)})
                                                     : s.add(op::minimum, {x, s.spread(y, shape)});
        node_id const turned = s.add(op::transpose, {mixed}, attribute_words().list({1, 0}));
        node_id const back =
            s.add(op::slice, {mixed}, attribute_words().list({18, 149}).list({-1, -3}).list({19, 50}));
        for (node_id n : {mixed, turned, back})
          for (list const& axes : axis_subsets(s.shape(n)))
            s.result(s.add(row.code, {n}, attribute_words().list(axes)));
        node_id const each = s.add(row.code, {mixed}, attribute_words().list({1}));
        node_id const beside = s.spread(s.add(op::reshape, {each}, attribute_words().list({19, 1})), shape);
        node_id const same =
            s.add(op::cast, {beside}, attribute_words().one(static_cast<std::int64_t>(type)));
        s.result(s.add(op::less, {mixed, same}));
        node_id const twice = s.add(row.code, {mixed}, attribute_words().list({0}));
        if (ir::accepts_dtype(row.operands, row.result == ir::result_rule::summed ? sum_type(type) : type))
          s.result(s.add(row.code, {twice}, attribute_words().list({0})));
        return s.done(name);
      });
    }
  }
}

inline void arg_reductions(random_engine& r, receiver const& out) {
  for (op code : {op::argmax, op::argmin}) {
    for (dtype type : all_dtypes()) {
      out(fmt::format("{} {}", ir::info(code).name, name_of(type)), [&](std::string name) {
        sheet s(r);
        for (reprise::shape const& shape :
             {reprise::shape{1}, {7}, {5, 7, 9}, {4, 1, 33}, {5000}, {300, 5}, {2, 600}, {0, 3}}) {
          node_id const x = s.input({type, shape}, {.specials = 0, .spread = 1, .any_bits = 0}),
                        ties = s.input({type, shape}, {.specials = 0.5, .spread = 1, .any_bits = 0});
          for (int axis = 0; axis < shape.rank(); ++axis) {
            if (shape[axis] == 0) continue;
            s.result(s.add(code, {x}, attribute_words().one(axis)));
            s.result(s.add(code, {ties}, attribute_words().one(axis)));
          }
        }
        return s.done(name);
      });
    }
  }
}

inline void add_movement(sheet& s, dtype type, op code) {
  node_id const v = s.input({type, {}}), a = s.input({type, {13, 21}}), b = s.input({type, {3, 5, 4}}),
                none = s.input({type, {0, 3}});
  auto const put = [&](std::vector<node_id> const& in, ir::words attributes) {
    s.result(s.add(code, in, attributes));
  };
  auto const with = [](auto const&... lists) {
    attribute_words w;
    (w.list(lists), ...);
    return w;
  };
  if (code == op::reshape) {
    for (list const& shape : {list{273}, {21, 13}, {1, 273, 1}, {3, 7, 13}}) put({a}, with(shape));
    put({v}, with(list{1, 1, 1}));
    put({none}, with(list{7, 0}));
  } else if (code == op::transpose) {
    put({a}, with(list{1, 0}));
    for (list const& axes : {list{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}})
      put({b}, with(axes));
    put({s.input({type, {2, 3, 1, 4, 5}})}, with(list{4, 2, 0, 3, 1}));
    put({s.input({type, {70, 131}})}, with(list{1, 0}));
    put({v}, with(list{}));
  } else if (code == op::broadcast_to) {
    for (list const& shape : {list{}, {5}, {2, 0}, {3, 4, 5}}) put({v}, with(shape));
    put({a}, with(list{4, 13, 21}));
    put({s.input({type, {13, 1}})}, with(list{13, 300}));
    put({s.input({type, {1, 7}})}, with(list{2, 9, 7}));
  } else if (code == op::slice) {
    put({a}, with(list{0, 0}, list{1, 1}, list{13, 21}));
    put({a}, with(list{12, 20}, list{-1, -1}, list{13, 21}));
    put({a}, with(list{3, 5}, list{1, 1}, list{7, 11}));
    put({a}, with(list{11, 1}, list{-5, 4}, list{3, 5}));
    put({a}, with(list{4, 20}, list{1, -7}, list{1, 3}));
    put({a}, with(list{0, 2}, list{1, 1}, list{0, 5}));
    put({b}, with(list{2, 0, 3}, list{-2, 3, -1}, list{2, 2, 4}));
    put({v}, with(list{}, list{}, list{}));
  } else if (code == op::slice_update) {
    put({a, s.input({type, {13, 21}})}, with(list{12, 20}, list{-1, -1}));
    put({a, s.input({type, {7, 11}})}, with(list{3, 5}, list{1, 1}));
    put({a, s.input({type, {3, 5}})}, with(list{11, 1}, list{-5, 4}));
    put({a, s.input({type, {0, 5}})}, with(list{0, 2}, list{1, 1}));
    put({b, s.input({type, {2, 2, 4}})}, with(list{2, 0, 3}, list{-2, 3, -1}));
    // what it replaces is part of what it is made of
    put({a, s.add(op::slice, {a}, with(list{0, 20}, list{1, -1}, list{5, 21}))},
        with(list{8, 0}, list{1, 1}));
  } else if (code == op::concatenate) {
    put({a}, attribute_words().one(0));
    put({a, a}, attribute_words().one(1));
    put({s.input({type, {5, 21}}), a, s.input({type, {0, 21}}), s.input({type, {1, 21}})},
        attribute_words().one(0));
    put({b, s.input({type, {3, 2, 4}})}, attribute_words().one(1));
    put({s.input({type, {13, 1}}), a, s.input({type, {13, 40}})}, attribute_words().one(1));
  } else if (code == op::pad) {
    put({a, v}, with(list{1, 0}, list{0, 3}));
    put({a, s.constant(type, 1)}, with(list{2, 2}, list{2, 2}));
    put({b, v}, with(list{1, 2, 3}, list{3, 2, 1}));
    put({none, v}, with(list{1, 0}, list{2, 1}));
    put({v, v}, with(list{}, list{}));
  } else if (code == op::sliding_window) {
    put({a}, with(list{1}, list{3}, list{1}, list{1}));
    put({a}, with(list{0, 1}, list{3, 2}, list{2, 3}, list{2, 5}));
    put({b}, with(list{2, 0}, list{2, 3}, list{1, 1}, list{2, 1}));
    put({a}, with(list{0}, list{13}, list{1}, list{1}));
  }
}

inline void movement(random_engine& r, receiver const& out) {
  for (int i = 0; i < ir::op_count(); ++i) {
    ir::op_info const& row = ir::info(static_cast<op>(i));
    if (row.kind != ir::category::movement) continue;
    for (dtype type : all_dtypes()) {
      out(fmt::format("{} {}", row.name, name_of(type)), [&](std::string name) {
        sheet s(r);
        add_movement(s, type, row.code);
        return s.done(name);
      });
    }
  }
}

inline void sources(random_engine& r, receiver const& out) {
  for (dtype type : all_dtypes()) {
    out(fmt::format("parameter and constant {}", name_of(type)), [&](std::string name) {
      sheet s(r);
      node_id const a = s.input({type, {3, 5}}), number = s.lifted({type, {}});
      for (node_id n : {a, a, s.input({type, {}}), s.input({type, {0, 3}}), number, s.constant(type, 2),
                        s.spread(number, {4, 5})})
        s.result(n);
      s.result(s.spread(s.constant(type, 1), {7, 3}));
      return s.done(name);
    });
  }
  out("iota", [&](std::string name) {
    sheet s(r);
    for (reprise::shape const& shape : {reprise::shape{1}, {1000}, {3, 5}, {2, 3, 70}, {0, 3}})
      for (int axis = 0; axis < shape.rank(); ++axis)
        s.result(s.add(op::iota, {}, attribute_words().list(shape).one(axis)));
    return s.done(name);
  });
  out("philox", [&](std::string name) {
    sheet s(r);
    for (reprise::shape const& shape : {reprise::shape{}, {3}, {4}, {1001}, {7, 9}, {0}})
      s.result(s.add(op::philox, {s.input({dtype::i64, {}}, {.specials = 0.3, .spread = 0, .any_bits = 1})},
                     attribute_words().list(shape)));
    node_id const drawn = s.add(op::philox, {s.lifted({dtype::i64, {}})}, attribute_words().list({6, 35}));
    s.result(s.add(op::transpose, {drawn}, attribute_words().list({1, 0})));
    s.result(s.add(op::slice, {drawn}, attribute_words().list({5, 30}).list({-1, -7}).list({6, 5})));
    return s.done(name);
  });
}

inline void library(random_engine& r, receiver const& out) {
  values const calm{.specials = 0, .spread = 0.5, .any_bits = 0};
  for (dtype type : all_dtypes()) {
    if (type == dtype::boolean) continue;
    out(fmt::format("matmul {}", name_of(type)), [&](std::string name) {
      sheet s(r);
      struct pair {
        reprise::shape a, b;
      };
      for (auto const& [a, b] : {pair{{1, 1}, {1, 1}},
                                 {{7, 13}, {13, 11}},
                                 {{64, 48}, {48, 80}},
                                 {{33, 129}, {129, 65}},
                                 {{1, 300}, {300, 1}},
                                 {{40, 1}, {1, 40}},
                                 {{2, 3, 4}, {4, 5}},
                                 {{3, 4}, {2, 4, 5}},
                                 {{2, 1, 3, 4}, {3, 4, 2}},
                                 {{0, 3}, {3, 2}},
                                 {{2, 0}, {0, 3}},
                                 {{0, 2, 3}, {3, 1}}}) {
        node_id const product = s.add(op::matmul, {s.input({type, a}, calm), s.input({type, b}, calm)});
        s.result(product);
        node_id const bias = s.spread(s.input({type, {b.back()}}, calm), s.shape(product));
        s.result(s.add(op::relu, {s.add(op::add, {product, bias})}));
      }
      node_id const turned =
          s.add(op::transpose, {s.input({type, {19, 30}}, calm)}, attribute_words().list({1, 0}));
      s.result(s.add(op::matmul, {turned, s.input({type, {19, 8}}, calm)}));
      s.result(s.add(op::matmul, {s.input({type, {5, 30}}, calm), turned}));
      return s.done(name);
    });
    out(fmt::format("conv2d {}", name_of(type)), [&](std::string name) {
      sheet s(r);
      struct setup {
        reprise::shape x, w;
        list stride, padding, dilation;
        std::int64_t groups;
      };
      for (setup const& c : {setup{{1, 1, 5, 5}, {1, 1, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
                             {{2, 3, 17, 16}, {8, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
                             {{2, 3, 9, 8}, {4, 3, 3, 2}, {2, 1}, {1, 0, 1, 1}, {1, 1}, 1},
                             {{1, 4, 9, 9}, {6, 2, 3, 3}, {1, 2}, {2, 1, 0, 1}, {2, 2}, 2},
                             {{1, 5, 6, 7}, {5, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 5},
                             {{3, 16, 6, 6}, {20, 16, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
                             {{0, 2, 4, 4}, {2, 2, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1}}) {
        attribute_words a;
        a.list(c.stride).list(c.padding).list(c.dilation).one(c.groups);
        node_id const y = s.add(op::conv2d, {s.input({type, c.x}, calm), s.input({type, c.w}, calm)}, a);
        s.result(y);
        node_id const bias =
            s.add(op::reshape, {s.input({type, {c.w[0]}}, calm)}, attribute_words().list({c.w[0], 1, 1}));
        s.result(s.add(op::relu, {s.add(op::add, {y, s.spread(bias, s.shape(y))})}));
      }
      return s.done(name);
    });
  }
}

}  // namespace sweep_detail

// Calls f for each case, in the same order and with the same inputs for the same seed and whatever `only`
// says. Returns the count.
inline int for_each_case(std::function<void(sweep_case const&)> const& f, sweep_options options = {}) {
  if (char const* text = std::getenv("REPRISE_TEST_SEED")) options.seed = std::strtoull(text, nullptr, 10);
  std::cout << "sweep: REPRISE_TEST_SEED=" << options.seed << "\n";
  int count = 0;
  random_engine r;
  sweep_detail::receiver const receive = [&](std::string const& name,
                                             std::function<sweep_case(std::string)> const& make) {
    if (!name.starts_with(options.only)) return;
    // each case has a seed of its own name, so that it is the same when it is run alone
    std::uint64_t hash = options.seed ^ 0xcbf29ce484222325;
    for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    r.seed(hash);
    f(make(name));
    ++count;
  };
  sweep_detail::elementwise(r, receive);
  sweep_detail::select_and_cast(r, receive);
  sweep_detail::reductions(r, receive);
  sweep_detail::arg_reductions(r, receive);
  sweep_detail::movement(r, receive);
  sweep_detail::sources(r, receive);
  sweep_detail::library(r, receive);
  return count;
}

}  // namespace reprise::test
