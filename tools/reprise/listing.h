// Programs and operations as text for people: one line a node, types at the end, numbers with the fewest
// digits that read back as the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "trace/program.h"

namespace reprise::cli {

// A program in a file. Throws format_error: which file, where in it, what.
ir::program read_program(std::filesystem::path const& file);

std::string listing(ir::program const& p);
// The rows of ops.def: name, operands, attributes, what it is.
std::string operation_table();

// One element, given as its bits.
std::string element_text(dtype type, std::uint64_t bits);
// "float32(2, 3): 1 2 3 4 5 6"; of a long array the first and the last few.
std::string array_text(ir::tensor_type const& type, std::span<std::byte const> data);

}  // namespace reprise::cli
