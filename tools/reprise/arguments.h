// KEY=VALUE of the command line against the parameters and results of a program. A key is a name, or the
// index of one when no name is equal to it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "trace/program.h"

namespace reprise::cli {

// The value of each parameter, row-major. A value is a .npy file of the parameter's dtype and shape
// (bfloat16, which NumPy has not: float32), or, for a parameter of rank 0, a number. Throws argument_error
// naming what is missing, given twice, unknown or of another type.
std::vector<std::vector<std::byte>> read_parameters(ir::program const& p,
                                                    std::vector<std::string> const& given);

// Values made up for parameters that are not given: the same ones each time, within [0, 1).
std::vector<std::vector<std::byte>> made_up_parameters(ir::program const& p,
                                                       std::vector<std::string> const& given);

struct destination {
  std::size_t result;
  std::filesystem::path file;
};
std::vector<destination> destinations(ir::program const& p, std::vector<std::string> const& given);

}  // namespace reprise::cli
