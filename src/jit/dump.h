// Programs and what became of them as files: <key>.json, <key>.stages.txt, <key>.key. The key's hash is the
// file name, and the name in the log.
#pragma once

#include <string>

#include "jit/plan.h"
#include "trace/program.h"

namespace reprise::jit {

// Throws device_error naming the file that cannot be written.
void dump_program(std::string const& directory, std::string const& name, ir::program const& p,
                  std::string const& stages, std::string const& key_material);
// The text of every stage of compiling p.
std::string stages_of(ir::program const& p, compile_options const& o);

}  // namespace reprise::jit
