// Runs a body under construction over arrays of arguments: what its `load`s read, one array for each slot.
#pragma once

#include <cstddef>
#include <vector>

#include "jit/code.h"
#include "jit/interpret.h"

namespace reprise::jit {

class lanes_of {
 public:
  lanes_of(std::vector<instruction> body, std::size_t n) : body_(std::move(body)), n_(n) {
    for (auto const& i : body_) {
      values_.emplace_back(n * static_cast<std::size_t>(size_of(i.type)));
      if (i.code != kop::const_) continue;
      for (std::size_t l = 0; l < n; ++l)
        __builtin_memcpy(values_.back().data() + l * static_cast<std::size_t>(size_of(i.type)), &i.bits,
                         static_cast<std::size_t>(size_of(i.type)));
    }
  }
  void const* run(value_id result, std::vector<void const*> const& arguments) {
    for (std::size_t v = 0; v <= result; ++v) {
      instruction const& i = body_[v];
      if (i.code == kop::const_) continue;
      if (i.code == kop::load) {
        __builtin_memcpy(values_[v].data(), arguments[i.slot], values_[v].size());
        continue;
      }
      auto const at = [&](value_id o) { return o == no_value ? nullptr : values_[o].data(); };
      apply(i, body_[i.code == kop::select ? i.b : i.a].type, n_, at(i.a), at(i.b), at(i.c),
            values_[v].data());
    }
    return values_[result].data();
  }

 private:
  std::vector<instruction> body_;
  std::size_t n_;
  std::vector<std::vector<unsigned char>> values_;
};

}  // namespace reprise::jit
