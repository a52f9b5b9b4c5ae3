// .npy files: bytes as NumPy writes them, both orders of axes and of bytes, and what is refused.
#include "trace/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "examples.h"

#include <reprise/error.h>

namespace reprise::ir {
namespace {

using enum dtype;

std::string npy(std::string const& header, std::string const& data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> 8 * i);
  return bytes + header + data;
}

std::string dictionary(std::string const& descr, std::string const& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }      \n";
}

std::string data_of(npy_array const& a) {
  return {reinterpret_cast<char const*>(a.data.data()), a.data.size()};
}

TEST(npy, reads_every_dtype_and_order) {
  struct {
    char const* descr;
    dtype type;
  } const types[] = {{"|b1", boolean}, {"|u1", u8},  {"<i4", i32}, {"<i8", i64},
                     {"<f2", f16},     {"<f4", f32}, {"<f8", f64}};
  for (auto const& t : types) {
    std::string const data(static_cast<std::size_t>(2 * size_of(t.type)), '\1');
    npy_array const a = parse_npy(npy(dictionary(t.descr, "(1, 2)"), data), "x");
    EXPECT_EQ(str(a.type), name_of(t.type) + std::string("(1, 2)"));
    EXPECT_EQ(data_of(a), data);
  }
  EXPECT_EQ(data_of(parse_npy(npy(dictionary("|u1", "(2, 3)", true), "adbecf"), "x")), "abcdef");
  EXPECT_EQ(data_of(parse_npy(npy(dictionary("|u1", "(2, 1, 2)", true), "acbd"), "x")), "abcd");
  EXPECT_EQ(data_of(parse_npy(npy(dictionary(">i4", "(1,)"), "abcd"), "x")), "dcba");
  EXPECT_EQ(data_of(parse_npy(npy(dictionary("|b1", "(3,)"), std::string("\0\1\7", 3)), "x")),
            std::string("\0\1\1", 3));
  EXPECT_EQ(data_of(parse_npy(npy(dictionary("<i4", "()"), "abcd", 2), "x")), "abcd");
  EXPECT_EQ(str(parse_npy(npy(dictionary("<f8", "(0, 3L)"), ""), "x").type), "float64(0, 3)");
  EXPECT_EQ(str(parse_npy(npy("{\"shape\":(2),\"fortran_order\":False,\"descr\":\"|u1\"}", "ab"), "x").type),
            "uint8(2,)");
}

TEST(npy, says_what_is_wrong) {
  std::pair<std::string, std::string> const cases[] = {
      {"", "x.npy: it is not a .npy file"},
      {"PK\3\4", "it is not a .npy file"},
      {"\x93NUMPY\1", "it ends inside its header"},
      {npy(dictionary("<f4", "(1,)"), "", 3), ".npy version 3"},
      {npy(dictionary("<f4", "(1,)"), "abcd").substr(0, 30), "it ends inside its header"},
      {npy(dictionary("<f4", "(1,)"), "abc"), "3 bytes of data; float32(1,) has 1 elements of 4 bytes"},
      {npy(dictionary("<f4", "(1,)"), "abcde"), "5 bytes of data"},
      {npy(dictionary("<i2", "(1,)"), "ab"), "no dtype of ours is \"<i2\""},
      {npy(dictionary("<c8", "(1,)"), "abcdefgh"), "no dtype of ours is"},
      {npy(dictionary("", "(1,)"), ""), "no dtype of ours is"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "abcd"), "it holds records"},
      {npy(dictionary("<f4", "(-1,)"), ""), "its header is malformed"},
      {npy(dictionary("<f4", "(99999999999999999999,)"), ""), "its header is malformed"},
      {npy(dictionary("<f4", "(4611686018427387904,)"), ""), "2^62 elements or more"},
      {npy(dictionary("<f4", "(1,1,1,1,1,1,1,1,1)"), "abcd"), "more than 8 axes"},
      {npy("{'descr': '<f4', 'shape': (1,)}", "abcd"), "its header is malformed"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", "abcd"), "its header is malformed"},
      {npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "abcd"), "its header is malformed"},
      {npy("{'descr': '<f4", "abcd"), "its header is malformed"},
      {npy("", ""), "it ends inside its header"},
  };
  for (auto const& [bytes, message] : cases) {
    try {
      parse_npy(bytes, "x.npy");
      ADD_FAILURE() << "accepted, not: " << message;
    } catch (format_error const& e) {
      EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what() << "\n  not: " << message;
    }
  }
  std::string const good = npy(dictionary("<f4", "(2, 3)", true), std::string(24, 'x'));
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_THROW(parse_npy(good.substr(0, i), "x"), format_error);
    for (int c = 0; c < 256; c += 3) {
      std::string damaged = good;
      damaged[i] = static_cast<char>(c);
      try {
        parse_npy(damaged, "x");
      } catch (format_error const&) {}
    }
  }
}

TEST(npy, reads_what_it_writes) {
  std::filesystem::path const dir =
      std::filesystem::temp_directory_path() / ("npy_test." + std::to_string(getpid()));
  std::filesystem::create_directory(dir);
  for (dtype t : dtypes())
    for (shape const& s : {shape{}, shape{3}, shape{2, 0}, shape{1, 1, 2, 1, 3, 1, 1, 2}}) {
      std::vector<std::byte> data(static_cast<std::size_t>(s.size() * size_of(t)));
      for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<std::byte>(t == boolean ? i % 2 : i * 37 % 127);
      write_npy(dir / "a.npy", {t, s}, data);
      EXPECT_EQ((std::filesystem::file_size(dir / "a.npy") -
                 static_cast<std::size_t>(s.size() * (t == bf16 ? 4 : size_of(t)))) %
                    64,
                0u);
      npy_array const a = read_npy(dir / "a.npy");
      if (t == bf16) {
        EXPECT_EQ(str(a.type), str({f32, s}));
        for (std::size_t i = 0; i < data.size() / 2; ++i)
          EXPECT_EQ(std::memcmp(&a.data[4 * i + 2], &data[2 * i], 2), 0);
      } else {
        EXPECT_EQ(str(a.type), str({t, s}));
        EXPECT_EQ(a.data, data);
      }
    }
  EXPECT_THROW(write_npy(dir / "a.npy", {f32, {2}}, {}), format_error);
  EXPECT_THROW(write_npy(dir / "no" / "a.npy", {f32, {0}}, {}), format_error);
  EXPECT_THROW(read_npy(dir / "missing.npy"), format_error);
  EXPECT_THROW(read_npy(dir), format_error);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace reprise::ir
