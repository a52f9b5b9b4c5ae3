// Arrays in NumPy's .npy files, versions 1 and 2: what the command line reads and writes. NumPy has no
// bfloat16: such arrays are written as float32, exactly, and a reader who wants them back casts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "trace/ops.h"

namespace reprise::ir {

struct npy_array {
  tensor_type type;
  std::vector<std::byte> data;  // row-major, this machine's byte order; booleans are 0 or 1
};

// C and Fortran order, either byte order. Throws format_error with the file and the reason.
npy_array read_npy(std::filesystem::path const& file);
npy_array parse_npy(std::string_view bytes, std::string_view name);  // name: for messages
void write_npy(std::filesystem::path const& file, tensor_type const& type, std::span<std::byte const> data);

}  // namespace reprise::ir
