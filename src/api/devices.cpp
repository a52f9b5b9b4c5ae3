#include "api/devices.h"

#include "jit/cpu/backend.h"
#include "jit/runtime.h"

namespace reprise::api {

std::unique_ptr<record::engine> make_engine(context_options const& o) {
  switch (o.device) {
    case device::gpu: throw device_error("no GPU: this version of reprise runs programs on the CPU only");
    case device::best:
    case device::cpu: break;
  }
  jit::runtime_options r;
  r.disk = jit::disk_options_from_environment();
  if (!o.cache_directory.empty()) {
    r.disk.directory = o.cache_directory;
    r.disk_was_asked_for = o.disk_cache && r.disk.enabled;
  }
  if (!o.disk_cache) r.disk.enabled = false;
  r.memory_cap = o.memory_cap;
  return jit::make_engine(cpu::make_backend(o.threads), std::move(r));
}

}  // namespace reprise::api
