#include "jit/cpu/target.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/MCContext.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <memory>
#include <optional>

#include "reprise/error.h"

namespace reprise::cpu {
namespace {

bool has(std::string const& features, std::string_view name) {
  std::string const wanted = "+" + std::string(name);
  std::size_t at = 0;
  while ((at = features.find(wanted, at)) != std::string::npos) {
    std::size_t const end = at + wanted.size();
    if (end == features.size() || features[end] == ',') return true;
    at = end;
  }
  return false;
}

void initialize() {
  static bool const done = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  static_cast<void>(done);
}

struct machine {
  target of;
  std::unique_ptr<llvm::TargetMachine> tm;
};

llvm::TargetMachine& machine_for(target const& t) {
  thread_local std::optional<machine> current;
  if (current && current->of == t) return *current->tm;
  initialize();
  llvm::orc::JITTargetMachineBuilder builder{llvm::Triple(llvm::sys::getProcessTriple())};
  builder.setCPU(t.cpu);
  builder.getFeatures() = llvm::SubtargetFeatures(t.features);
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  builder.setRelocationModel(llvm::Reloc::PIC_);
  builder.setCodeModel(llvm::CodeModel::Small);
  auto made = builder.createTargetMachine();
  if (!made)
    throw compile_error("LLVM has no code generator for this processor: " + llvm::toString(made.takeError()));
  current.emplace(machine{t, std::move(*made)});
  return *current->tm;
}

}  // namespace

std::string target::description() const {
  std::string s = "x86-64";
  for (char const* name : {"avx2", "fma", "f16c", "avx512f", "avx512fp16"})
    if (has(features, name)) s += std::string(" ") + name;
  return s;
}

target detect(int most_lanes) {
  target t;
  t.cpu = llvm::sys::getHostCPUName().str();
  auto host = llvm::sys::getHostCPUFeatures();
  bool const wide =
      host["avx512f"] && host["avx512bw"] && host["avx512dq"] && host["avx512vl"] && most_lanes >= 16;
  bool const middle = host["avx2"] && host["fma"] && host["f16c"] && most_lanes >= 8;
  t.lanes = wide ? 16 : middle ? 8 : 4;
  llvm::SubtargetFeatures features;
  // Sorted, so that the string is the same in every process.
  std::vector<std::pair<std::string, bool>> sorted;
  for (auto const& f : host) sorted.emplace_back(f.first().str(), f.second);
  std::sort(sorted.begin(), sorted.end());
  for (auto const& [name, present] : sorted) {
    bool allowed = present;
    if (!wide && (name.starts_with("avx512") || name.starts_with("avx10") || name.starts_with("evex")))
      allowed = false;
    if (!wide && !middle &&
        (name.starts_with("avx") || name == "fma" || name == "fma4" || name == "f16c" || name == "xop" ||
         name == "vaes" || name == "vpclmulqdq" || name == "gfni"))
      allowed = false;
    features.AddFeature(name, allowed);
  }
  t.features = features.getString();
  t.converts_halves = has(t.features, "f16c");
  return t;
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

void prepare(llvm::Module& m, target const& t) {
  llvm::TargetMachine& tm = machine_for(t);
  m.setTargetTriple(tm.getTargetTriple().str());
  m.setDataLayout(tm.createDataLayout());
}

void prepare(llvm::Function& f, target const& t) {
  std::string const bits = std::to_string(t.register_bytes() * 8);
  f.addFnAttr("target-cpu", t.cpu);
  f.addFnAttr("target-features", t.features);
  f.addFnAttr("prefer-vector-width", bits);
  f.addFnAttr("min-legal-vector-width", bits);
  f.addFnAttr("no-trapping-math", "true");
  f.addFnAttr(llvm::Attribute::NoUnwind);
}

std::vector<std::byte> compile(llvm::Module& m, target const& t) {
  llvm::TargetMachine& tm = machine_for(t);
  llvm::SmallVector<char, 0> bytes;
  {
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    llvm::MCContext* context = nullptr;
    if (tm.addPassesToEmitMC(passes, context, stream))
      throw compile_error("LLVM cannot write object files for this processor");
    passes.run(m);
  }
  auto const* first = reinterpret_cast<std::byte const*>(bytes.data());
  return {first, first + bytes.size()};
}

}  // namespace reprise::cpu
