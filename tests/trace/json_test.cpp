// JSON both ways: nothing is lost, hand-written text is read, and every wrong text is refused with the place
// and the reason.
#include <gtest/gtest.h>

#include <clocale>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "examples.h"

#include <reprise/error.h>

namespace reprise::ir {
namespace {

using enum dtype;

std::string file_text(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  EXPECT_TRUE(in) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(json, keeps_everything) {
  program const p = program_of_examples();
  std::string const text = to_json(p);
  program const q = from_json(text);
  EXPECT_EQ(key_bytes(q), key_bytes(p));
  EXPECT_EQ(to_json(q), text);
  ASSERT_EQ(q.parameters.size(), p.parameters.size());
  for (std::size_t i = 0; i < p.parameters.size(); ++i) EXPECT_EQ(q.parameters[i].name, p.parameters[i].name);
  for (std::size_t i = 0; i < p.results.size(); ++i) EXPECT_EQ(q.results[i].name, p.results[i].name);
  for (std::size_t i = 0; i < p.nodes.size(); ++i) {
    EXPECT_EQ(q.lines[q.nodes[i].line].file, p.lines[p.nodes[i].line].file);
    EXPECT_EQ(q.lines[q.nodes[i].line].line, p.lines[p.nodes[i].line].line);
  }
  EXPECT_TRUE(nlohmann::json::accept(text));
}

// Every number of the 16-bit types, and many of the others.
TEST(json, keeps_every_number) {
  program p;
  builder b(p);
  for (std::uint64_t bits = 0; bits < 0x10000; ++bits)
    for (dtype t : {f16, bf16}) b.constant(t, bits);
  std::uint64_t state = 1;
  for (int i = 0; i < 100000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    b.constant(f32, state >> 32);
    b.constant(f64, state);
    b.constant(i64, state);
    b.constant(i32, state >> 32);
  }
  p.segments.push_back({static_cast<node_id>(p.nodes.size()), {}});
  program const q = from_json(to_json(p));
  ASSERT_EQ(q.nodes.size(), p.nodes.size());
  for (std::size_t i = 0; i < p.nodes.size(); ++i)
    ASSERT_EQ(q.attributes[i], p.attributes[i]) << i << " " << name_of(p.nodes[i].type);
}

std::uint64_t constant(std::string const& value, std::string const& type) {
  program const p = from_json(R"({"reprise": 1, "results": [], "nodes": [{"op": "constant", "value": )" +
                              value + R"(, "dtype": ")" + type + "\"}]}");
  return static_cast<std::uint64_t>(p.attributes[0]);
}

TEST(json, reads_numbers_as_people_write_them) {
  EXPECT_EQ(constant("1", "float32"), 0x3f800000u);
  EXPECT_EQ(constant("1e0", "float32"), 0x3f800000u);
  EXPECT_EQ(constant("-0", "float32"), 0x80000000u);
  EXPECT_EQ(constant("-0.0", "float64"), 0x8000000000000000u);
  EXPECT_EQ(constant("0", "float64"), 0u);
  EXPECT_EQ(constant("-1e-400", "float64"), 0x8000000000000000u);
  EXPECT_EQ(constant("-1e-60", "float32"), 0x80000000u);
  EXPECT_EQ(constant("1e-45", "float32"), 1u);
  EXPECT_EQ(constant("3.4028235e38", "float32"), 0x7f7fffffu);
  EXPECT_EQ(constant("1.00000017881393432617187499", "float32"),
            0x3f800001u);  // not by way of a double, which is a tie
  EXPECT_EQ(constant("16777217", "float32"), 0x4b800000u);
  EXPECT_EQ(constant("18446744073709551615", "float64"), 0x43f0000000000000u);
  EXPECT_EQ(constant("-7", "float16"), 0xc700u);
  EXPECT_EQ(constant("\"nan\"", "bfloat16"), 0x7fc0u);
  EXPECT_EQ(constant("\"-inf\"", "float16"), 0xfc00u);
  EXPECT_EQ(constant("-9223372036854775808", "int64"), 0x8000000000000000u);
  EXPECT_EQ(constant("9223372036854775807", "int64"), 0x7fffffffffffffffu);
  EXPECT_EQ(constant("-1", "int32"), 0xffffffffu);
  EXPECT_EQ(constant("255", "uint8"), 255u);
  EXPECT_EQ(constant("true", "bool"), 1u);
}

TEST(json, does_not_look_at_the_locale) {
  std::string const before = std::setlocale(LC_NUMERIC, nullptr);
  bool found = false;  // one that writes 0,5
  for (char const* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"})
    found = found || std::setlocale(LC_NUMERIC, name) != nullptr;
  if (!found) GTEST_SKIP() << "no locale with a decimal comma is installed";
  std::uint64_t const half = constant("0.5", "float32");
  program p;
  builder b(p);
  b.constant(f64, 0.25);
  p.segments.push_back({1, {}});
  std::string const text = to_json(p);
  std::setlocale(LC_NUMERIC, before.c_str());
  EXPECT_EQ(half, 0x3f000000u);
  EXPECT_NE(text.find("0.25"), text.npos);
}

TEST(json, reads_traces_written_by_hand) {
  std::set<attribute_kind> kinds;
  std::size_t files = 0;
  for (auto const& entry : std::filesystem::directory_iterator(REPRISE_TEST_DATA "/traces")) {
    program const p = from_json(file_text(entry.path()));
    ++files;
    EXPECT_NO_THROW(verify_runnable(p)) << entry.path();
    EXPECT_EQ(key_bytes(from_json(to_json(p))), key_bytes(p)) << entry.path();
    for (node const& n : p.nodes)
      if (entry.path().filename() == "attributes.json")
        for (attribute const& a : info(n.code).attributes) kinds.insert(a.kind);
  }
  EXPECT_GE(files, 5u);
  EXPECT_EQ(kinds.size(), 4u);  // int, ints, dtype, scalar
}

TEST(json, gives_names_where_none_are_written) {
  program const p = from_json(
      R"({"reprise": 1, "parameters": [{"dtype": "float32", "shape": []}, {"dtype": "bool", "shape": [0]}],
    "nodes": [{"op": "parameter", "index": 1}], "results": [{"node": 0}, {"node": 0}]})");
  EXPECT_EQ(p.parameters[1].name, "1");
  EXPECT_EQ(p.results[1].name, "1");
  EXPECT_EQ(p.segments.size(), 1u);
}

TEST(json, writes_names_that_are_no_text) {
  program p;
  builder b(p);
  node_id const x[] = {b.parameter({f32, {}}, parameter_role::argument, "\xff\"\\\n\x01")};
  p.append(op::neg, x, {}, p.add_line("dir:with\xfe/f.cpp", 2));
  p.segments.push_back({2, {}});
  program const q = from_json(to_json(p));
  EXPECT_EQ(q.parameters[0].name, "\xef\xbf\xbd\"\\\n\x01");
  EXPECT_EQ(q.lines[1].file, "dir:with\xef\xbf\xbd/f.cpp");
}

TEST(json, says_where_and_what) {
  std::string const x = R"({"dtype": "float32", "shape": [2]})";
  auto program_with = [&](std::string const& nodes, std::string const& rest = R"("results": [])") {
    return R"({"reprise": 1, "parameters": [)" + x + "], \"nodes\": [{\"op\": \"parameter\", \"index\": 0}" +
           nodes + "], " + rest + "}";
  };
  std::string const deep_lists(100000, '['), deep_objects = [] {
    std::string s;
    for (int i = 0; i < 100000; ++i) s += "{\"a\":";
    return s;
  }();
  std::string many_keys = "{";
  for (int i = 0; i < 1000; ++i) many_keys += "\"" + std::to_string(i) + "\": 0, ";
  struct wrong {
    std::string text, message;
  };
  std::vector<wrong> const cases = {
      // not JSON
      {"", "line 1, column 1 (byte 0): syntax error"},
      {"{", "line 1, column 2 (byte 1): syntax error"},
      {"{\n\"reprise\": 1,\n  oops}", "line 3, column 3 (byte 18): syntax error"},
      {"{} {}", "line 1, column 4 (byte 3): syntax error"},
      {"\"\xff\"", "invalid string: ill-formed UTF-8 byte"},
      {"{\"a\": 1e999}", "number overflow"},
      {"[1, 2", "syntax error"},
      {"/* comment */ {}", "syntax error"},
      {"{\"a\": NaN}", "syntax error"},
      {std::string("{\"a\0\": 1}", 9), "invalid string: control character"},
      {deep_lists, "nested more than"},
      {deep_objects, "nested more than"},
      {many_keys, "the document: an object has more than 32 keys"},
      {"{\"reprise\": 1, \"reprise\": 1}", "the document: the key \"reprise\" occurs twice"},
      {R"({"nodes": [{"op": "neg", "op": "abs"}]})", "/nodes/0: the key \"op\" occurs twice"},
      // not a program
      {"[]", "the document: is a list, not an object"},
      {"null", "the document: is null, not an object"},
      {"{}", "the document: \"reprise\" is missing"},
      {R"({"reprise": 2})", "/reprise: schema version 2; this library reads version 1"},
      {R"({"reprise": "1"})", "/reprise: is a string, not an integer"},
      {R"({"reprise": 1})", "the document: \"nodes\" is missing"},
      {R"({"reprise": 1, "nodes": []})", "the document: \"results\" is missing"},
      {R"({"reprise": 1, "nodes": {}, "results": []})", "/nodes: is an object, not a list"},
      {R"({"reprise": 1, "nodes": [], "results": [], "a/b~c": 1})", "/a~1b~0c: no such key in a program"},
      {R"({"reprise": 1, "parameters": [{}], "nodes": []})", "/parameters/0: \"dtype\" is missing"},
      {R"({"reprise": 1, "parameters": [{"dtype": "float31", "shape": []}]})",
       "/parameters/0/dtype: no dtype \"float31\""},
      {R"({"reprise": 1, "parameters": [{"dtype": 3, "shape": []}]})",
       "/parameters/0/dtype: is an integer, not a string"},
      {R"({"reprise": 1, "parameters": [{"dtype": "bool"}]})", "/parameters/0: \"shape\" is missing"},
      {R"({"reprise": 1, "parameters": [{"dtype": "bool", "shape": [1, -2]}]})",
       "/parameters/0/shape/1: -2 is not in [0,"},
      {R"({"reprise": 1, "parameters": [{"dtype": "bool", "shape": [1.0]}]})",
       "/parameters/0/shape/0: is a number with a fraction"},
      {R"({"reprise": 1, "parameters": [{"dtype": "bool", "shape": [9223372036854775808]}]})",
       "does not fit 64 bits"},
      {R"({"reprise": 1, "parameters": [{"dtype": "bool", "shape": [1,1,1,1,1,1,1,1,1]}]})",
       "/parameters/0/shape: has more than 8"},
      {R"({"reprise": 1, "parameters": [{"dtype": "bool", "shape": [], "role": "x"}]})",
       "/parameters/0/role: no role \"x\""},
      {R"({"reprise": 1, "parameters": [{"dtype": "bool", "shape": [], "kind": 1}]})",
       "/parameters/0/kind: no such key in a parameter"},
      {R"({"reprise": 1, "parameters": [{"dtype": "bool", "shape": [4611686018427387904]}], "nodes": [], "results": []})",
       "/parameters: P6: parameter 0"},
      {R"({"reprise": 1, "parameters": [{"dtype": "bool", "shape": [1], "role": "lifted"}], "nodes": [], "results": []})",
       "/parameters: P7: the lifted parameter 0"},
      {program_with(", 3"), "/nodes/1: is an integer, not an object"},
      {program_with(", {}"), "/nodes/1: \"op\" is missing"},
      {program_with(R"(, {"op": "frobnicate"})"), "/nodes/1/op: no operation \"frobnicate\""},
      {program_with(R"(, {"op": "neg"})"), "/nodes/1: \"in\" is missing"},
      {program_with(R"(, {"op": "neg", "in": [1]})"), "/nodes/1/in/0: 1 is not an earlier node than 1"},
      {program_with(R"(, {"op": "add", "in": [0, -1]})"), "/nodes/1/in/1: -1 is not an earlier node"},
      {program_with(R"(, {"op": "neg", "in": [0, 0]})"),
       "/nodes/1: neg: operands float32(2,) and float32(2,): takes 1 operand, not 2"},
      {program_with(R"(, {"op": "neg", "in": [0], "axes": [0]})"),
       "/nodes/1/axes: no such key in a node of neg"},
      {program_with(R"(, {"op": "neg", "in": [0], "regions": []})"),
       "/nodes/1/regions: no such key in a node of neg"},
      {program_with(R"(, {"op": "neg", "in": [0], "dtype": "float64"})"),
       "/nodes/1/dtype: float64, but neg gives float32"},
      {program_with(R"(, {"op": "neg", "in": [0], "shape": [3]})"),
       "/nodes/1/shape: (3,), but neg gives (2,)"},
      {program_with(R"(, {"op": "neg", "in": [0], "id": 2})"), "/nodes/1/id: 2 is not the place 1"},
      {program_with(R"(, {"op": "neg", "in": [0], "line": "x.cpp"})"), "/nodes/1/line: is not \"file:line\""},
      {program_with(R"(, {"op": "neg", "in": [0], "line": "x.cpp:-1"})"), "/nodes/1/line: is not"},
      {program_with(R"(, {"op": "neg", "in": [0], "line": "x.cpp:99999999999"})"), "/nodes/1/line: is not"},
      {program_with(R"(, {"op": "sum", "in": [0]})"), "/nodes/1: \"axes\" is missing"},
      {program_with(R"(, {"op": "sum", "in": [0], "axes": 0})"), "/nodes/1/axes: is an integer, not a list"},
      {program_with(R"(, {"op": "sum", "in": [0], "axes": ["0"]})"),
       "/nodes/1/axes/0: is a string, not an integer"},
      {program_with(R"(, {"op": "sum", "in": [0], "axes": [0,1,2,3,4,5,6,7,8]})"),
       "/nodes/1/axes: has more than 8 values"},
      {program_with(R"(, {"op": "sum", "in": [0], "axes": [1]})"),
       "/nodes/1: sum: operand float32(2,): no axis 1 in axes [1]"},
      {program_with(R"(, {"op": "cast", "in": [0], "dtype": "int"})"), "/nodes/1/dtype: no dtype \"int\""},
      {program_with(R"(, {"op": "parameter", "index": 0})"),
       "/nodes/1/index: P5: a second node for parameter 0"},
      {program_with(R"(, {"op": "parameter", "index": 1})"), "/nodes/1/index: P5: parameter 1 of 1"},
      {program_with(R"(, {"op": "parameter", "index": -1})"), "/nodes/1/index: -1 is not in [0,"},
      {program_with(R"(, {"op": "constant", "value": 1})"), "/nodes/1: \"dtype\" is missing"},
      {program_with(R"(, {"op": "constant", "dtype": "int32"})"), "/nodes/1: \"value\" is missing"},
      {program_with(R"(, {"op": "constant", "dtype": "int32", "value": 1.5})"),
       "/nodes/1/value: is a number with a fraction"},
      {program_with(R"(, {"op": "constant", "dtype": "int32", "value": 2147483648})"),
       "/nodes/1/value: 2147483648 is not in ["},
      {program_with(R"(, {"op": "constant", "dtype": "uint8", "value": -1})"),
       "/nodes/1/value: -1 is not in [0, 255]"},
      {program_with(R"(, {"op": "constant", "dtype": "bool", "value": 1})"),
       "/nodes/1/value: is not true or false"},
      {program_with(R"(, {"op": "constant", "dtype": "float32", "value": "NaN"})"),
       "/nodes/1/value: \"NaN\" is neither"},
      {program_with(R"(, {"op": "constant", "dtype": "float32", "value": 1e39})"),
       "/nodes/1/value: does not fit float32"},
      {program_with(R"(, {"op": "constant", "dtype": "float16", "value": 65520})"),
       "/nodes/1/value: does not fit float16"},
      {program_with(R"(, {"op": "constant", "dtype": "float32", "value": null})"),
       "/nodes/1/value: is not a number"},
      {program_with(R"(, {"op": "constant", "dtype": "float32", "value": 1, "shape": [1]})"),
       "/nodes/1/shape: (1,), but constant gives ()"},
      {program_with(R"(, {"op": "constant", "dtype": "float32", "value": 1, "in": [0]})"),
       "/nodes/1: constant takes no operands"},
      {program_with(R"(, {"op": "repeat", "in": [0], "count": 1, "result": 0})"),
       "/nodes/1: \"regions\" is missing"},
      {program_with(R"(, {"op": "repeat", "in": [0], "count": 1, "result": 0, "regions": []})"),
       "has 0 regions, not 1"},
      {program_with(R"(, {"op": "repeat", "in": [0], "count": 1, "result": 0, "regions": [{"reprise": 1}]})"),
       "/nodes/1/regions/0/reprise: no such key"},
      {program_with(
           R"(, {"op": "repeat", "in": [0], "count": 1, "result": 0, "regions": [{"nodes": [{"op": "neg", "in": [0]}]}]})"),
       "/nodes/1/regions/0/nodes/0/in/0: 0 is not an earlier node than 0"},
      {program_with("", R"("results": [{"node": 1}])"), "/results/0/node: 1 is not in [0, 0]"},
      {program_with("", R"("results": [{}])"), "/results/0: \"node\" is missing"},
      {program_with("", R"("results": [{"node": 0, "role": "out"}])"), "/results/0/role: no role \"out\""},
      {program_with("", R"("results": [{"node": 0, "role": "in_out"}])"),
       "/results/0: \"parameter\" is missing"},
      {program_with("", R"("results": [{"node": 0, "role": "in_out", "parameter": 1}])"),
       "/results/0/parameter: 1 is not in [0, 0]"},
      {program_with("", R"("results": [{"node": 0, "parameter": 0}])"),
       "/results/0/parameter: only an in_out result"},
      {program_with("", R"("results": [{"node": 0, "names": ""}])"),
       "/results/0/names: no such key in a result"},
      {program_with(R"(, {"op": "sum", "in": [0], "axes": [0]})",
                    R"("results": [{"node": 1, "role": "in_out", "parameter": 0}])"),
       "/results: P8: result 0 is float32() and is written to parameter 0, which is float32(2,)"},
      {program_with("", R"("results": [], "segments": [])"), "/segments: P9: there is no segment"},
      {program_with("", R"("results": [], "segments": [{}])"), "/segments/0: \"end\" is missing"},
      {program_with("", R"("results": [], "segments": [{"end": 2}])"), "/segments/0/end: 2 is not in [0, 1]"},
      {program_with("", R"("results": [], "segments": [{"end": 1, "start": 0}])"),
       "/segments/0/start: no such key in a segment"},
      {program_with("", R"("results": [], "segments": [{"end": 1, "reads": [{"node": 0}]}, {"end": 1}])"),
       "/segments/0/reads/0: \"seen\" is missing"},
      {program_with(
           "",
           R"("results": [], "segments": [{"end": 1, "reads": [{"node": 0, "seen": ["0x0"]}]}, {"end": 1}])"),
       "/segments: P9: segment 0 saw 1 elements"},
      {program_with(
           "",
           R"("results": [], "segments": [{"end": 1, "reads": [{"node": 0, "seen": ["1"]}]}, {"end": 1}])"),
       "/segments/0/reads/0/seen/0: is not the bits"},
      {program_with(
           "",
           R"("results": [], "segments": [{"end": 1, "reads": [{"node": 0, "seen": ["0x-1"]}]}, {"end": 1}])"),
       "seen/0: is not the bits"},
      {program_with(
           "",
           R"("results": [], "segments": [{"end": 1, "reads": [{"node": 0, "seen": ["0x11111111111111111"]}]}, {"end": 1}])"),
       "seen/0: is not the bits"},
  };
  for (wrong const& c : cases) {
    try {
      from_json(c.text);
      ADD_FAILURE() << "accepted: " << c.text << "\n  not: " << c.message;
    } catch (format_error const& e) {
      EXPECT_NE(std::string(e.what()).find(c.message), std::string::npos)
          << e.what() << "\n  not: " << c.message;
    }
  }
}

// Every prefix and every byte changed: an exception of ours or a program, nothing else.
TEST(json, survives_damage) {
  std::string const text = file_text(REPRISE_TEST_DATA "/traces/attributes.json");
  std::size_t accepted = 0;
  auto attempt = [&](std::string const& damaged) {
    try {
      program const p = from_json(damaged);
      ASSERT_EQ(key_bytes(from_json(to_json(p))), key_bytes(p));
      ++accepted;
    } catch (format_error const&) {}
  };
  for (std::size_t i = 0; i + 2 < text.size(); ++i) EXPECT_THROW(from_json(text.substr(0, i)), format_error);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    for (char c : {'0', '9', '"', '[', '}', '-', 'x', '\xc3'}) {
      damaged[i] = c;
      attempt(damaged);
    }
  }
  EXPECT_GT(accepted, 0u);
}

// The published schema names each key that the reader takes, with the kind of each attribute.
TEST(json, is_described_by_its_schema) {
  auto const schema = nlohmann::json::parse(file_text(REPRISE_TEST_DATA "/../../docs/trace.schema.json"));
  auto const& keys = schema.at("$defs").at("nodes").at("items").at("properties");
  std::set<std::string> known = {"id", "op", "in", "dtype", "shape", "line", "regions"};
  for (int i = 0; i < op_count(); ++i)
    for (attribute const& a : info(static_cast<op>(i)).attributes) {
      std::string const name(a.name);
      known.insert(name);
      ASSERT_TRUE(keys.contains(name)) << info(static_cast<op>(i)).name << " " << name;
      std::string const ref = keys.at(name).at("$ref");
      switch (a.kind) {
        case attribute_kind::integer: EXPECT_EQ(ref, "#/$defs/integer") << name; break;
        case attribute_kind::integers:
          EXPECT_EQ(ref, name == "shape" ? "#/$defs/shape" : "#/$defs/integers") << name;
          break;
        case attribute_kind::dtype: EXPECT_EQ(ref, "#/$defs/dtype") << name; break;
        case attribute_kind::scalar: EXPECT_EQ(ref, "#/$defs/scalar") << name; break;
      }
    }
  for (auto const& [name, value] : keys.items()) EXPECT_TRUE(known.contains(name)) << name;
  std::set<std::string> names;
  for (dtype t : dtypes()) names.insert(name_of(t));
  EXPECT_EQ(schema.at("$defs").at("dtype").at("enum").get<std::set<std::string>>(), names);
}

}  // namespace
}  // namespace reprise::ir
