// The state of one call of a traced callable, from packed arguments to results.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <reprise/trace.h>

#include "trace/tape.h"

namespace reprise::record {

struct leaf {
  handle array;  // may be empty: a moved-from argument
  bool rebindable = false;
  std::uint32_t same = 0;  // the first leaf that is the same array
};
struct scalar_leaf {
  std::uint64_t id = 0;
  dtype type = dtype::f32;
  std::uint64_t bits = 0;
};
struct shared_temporary {
  void const* address;
  void const* tag;
  void* object;
};

struct call_state {
  bool stateless = false;
  std::string callable, signature;
  std::uint64_t hash = 0;
  std::shared_ptr<session> home;
  std::vector<leaf> leaves;
  std::vector<scalar_leaf> scalars;
  std::vector<std::string> leaf_names, scalar_names;
  std::vector<handle> borrowed;
  std::vector<shared_temporary> objects;
  std::string before_bytes, after_bytes, result_bytes, first_result_bytes;
  std::vector<handle> after;
  std::vector<std::uint64_t> after_scalars;
  std::vector<handle*> results;
  std::vector<parameter_source> sources;
  std::shared_ptr<tape> recording;
  std::shared_ptr<signature_entry const> entry;
  std::shared_ptr<signature_entry const> unchecked;  // publishable once a second recording agrees
  std::shared_ptr<ir::program const> first_recording;
  std::vector<handle> outputs;
  std::size_t next_result = 0, next_leaf = 0;
  std::vector<void*> parameter_pointers, result_pointers;
  std::vector<std::uint64_t> scalar_words;
  tally count;

  void put(void const* p, std::size_t n);
  void settle();
  void start_recording();
  bool is_borrowed(handle const& h) const;
  void own(value& v);
  void return_borrowed();
  handle fresh_output(ir::tensor_type const& t);
  bool replay_entry();
  handle value_of(outcome const& o);
  std::string reason_to_record_again(tape const& t, bool result_copies, std::size_t outliving) const;
  std::vector<std::uint64_t> scalar_ids() const;
  std::vector<value_base const*> values_in_order() const;  // results, then arguments as the body left them
};

}  // namespace reprise::record
