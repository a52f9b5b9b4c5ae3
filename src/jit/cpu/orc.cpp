#include "jit/cpu/orc.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/MemoryBuffer.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>

#include "reprise/error.h"

namespace reprise::cpu {

namespace orc = llvm::orc;

namespace {

// What generated code calls: values in place, in memory.
template <auto F>
void map1(double* x, double const*, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = F(x[i]);
}
template <class T, auto F>
void map2(T* x, T const* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = F(x[i], y[i]);
}

double host_exp(double x) { return std::exp(x); }
double host_expm1(double x) { return std::expm1(x); }
double host_log(double x) { return std::log(x); }
double host_log1p(double x) { return std::log1p(x); }
double host_sin(double x) { return std::sin(x); }
double host_cos(double x) { return std::cos(x); }
double host_tanh(double x) { return std::tanh(x); }
double host_erf(double x) { return std::erf(x); }
double host_erfc(double x) { return std::erfc(x); }
double host_pow(double x, double y) { return std::pow(x, y); }
double host_fmod(double x, double y) { return std::fmod(x, y); }
float host_fmodf(float x, float y) { return std::fmod(x, y); }
// LLVM's own, on a processor without the instruction.
float host_fmaf(float a, float b, float c) { return std::fma(a, b, c); }
double host_fma(double a, double b, double c) { return std::fma(a, b, c); }
float host_floorf(float a) { return std::floor(a); }
double host_floor(double a) { return std::floor(a); }
float host_ceilf(float a) { return std::ceil(a); }
double host_ceil(double a) { return std::ceil(a); }
float host_truncf(float a) { return std::trunc(a); }
double host_trunc(double a) { return std::trunc(a); }
float host_roundevenf(float a) { return std::nearbyint(a); }
double host_roundeven(double a) { return std::nearbyint(a); }

struct host_symbol {
  char const* name;
  void* address;
};

template <class F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

std::vector<host_symbol> host_symbols() {
  return {{"reprise_exp", address_of(&map1<host_exp>)},
          {"reprise_expm1", address_of(&map1<host_expm1>)},
          {"reprise_log", address_of(&map1<host_log>)},
          {"reprise_log1p", address_of(&map1<host_log1p>)},
          {"reprise_sin", address_of(&map1<host_sin>)},
          {"reprise_cos", address_of(&map1<host_cos>)},
          {"reprise_tanh", address_of(&map1<host_tanh>)},
          {"reprise_erf", address_of(&map1<host_erf>)},
          {"reprise_erfc", address_of(&map1<host_erfc>)},
          {"reprise_pow", address_of(&map2<double, host_pow>)},
          {"reprise_fmod", address_of(&map2<double, host_fmod>)},
          {"reprise_fmodf", address_of(&map2<float, host_fmodf>)},
          {"fmaf", address_of(&host_fmaf)},
          {"fma", address_of(&host_fma)},
          {"floorf", address_of(&host_floorf)},
          {"floor", address_of(&host_floor)},
          {"ceilf", address_of(&host_ceilf)},
          {"ceil", address_of(&host_ceil)},
          {"truncf", address_of(&host_truncf)},
          {"trunc", address_of(&host_trunc)},
          {"roundevenf", address_of(&host_roundevenf)},
          {"roundeven", address_of(&host_roundeven)},
          {"memcpy", address_of(static_cast<void* (*)(void*, void const*, std::size_t)>(&std::memcpy))},
          {"memset", address_of(static_cast<void* (*)(void*, int, std::size_t)>(&std::memset))},
          {"memmove", address_of(static_cast<void* (*)(void*, void const*, std::size_t)>(&std::memmove))}};
}

[[noreturn]] void refuse(llvm::Error e, std::string const& why = {}) {
  throw format_error("compiled code does not link: " + llvm::toString(std::move(e)) +
                     (why.empty() ? "" : ": " + why));
}

}  // namespace

struct linker::session {
  orc::ExecutionSession es;
  orc::ObjectLinkingLayer layer;
  orc::JITDylib* host = nullptr;
  std::atomic<std::uint64_t> next{0};
  std::mutex lock;
  std::string why;  // of the last failure

  static std::unique_ptr<orc::ExecutorProcessControl> process() {
    auto epc = orc::SelfExecutorProcessControl::Create(std::make_shared<orc::SymbolStringPool>());
    if (!epc) throw device_error("cannot link code into this process: " + llvm::toString(epc.takeError()));
    return std::move(*epc);
  }

  session() : es(process()), layer(es, es.getExecutorProcessControl().getMemMgr()) {
    // Why a link fails is told here, that it failed by the lookup; nothing goes to stderr.
    es.setErrorReporter([this](llvm::Error e) {
      std::lock_guard const hold(lock);
      why = llvm::toString(std::move(e));
    });
    host = &es.createBareJITDylib("host");
    orc::SymbolMap symbols;
    for (auto const& s : host_symbols())
      symbols[es.intern(s.name)] = {orc::ExecutorAddr::fromPtr(s.address), llvm::JITSymbolFlags::Exported};
    if (auto e = host->define(orc::absoluteSymbols(std::move(symbols)))) refuse(std::move(e));
  }
  ~session() {
    if (auto e = es.endSession()) llvm::consumeError(std::move(e));
  }
};

struct linker::library final : loaded_code {
  library(std::shared_ptr<session> in, orc::JITDylib& code) : in(std::move(in)), code(code) {}
  ~library() override {
    if (auto e = in->es.removeJITDylib(code)) llvm::consumeError(std::move(e));
  }
  void* address(std::string const& symbol) override {
    auto found = in->es.lookup({&code}, in->es.intern(symbol));
    if (found) return found->getAddress().toPtr<void*>();
    std::lock_guard const hold(in->lock);
    refuse(found.takeError(), in->why);
  }
  std::shared_ptr<session> in;
  orc::JITDylib& code;
};

linker::linker() : session_(std::make_shared<session>()) {}
linker::~linker() = default;

std::unique_ptr<loaded_code> linker::load(std::span<std::vector<std::byte> const> objects) {
  auto& s = *session_;
  auto& jd = s.es.createBareJITDylib("code." + std::to_string(s.next++));
  jd.addToLinkOrder(*s.host);
  auto code = std::make_unique<library>(session_, jd);
  for (auto const& o : objects) {
    llvm::StringRef const bytes(reinterpret_cast<char const*>(o.data()), o.size());
    if (auto e = s.layer.add(jd, llvm::MemoryBuffer::getMemBufferCopy(bytes, "object"))) refuse(std::move(e));
  }
  return code;
}

}  // namespace reprise::cpu
