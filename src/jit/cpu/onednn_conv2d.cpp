// Convolutions: weights are reordered once a call, then each slice (some samples, or some output channels of
// one) reorders its images to the layout that oneDNN's kernel likes, runs it and reorders what came out, all
// in one thread's cache. Which layout and which cut is a rule on the shape; see layouts() for what was
// measured.
#include <algorithm>
#include <atomic>
#include <vector>

#include "jit/cpu/onednn_api.h"
#include "jit/cpu/parallel.h"
#include "reprise/error.h"

namespace reprise::cpu {
namespace {

using i64 = std::int64_t;

std::string text(conv2d_call const& c) {
  auto const list = [](std::initializer_list<i64> values) {
    std::string s = "[";
    for (i64 v : values) s += (s.size() > 1 ? ", " : "") + std::to_string(v);
    return s + "]";
  };
  return "conv2d of " + list({c.n, c.c, c.h, c.w}) + " with " +
         list({c.o, c.groups > 0 ? c.c / c.groups : c.c, c.kh, c.kw}) + " " + name_of(c.type) + ", stride " +
         list({c.stride_h, c.stride_w}) + ", padding " +
         list({c.pad_top, c.pad_left, c.pad_bottom, c.pad_right}) + ", dilation " +
         list({c.dilation_h, c.dilation_w}) + ", " + std::to_string(c.groups) + " groups";
}

void check(conv2d_call const& c) {
  auto const refuse = [&](char const* why) { throw argument_error(text(c) + ": " + why); };
  if (c.n < 0 || c.c < 0 || c.h < 0 || c.w < 0 || c.o < 0) refuse("a size is negative");
  if (c.kh < 1 || c.kw < 1) refuse("the kernel is empty");
  if (c.stride_h < 1 || c.stride_w < 1) refuse("a stride is below 1");
  if (c.dilation_h < 1 || c.dilation_w < 1) refuse("a dilation is below 1");
  if (c.pad_top < 0 || c.pad_left < 0 || c.pad_bottom < 0 || c.pad_right < 0) refuse("padding is negative");
  if (c.groups < 1 || c.c % c.groups != 0 || c.o % c.groups != 0)
    refuse("the groups do not divide the channels");
}

i64 output_extent(i64 in, i64 kernel, i64 stride, i64 before, i64 after, i64 dilation) {
  i64 const room = in + before + after - (dilation * (kernel - 1) + 1);
  return room < 0 ? 0 : room / stride + 1;
}

// The layouts of source and destination to ask oneDNN for, best first. Weights are always its own choice.
struct layout {
  dnnl_format_tag_t source, destination;
};

// GF on two cores, reorders included, plain / channels last / blocked / source plain and destination any:
// 3 -> 16 3x3: 80 / 117 / - / 144; 3 -> 64 7x7 stride 2: 145 / 322 / - / 318; 64 -> 64 at 56x56: 268 / 365 /
// 390 / 197; 256 -> 256 at 14x14: 359 / 449 / 426 / 349; 512 -> 512 at 7x7: 352 / 403 / 325 / 361; 256 ->
// 1024 1x1: 354 / 230 / 401 / 360.
std::vector<layout> layouts(conv2d_call const& c) {
  layout const plain{dnnl_nchw, dnnl_nchw}, last{dnnl_nhwc, dnnl_nhwc}, blocked{dnnl_nChw16c, dnnl_nChw16c},
      first{dnnl_nchw, dnnl_format_tag_any};
  if (c.groups == 1 && c.c <= 4) return {first, last, plain};
  bool const sixteens = c.c / c.groups % 16 == 0 && c.o / c.groups % 16 == 0;
  bool const pointwise = c.kh == 1 && c.kw == 1 && c.stride_h == 1 && c.stride_w == 1;
  if (pointwise) return sixteens ? std::vector{blocked, plain} : std::vector{plain, last};
  return {last, plain};
}

struct cut {
  i64 samples;   // a slice; divides n
  i64 channels;  // output channels of a slice; divides o
};

i64 largest_divisor(i64 n, i64 at_most) {
  i64 best = 1;
  for (i64 d = 1; d <= at_most && d * d <= n; ++d) {
    if (n % d != 0) continue;
    best = std::max(best, d);
    if (n / d <= at_most) best = std::max(best, n / d);
  }
  return best;
}

cut choose_cut(conv2d_call const& c, i64 out_pixels) {
  double const sample = 2.0 * static_cast<double>(c.o) * static_cast<double>(out_pixels) *
                        static_cast<double>(c.c / c.groups * c.kh * c.kw);
  // Few samples of much work, or weights that one thread would reorder while others wait: cut the output
  // channels too.
  constexpr i64 enough_slices = 8;
  i64 const weights = c.o * (c.c / c.groups) * c.kh * c.kw;
  i64 parts = 1;
  bool const large_weights = weights > 512 * 1024, few_samples = c.n < enough_slices;
  if (c.groups == 1 && (large_weights || few_samples)) {
    auto const fits = [&](i64 p) {
      return c.o % p == 0 && c.o / p % 32 == 0 && sample / static_cast<double>(p) >= 8e6 &&
             (c.n * parts < enough_slices || (large_weights && weights / parts > 256 * 1024));
    };
    while (fits(2 * parts)) parts *= 2;
  }
  if (parts > 1) return {1, c.o / parts};
  // Many samples of little work: several a slice, as long as there are slices to share.
  double const wanted = std::clamp(1e6 / std::max(sample, 1.0), 1.0, 1e6);
  return {largest_divisor(c.n, std::clamp<i64>(c.n / enough_slices, 1, static_cast<i64>(wanted))), c.o};
}

class sliced_conv2d final : public library_call {
 public:
  sliced_conv2d(pool& threads, conv2d_call const& call, i64 out_h, i64 out_w)
      : pool_(threads), call_(call), out_h_(out_h), out_w_(out_w), cut_(choose_cut(call, out_h * out_w)) {
    size_ = size_of(call.type);
  }

  bool make(std::shared_ptr<onednn_api const> const& api, std::string& reason) {
    api_ = api;
    quiet_scope const quiet(*api);
    for (layout const& l : layouts(call_)) {
      auto const desc = describe(l);
      if (!desc || desc->is_reference()) continue;
      // A product of unfolded images gains nothing from another layout of them.
      bool const unfolds = desc->implementation().find("gemm") != std::string::npos;
      if (unfolds && l.source != dnnl_nchw) continue;
      if (unfolds && l.destination != dnnl_nchw) continue;
      if (adopt(*desc)) return true;
    }
    reason = "oneDNN has no optimized kernel on this processor for a " + text(call_);
    return false;
  }

  void run(void const* x, void const* weights, void const* bias, void* y, void* workspace) const override {
    execution e{this,
                static_cast<char const*>(x),
                static_cast<char const*>(weights),
                static_cast<char const*>(bias),
                static_cast<char*>(y),
                static_cast<char*>(workspace)};
    // Slices of one sample share its reordered image, so all images are reordered before.
    i64 const before = (reorder_weights_ ? parts() : 0) + (shares_images() ? call_.n : 0);
    if (before != 0) loop(e, before, &sliced_conv2d::prepare);
    loop(e, slices(), &sliced_conv2d::run_slice);
    if (e.failed) throw device_error("oneDNN failed to run a " + text(call_));
  }

  std::size_t workspace_bytes() const noexcept override {
    return shared_bytes_ + slot_bytes_ * static_cast<std::size_t>(pool_.threads());
  }
  std::string const& implementation() const noexcept override { return name_; }

 private:
  struct execution {
    sliced_conv2d const* self;
    char const *x, *weights, *bias;
    char *y, *workspace;
    std::atomic<bool> failed{false};
    bool (sliced_conv2d::*step)(execution&, int, i64) const noexcept = nullptr;
  };

  i64 parts() const { return call_.o / cut_.channels; }
  i64 slices() const { return call_.n / cut_.samples * parts(); }
  bool shares_images() const { return reorder_source_ && parts() > 1; }

  std::optional<primitive_desc> describe(layout const& l) const {
    conv2d_call const& c = call_;
    onednn_api const& api = *api_;
    auto const x = desc_by_tag(api, c.type, {cut_.samples, c.c, c.h, c.w}, l.source);
    auto const y = desc_by_tag(api, c.type, {cut_.samples, cut_.channels, out_h_, out_w_}, l.destination);
    auto const w = weights_desc(dnnl_format_tag_any);
    auto const bias = desc_by_tag(api, c.type, {cut_.channels}, dnnl_a);
    i64 const strides[] = {c.stride_h, c.stride_w}, dilations[] = {c.dilation_h - 1, c.dilation_w - 1};
    i64 const before[] = {c.pad_top, c.pad_left}, after[] = {c.pad_bottom, c.pad_right};
    dnnl_convolution_desc_t op;
    if (api.dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct, &x,
                                                  &w, c.bias ? &bias : nullptr, &y, strides, dilations,
                                                  before, after) != dnnl_success)
      return std::nullopt;
    return primitive_desc::make(api_, &op);
  }

  dnnl_memory_desc_t weights_desc(dnnl_format_tag_t tag) const {
    conv2d_call const& c = call_;
    if (c.groups == 1) return desc_by_tag(*api_, c.type, {cut_.channels, c.c, c.kh, c.kw}, tag);
    return desc_by_tag(*api_, c.type, {c.groups, cut_.channels / c.groups, c.c / c.groups, c.kh, c.kw}, tag);
  }

  // Empty in `made` when the two are laid out alike; false when oneDNN cannot convert.
  bool make_reorder(dnnl_memory_desc_t const& from, dnnl_memory_desc_t const& to,
                    std::unique_ptr<primitive>& made) {
    made.reset();
    if (api_->memory_desc_equal(&from, &to)) return true;
    auto const desc = primitive_desc::make_reorder(api_, from, to);
    if (!desc || desc->is_reference()) return false;
    made = std::make_unique<primitive>(
        *desc, std::vector<primitive::operand>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    return true;
  }

  // Makes the primitives around `desc` and lays out the workspace: [weights of each part][shared images] and
  // for each slot [image][result][scratch].
  bool adopt(primitive_desc const& desc) {
    conv2d_call const& c = call_;
    auto const x = desc.memory(dnnl_query_src_md), w = desc.memory(dnnl_query_weights_md),
               y = desc.memory(dnnl_query_dst_md);
    auto const plain_x = desc_by_tag(*api_, c.type, {cut_.samples, c.c, c.h, c.w}, dnnl_nchw);
    auto const plain_y = desc_by_tag(*api_, c.type, {cut_.samples, cut_.channels, out_h_, out_w_}, dnnl_nchw);
    auto const plain_w = weights_desc(c.groups == 1 ? dnnl_oihw : dnnl_goihw);
    if (!make_reorder(plain_x, x, reorder_source_) || !make_reorder(plain_w, w, reorder_weights_) ||
        !make_reorder(y, plain_y, reorder_result_))
      return false;
    std::vector<primitive::operand> operands{{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}};
    if (c.bias) operands.push_back({DNNL_ARG_BIAS, desc.memory(dnnl_query_weights_md, 1)});
    convolve_ = std::make_unique<primitive>(desc, std::move(operands));

    auto const bytes = [&](dnnl_memory_desc_t const& d) {
      return round_up(api_->memory_desc_get_size(&d), 64);
    };
    image_bytes_ = reorder_source_ ? bytes(x) : 0;
    weights_bytes_ = reorder_weights_ ? bytes(w) : 0;
    result_bytes_ = reorder_result_ ? bytes(y) : 0;
    std::size_t scratch = convolve_->scratch_bytes();
    for (auto const* reorder : {&reorder_source_, &reorder_weights_, &reorder_result_})
      if (*reorder) scratch = std::max(scratch, (*reorder)->scratch_bytes());
    images_at_ = weights_bytes_ * static_cast<std::size_t>(parts());
    shared_bytes_ = images_at_ + (shares_images() ? image_bytes_ * static_cast<std::size_t>(c.n) : 0);
    slot_bytes_ = (shares_images() ? 0 : image_bytes_) + result_bytes_ + scratch;
    name_ = "oneDNN " + desc.implementation() +
            (reorder_source_ || reorder_result_ ? ", reordered" : ", plain") + ", " +
            std::to_string(slices()) + " slices of " + std::to_string(cut_.samples) + " samples, " +
            std::to_string(cut_.channels) + " channels";
    return true;
  }

  void loop(execution& e, i64 n, bool (sliced_conv2d::*step)(execution&, int, i64) const noexcept) const {
    e.step = step;
    pool_.run(
        n, 1,
        [](void* context, int slot, i64 begin, i64 end) {
          execution& e = *static_cast<execution*>(context);
          quiet_scope const quiet(*e.self->api_);
          for (i64 i = begin; i < end; ++i)
            if (!(e.self->*e.step)(e, slot, i)) e.failed.store(true, std::memory_order_relaxed);
        },
        &e);
  }

  char* slot_memory(execution& e, int slot) const {
    return e.workspace + shared_bytes_ + static_cast<std::size_t>(slot) * slot_bytes_;
  }
  char* scratch(execution& e, int slot) const {
    return slot_memory(e, slot) + (shares_images() ? 0 : image_bytes_) + result_bytes_;
  }
  i64 part_weights_bytes() const {
    return cut_.channels * (call_.c / call_.groups) * call_.kh * call_.kw * size_;
  }
  i64 sample_bytes() const { return call_.c * call_.h * call_.w * size_; }

  bool prepare(execution& e, int slot, i64 index) const noexcept {
    i64 const weight_parts = reorder_weights_ ? parts() : 0;
    if (index < weight_parts)
      return reorder_weights_->execute({e.weights + index * part_weights_bytes(),
                                        e.workspace + static_cast<std::size_t>(index) * weights_bytes_},
                                       scratch(e, slot));
    i64 const sample = index - weight_parts;
    return reorder_source_->execute(
        {e.x + sample * sample_bytes(),
         e.workspace + images_at_ + static_cast<std::size_t>(sample) * image_bytes_},
        scratch(e, slot));
  }

  bool run_slice(execution& e, int slot, i64 index) const noexcept {
    conv2d_call const& c = call_;
    // Neighbours share their weights.
    i64 const groups_of_samples = c.n / cut_.samples, part = index / groups_of_samples;
    i64 const sample = index % groups_of_samples * cut_.samples;
    i64 const channel = part * cut_.channels, pixels = out_h_ * out_w_;
    char* const own = slot_memory(e, slot);
    char const* image = e.x + sample * sample_bytes();
    bool good = true;
    if (shares_images()) {
      image = e.workspace + images_at_ + static_cast<std::size_t>(sample) * image_bytes_;
    } else if (reorder_source_) {
      good &= reorder_source_->execute({image, own}, scratch(e, slot));
      image = own;
    }
    char const* const weights = reorder_weights_
                                    ? e.workspace + static_cast<std::size_t>(part) * weights_bytes_
                                    : e.weights + part * part_weights_bytes();
    char* const out = e.y + (sample * c.o + channel) * pixels * size_;
    char* const result = reorder_result_ ? own + (shares_images() ? 0 : image_bytes_) : out;
    good &= c.bias ? convolve_->execute({image, weights, result, e.bias + channel * size_}, scratch(e, slot))
                   : convolve_->execute({image, weights, result}, scratch(e, slot));
    if (reorder_result_) good &= reorder_result_->execute({result, out}, scratch(e, slot));
    if (c.act == jit::activation::relu)
      relu_in_place(c.type, out, cut_.samples, cut_.channels * pixels, c.o * pixels);
    return good;
  }

  pool& pool_;
  std::shared_ptr<onednn_api const> api_;
  conv2d_call call_;
  i64 out_h_, out_w_, size_ = 0;
  cut cut_;
  std::unique_ptr<primitive> reorder_source_, reorder_weights_, reorder_result_, convolve_;
  std::size_t image_bytes_ = 0, weights_bytes_ = 0, result_bytes_ = 0;
  std::size_t images_at_ = 0, shared_bytes_ = 0, slot_bytes_ = 0;
  std::string name_;
};

}  // namespace

std::unique_ptr<library_call> make_conv2d(onednn const& library, pool& threads, conv2d_call const& call,
                                          std::string& reason) {
  check(call);
  if (!library.available()) {
    reason = library.reason();
    return nullptr;
  }
  if (data_type_of(call.type) == dnnl_data_type_undef) {
    reason = std::string("oneDNN does not convolve ") + name_of(call.type) + " on a CPU";
    return nullptr;
  }
  i64 const out_h =
      output_extent(call.h, call.kh, call.stride_h, call.pad_top, call.pad_bottom, call.dilation_h);
  i64 const out_w =
      output_extent(call.w, call.kw, call.stride_w, call.pad_left, call.pad_right, call.dilation_w);
  bool const empty = call.n == 0 || call.o == 0 || out_h == 0 || out_w == 0;
  if (empty || call.c == 0 || call.h == 0 || call.w == 0) return make_trivial_conv2d(call, out_h, out_w);
  auto made = std::make_unique<sliced_conv2d>(threads, call, out_h, out_w);
  if (!made->make(library.api(), reason)) return nullptr;
  return made;
}

}  // namespace reprise::cpu
