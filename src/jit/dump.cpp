#include "jit/dump.h"

#include <filesystem>
#include <fstream>

#include <reprise/error.h>

namespace reprise::jit {

namespace {

void write(std::filesystem::path const& path, std::string const& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw device_error("dump: " + path.string() + " cannot be written");
}

}  // namespace

void dump_program(std::string const& directory, std::string const& name, ir::program const& p,
                  std::string const& stages, std::string const& key_material) {
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  std::filesystem::path const base = std::filesystem::path(directory) / name;
  write(base.string() + ".json", ir::to_json(p));
  write(base.string() + ".stages.txt", stages);
  write(base.string() + ".key", key_material);
}

std::string stages_of(ir::program const& p, compile_options const& o) {
  std::string text;
  compile(p, o, [&](std::string_view stage, std::string const& body) {
    text += "== ";
    text += stage;
    text += "\n";
    text += body;
    if (body.empty() || body.back() != '\n') text += '\n';
  });
  return text;
}

}  // namespace reprise::jit
