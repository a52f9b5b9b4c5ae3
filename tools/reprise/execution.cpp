#include "execution.h"

#include <algorithm>
#include <cstring>

#include "api/devices.h"

namespace reprise::cli {

execution::execution(ir::program const& p, std::vector<std::vector<std::byte>> const& parameters)
    : program_(ir::canonical(p, ir::constants::apart)) {  // as recordings are, so that a dump finds its entry
  ir::verify_runnable(program_);
  engine_ = api::make_engine({});
  for (std::size_t i = 0; i < program_.parameters.size(); ++i) {
    ir::parameter const& x = program_.parameters[i];
    std::uint64_t word = 0;
    if (x.role == ir::parameter_role::lifted) {  // comes by value
      std::memcpy(&word, parameters[i].data(), parameters[i].size());
      parameter_pointers_.push_back(nullptr);
    } else {
      memory const m = allocate(x.type);
      engine_->to_device(m.data, parameters[i].data(), m.bytes);
      parameter_pointers_.push_back(m.data);
    }
    scalars_.push_back(word);
  }
  for (ir::result const& r : program_.results) {
    results_.push_back(allocate(program_.type_of(r.value)));
    result_pointers_.push_back(results_.back().data);
  }
}

execution::~execution() {
  engine_->wait();
  for (memory const& m : owned_) engine_->deallocate(m.data, std::max<std::size_t>(m.bytes, 1));
}

execution::memory execution::allocate(ir::tensor_type const& type) {
  std::size_t const bytes = static_cast<std::size_t>(type.shape.size() * size_of(type.type));
  owned_.push_back({engine_->allocate(std::max<std::size_t>(bytes, 1)), bytes});
  return owned_.back();
}

void execution::run() {
  if (!ready_.code) {
    std::vector<std::string> reasons;
    ready_ = engine_->prepare(program_, counts_, reasons);
  }
  engine_->run(ready_, parameter_pointers_, result_pointers_, scalars_, counts_);
  engine_->wait();
}

std::vector<std::byte> execution::result(std::size_t index) const {
  std::vector<std::byte> out(results_[index].bytes);
  engine_->to_host(out.data(), results_[index].data, out.size());
  return out;
}

std::string execution::device() const { return engine_->device() + ": " + engine_->description(); }
void execution::flush() { engine_->flush(); }

}  // namespace reprise::cli
