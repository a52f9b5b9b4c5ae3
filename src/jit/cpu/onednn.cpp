// Finding and loading oneDNN, and what its primitives need of us.
#include "jit/cpu/onednn.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "jit/cpu/onednn_api.h"
#include "reprise/error.h"

namespace reprise::cpu {
namespace {

bool hidden_by_environment() {
  char const* list = std::getenv("REPRISE_HIDE");
  if (list == nullptr) return false;
  std::string_view rest = list;
  while (!rest.empty()) {
    std::size_t const comma = rest.find(',');
    if (rest.substr(0, comma) == "onednn") return true;
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return false;
}

template <class Function>
bool find(void* library, char const* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// What oneDNN itself is bound to: a runtime in the global scope comes before the one that it brought along.
template <class Function>
bool find_bound(void* library, char const* name, Function& function) {
  return find(RTLD_DEFAULT, name, function) || find(library, name, function);
}

std::string describe(dnnl_version_t const& v) {
  return std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

std::uint64_t default_float_mode() noexcept {
#if defined(__x86_64__)
  unsigned const before = _mm_getcsr();
  _mm_setcsr(0x1f80);
  return before;
#elif defined(__aarch64__)
  std::uint64_t before;
  asm volatile("mrs %0, fpcr" : "=r"(before));
  asm volatile("msr fpcr, %0" ::"r"(std::uint64_t{0}));
  return before;
#else
  return 0;
#endif
}

void restore_float_mode(std::uint64_t mode) noexcept {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(mode));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" ::"r"(mode));
#else
  static_cast<void>(mode);
#endif
}

}  // namespace

onednn_api::~onednn_api() {
  if (attributes != nullptr) primitive_attr_destroy(attributes);
  if (engine != nullptr) engine_destroy(engine);
}

onednn::onednn() {
  if (hidden_by_environment()) {
    reason_ = "oneDNN is hidden by REPRISE_HIDE";
    return;
  }
  char const* const given = std::getenv("REPRISE_DNNL_LIBRARY");
  char const* const name = given != nullptr && *given != '\0' ? given : "libdnnl.so.2";
  // Never unloaded: its thread-local objects have destructors that run when a thread ends.
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    char const* const why = dlerror();
    reason_ = std::string("oneDNN was not found: ") + (why != nullptr ? why : name);
    return;
  }
  auto api = std::make_shared<onednn_api>();
#define REPRISE_DNNL_FIND(function)                                                                     \
  if (!find(library, "dnnl_" #function, api->function)) {                                               \
    reason_ =                                                                                           \
        std::string(name) + " has no function dnnl_" #function ": it is not oneDNN 2.6 or a later 2.x"; \
    return;                                                                                             \
  }
  REPRISE_DNNL_FUNCTIONS(REPRISE_DNNL_FIND)
#undef REPRISE_DNNL_FIND
  dnnl_version_t const& version = *api->version();
  if (version.major != 2 || version.minor < 6) {
    reason_ = std::string(name) + " is oneDNN " + describe(version) + "; 2.6 or a later 2.x is needed";
    return;
  }
  if (version.cpu_runtime != DNNL_RUNTIME_OMP && version.cpu_runtime != DNNL_RUNTIME_SEQ) {
    reason_ = std::string(name) + " is built for a threading runtime other than OpenMP";
    return;
  }
  if (version.cpu_runtime == DNNL_RUNTIME_OMP &&
      !(find_bound(library, "omp_set_num_threads", api->omp_set_num_threads) &&
        find_bound(library, "omp_get_max_threads", api->omp_get_max_threads))) {
    reason_ = std::string(name) + " is built for OpenMP, whose runtime was not found";
    return;
  }
  quiet_scope const quiet(*api);
  if (api->engine_create(&api->engine, dnnl_cpu, 0) != dnnl_success ||
      api->primitive_attr_create(&api->attributes) != dnnl_success ||
      api->primitive_attr_set_scratchpad_mode(api->attributes, dnnl_scratchpad_mode_user) != dnnl_success ||
      api->primitive_attr_set_fpmath_mode(api->attributes, dnnl_fpmath_mode_strict) != dnnl_success) {
    reason_ = std::string(name) + " was loaded, but its CPU engine could not be made";
    return;
  }
  identity_ = "oneDNN " + describe(version) + " " + version.hash + " isa " +
              std::to_string(static_cast<int>(api->get_effective_cpu_isa()));
  api_ = std::move(api);
}

bool onednn::supports(dtype type) const {
  if (!available() || data_type_of(type) == dnnl_data_type_undef) return false;
  quiet_scope const quiet(*api_);
  dnnl_memory_desc_t const square = desc_by_tag(*api_, type, {64, 64}, dnnl_ab);
  dnnl_matmul_desc_t op;
  if (api_->matmul_desc_init(&op, &square, &square, nullptr, &square) != dnnl_success) return false;
  auto const desc = primitive_desc::make(api_, &op);
  return desc && !desc->is_reference();
}

matmul_call dense(jit::matmul_step const& step) {
  matmul_call call{.type = step.type,
                   .batch = step.batch,
                   .m = step.m,
                   .n = step.n,
                   .k = step.k,
                   .stride_a = step.stride_a,
                   .stride_b = step.stride_b,
                   .stride_c = step.stride_c,
                   .transpose_a = step.transpose_a,
                   .transpose_b = step.transpose_b,
                   .bias = step.bias,
                   .act = step.act};
  call.lda = step.transpose_a ? step.m : step.k;
  call.ldb = step.transpose_b ? step.k : step.n;
  call.ldc = step.n;
  return call;
}

quiet_scope::quiet_scope(onednn_api const& api) noexcept
    : api_(api), threads_(0), mode_(default_float_mode()) {
  if (api_.omp_set_num_threads == nullptr) return;
  threads_ = api_.omp_get_max_threads();
  if (threads_ != 1) api_.omp_set_num_threads(1);
}

quiet_scope::~quiet_scope() {
  if (threads_ > 1) api_.omp_set_num_threads(threads_);
  restore_float_mode(mode_);
}

dnnl_data_type_t data_type_of(dtype type) {
  switch (type) {
    case dtype::f32: return dnnl_f32;
    case dtype::bf16: return dnnl_bf16;
    case dtype::boolean:
    case dtype::u8:
    case dtype::i32:
    case dtype::i64:
    case dtype::f16:
    case dtype::f64: return dnnl_data_type_undef;
  }
  return dnnl_data_type_undef;
}

dnnl_memory_desc_t desc_by_strides(onednn_api const& api, dtype type,
                                   std::initializer_list<std::int64_t> dims,
                                   std::initializer_list<std::int64_t> strides) {
  dnnl_memory_desc_t desc;
  if (api.memory_desc_init_by_strides(&desc, static_cast<int>(dims.size()), dims.begin(), data_type_of(type),
                                      strides.begin()) != dnnl_success)
    throw compile_error("oneDNN refused to describe a strided operand");
  return desc;
}

dnnl_memory_desc_t desc_by_tag(onednn_api const& api, dtype type, std::initializer_list<std::int64_t> dims,
                               dnnl_format_tag_t tag) {
  dnnl_memory_desc_t desc;
  if (api.memory_desc_init_by_tag(&desc, static_cast<int>(dims.size()), dims.begin(), data_type_of(type),
                                  tag) != dnnl_success)
    throw compile_error("oneDNN refused to describe an operand");
  return desc;
}

std::optional<primitive_desc> primitive_desc::make(std::shared_ptr<onednn_api const> api,
                                                   const_dnnl_op_desc_t op) {
  dnnl_primitive_desc_t handle = nullptr;
  if (api->primitive_desc_create(&handle, op, api->attributes, api->engine, nullptr) != dnnl_success)
    return std::nullopt;
  return primitive_desc(std::move(api), handle);
}

std::optional<primitive_desc> primitive_desc::make_reorder(std::shared_ptr<onednn_api const> api,
                                                           dnnl_memory_desc_t const& from,
                                                           dnnl_memory_desc_t const& to) {
  dnnl_primitive_desc_t handle = nullptr;
  if (api->reorder_primitive_desc_create(&handle, &from, api->engine, &to, api->engine, api->attributes) !=
      dnnl_success)
    return std::nullopt;
  return primitive_desc(std::move(api), handle);
}

primitive_desc::primitive_desc(primitive_desc&& other) noexcept
    : api_(std::move(other.api_)), handle_(std::exchange(other.handle_, nullptr)) {}

primitive_desc::~primitive_desc() {
  if (handle_ != nullptr) api_->primitive_desc_destroy(handle_);
}

std::string primitive_desc::implementation() const {
  char const* name = nullptr;
  if (api_->primitive_desc_query(handle_, dnnl_query_impl_info_str, 0, &name) != dnnl_success ||
      name == nullptr)
    return {};
  return name;
}

bool primitive_desc::is_reference() const {
  std::string const name = implementation();
  return name.find("ref") != std::string::npos;
}

dnnl_memory_desc_t primitive_desc::memory(dnnl_query_t what, int index) const {
  dnnl_memory_desc_t const* const desc = api_->primitive_desc_query_md(handle_, what, index);
  return desc != nullptr ? *desc : dnnl_memory_desc_t{};
}

std::size_t primitive_desc::scratch_bytes() const {
  dnnl_memory_desc_t const desc = memory(dnnl_query_scratchpad_md);
  return api_->memory_desc_get_size(&desc);
}

// The memory objects of one execution, and the stream it goes to.
struct primitive::argument_set {
  explicit argument_set(onednn_api const& api) : api(api) {}
  ~argument_set() {
    for (dnnl_exec_arg_t const& a : arguments) api.memory_destroy(a.memory);
    if (stream != nullptr) api.stream_destroy(stream);
  }
  bool add(int argument, dnnl_memory_desc_t const& desc) {
    dnnl_memory_t memory = nullptr;
    if (api.memory_create(&memory, &desc, api.engine, DNNL_MEMORY_NONE) != dnnl_success) return false;
    arguments.push_back({argument, memory});
    return true;
  }
  onednn_api const& api;
  dnnl_stream_t stream = nullptr;
  std::vector<dnnl_exec_arg_t> arguments;
};

primitive::primitive(primitive_desc const& desc, std::vector<operand> operands)
    : api_(desc.api()), operands_(std::move(operands)), scratch_bytes_(round_up(desc.scratch_bytes(), 64)) {
  if (scratch_bytes_ != 0) operands_.push_back({DNNL_ARG_SCRATCHPAD, desc.memory(dnnl_query_scratchpad_md)});
  dnnl_status_t const status = api_->primitive_create(&handle_, desc.get());
  if (status != dnnl_success)
    throw compile_error("oneDNN could not make a primitive (" + desc.implementation() + "): status " +
                        std::to_string(static_cast<int>(status)));
}

primitive::~primitive() { api_->primitive_destroy(handle_); }

std::unique_ptr<primitive::argument_set> primitive::take() const {
  {
    std::scoped_lock const lock(mutex_);
    if (!idle_.empty()) {
      auto set = std::move(idle_.back());
      idle_.pop_back();
      return set;
    }
    // So that give() never allocates.
    idle_.reserve(++sets_);
  }
  auto set = std::make_unique<argument_set>(*api_);
  set->arguments.reserve(operands_.size());
  if (api_->stream_create(&set->stream, api_->engine, dnnl_stream_default_flags) != dnnl_success)
    return nullptr;
  for (operand const& o : operands_)
    if (!set->add(o.argument, o.desc)) return nullptr;
  return set;
}

void primitive::give(std::unique_ptr<argument_set> set) const noexcept {
  std::scoped_lock const lock(mutex_);
  idle_.push_back(std::move(set));
}

bool primitive::execute(std::initializer_list<void const*> pointers, void* scratch) const noexcept try {
  auto set = take();
  if (set == nullptr) return false;
  std::size_t i = 0;
  bool good = true;
  for (void const* p : pointers)
    good &= api_->memory_set_data_handle(set->arguments[i++].memory, const_cast<void*>(p)) == dnnl_success;
  if (scratch_bytes_ != 0)
    good &= api_->memory_set_data_handle(set->arguments[i++].memory, scratch) == dnnl_success;
  good = good && i == set->arguments.size() &&
         api_->primitive_execute(handle_, set->stream, static_cast<int>(i), set->arguments.data()) ==
             dnnl_success;
  give(std::move(set));
  return good;
} catch (...) { return false; }

}  // namespace reprise::cpu
