// Matrix products: one call is cut into slices of its batch, or into tiles of its products, by its shape
// alone. All whole tiles are one primitive; those at the right and lower edge are up to three more.
#include <algorithm>
#include <array>
#include <atomic>

#include "jit/cpu/onednn_api.h"
#include "jit/cpu/parallel.h"
#include "reprise/error.h"

namespace reprise::cpu {
namespace {

using i64 = std::int64_t;

std::string text(matmul_call const& c) {
  auto const number = [](i64 v) { return std::to_string(v); };
  return "matmul of " + number(c.batch) + " times [" + number(c.m) + ", " + number(c.k) + "] @ [" +
         number(c.k) + ", " + number(c.n) + "] " + name_of(c.type);
}

void check(matmul_call const& c) {
  auto const refuse = [&](char const* why) { throw argument_error(text(c) + ": " + why); };
  if (c.batch < 0 || c.m < 0 || c.n < 0 || c.k < 0) refuse("a size is negative");
  if (c.stride_a < 0 || c.stride_b < 0 || c.stride_c < 0) refuse("a batch stride is negative");
  if (c.batch > 1 && c.stride_c == 0 && c.m != 0 && c.n != 0)
    refuse("the products of a batch would share one result");
  auto const short_row = [](i64 rows, i64 columns, i64 stride) { return rows > 1 && stride < columns; };
  if (short_row(c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k, c.lda))
    refuse("lda is shorter than a row of A");
  if (short_row(c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, c.ldb))
    refuse("ldb is shorter than a row of B");
  if (short_row(c.m, c.n, c.ldc)) refuse("ldc is shorter than a row of C");
}

// The same products, with what the cut need not see removed: one row's leading dimension, a batch that is one
// product.
matmul_call canonical(matmul_call c) {
  if ((c.transpose_a ? c.k : c.m) == 1) c.lda = c.transpose_a ? c.m : c.k;
  if ((c.transpose_b ? c.n : c.k) == 1) c.ldb = c.transpose_b ? c.k : c.n;
  if (c.m == 1) c.ldc = c.n;
  bool const rows_follow =
      !c.transpose_a && c.stride_b == 0 && c.stride_c == c.m * c.ldc && c.stride_a == c.m * c.lda;
  if (c.batch > 1 && rows_follow) {
    c.m *= c.batch;
    c.batch = 1;
  }
  if (c.batch == 1) c.stride_a = c.stride_b = c.stride_c = 0;
  return c;
}

// Into how many slices work of this size is cut: enough to share among many cores, none so small that the cut
// shows. Measured: cutting costs 1 core 3 to 7 % at these sizes.
i64 wanted_slices(double flops) {
  if (flops < 1.5e6) return 1;
  if (flops < 12e6) return 2;
  if (flops < 128e6) return 4;
  if (flops < 1e9) return 8;
  if (flops < 4e9) return 16;
  if (flops < 32e9) return 32;
  return 64;
}

i64 divide_up(i64 a, i64 b) { return (a + b - 1) / b; }
i64 multiple(i64 a, i64 unit) { return divide_up(a, unit) * unit; }

struct tile {
  i64 batch, rows, columns;
};

tile choose_tile(matmul_call const& c) {
  double const each = 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  i64 const wanted = wanted_slices(each * static_cast<double>(c.batch));
  if (c.batch >= wanted) return {divide_up(c.batch, std::min(c.batch, 2 * wanted)), c.m, c.n};
  i64 rows = c.m, columns = c.n;
  for (i64 slices = c.batch; slices < wanted; slices *= 2) {
    // Smaller tiles read more than they multiply.
    bool const can_rows = rows >= 32, can_columns = columns >= 128;
    if (!can_rows && !can_columns) break;
    if (can_columns && (columns > rows || !can_rows)) columns = multiple(divide_up(columns, 2), 64);
    else rows = multiple(divide_up(rows, 2), 8);
  }
  return {1, rows, columns};
}

class sliced_matmul final : public library_call {
 public:
  sliced_matmul(pool& threads, matmul_call const& call, tile t) : pool_(threads), call_(call), tile_(t) {
    size_ = size_of(call.type);
    counts_ = {divide_up(call.batch, t.batch), divide_up(call.m, t.rows), divide_up(call.n, t.columns)};
  }

  // Makes the primitive of each kind of tile; says why not when oneDNN has none worth having.
  bool make(std::shared_ptr<onednn_api const> const& api, std::string& reason) {
    api_ = api;
    quiet_scope const quiet(*api);
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      tile const t = tile_of(kind);
      if (t.batch <= 0 || t.rows <= 0 || t.columns <= 0) continue;
      auto const desc = describe(t);
      if (!desc || desc->is_reference()) {
        reason = "oneDNN has no optimized kernel on this processor for a " + text(call_);
        return false;
      }
      std::vector<primitive::operand> operands{{DNNL_ARG_SRC, desc->memory(dnnl_query_src_md)},
                                               {DNNL_ARG_WEIGHTS, desc->memory(dnnl_query_weights_md)},
                                               {DNNL_ARG_DST, desc->memory(dnnl_query_dst_md)}};
      if (call_.bias) operands.push_back({DNNL_ARG_BIAS, desc->memory(dnnl_query_weights_md, 1)});
      kinds_[kind] = std::make_unique<primitive>(*desc, std::move(operands));
      scratch_bytes_ = std::max(scratch_bytes_, kinds_[kind]->scratch_bytes());
      if (name_.empty())
        name_ = "oneDNN " + desc->implementation() + ", " + std::to_string(slices()) + " slices of " +
                std::to_string(t.batch) + "x" + std::to_string(t.rows) + "x" + std::to_string(t.columns);
    }
    return true;
  }

  void run(void const* a, void const* b, void const* bias, void* c, void* workspace) const override {
    execution e{this,
                static_cast<char const*>(a),
                static_cast<char const*>(b),
                static_cast<char const*>(bias),
                static_cast<char*>(c),
                static_cast<char*>(workspace)};
    pool_.run(
        slices(), 1,
        [](void* context, int slot, i64 begin, i64 end) {
          execution& e = *static_cast<execution*>(context);
          quiet_scope const quiet(*e.self->api_);
          for (i64 i = begin; i < end; ++i) e.self->run_slice(e, slot, i);
        },
        &e);
    if (e.failed) throw device_error("oneDNN failed to run a " + text(call_));
  }

  std::size_t workspace_bytes() const noexcept override {
    return scratch_bytes_ *
           static_cast<std::size_t>(std::min<i64>(pool_.threads(), slices()) == 1 ? 1 : pool_.threads());
  }
  std::string const& implementation() const noexcept override { return name_; }

 private:
  struct execution {
    sliced_matmul const* self;
    char const *a, *b, *bias;
    char *c, *workspace;
    std::atomic<bool> failed{false};
  };

  i64 slices() const { return counts_.batch * counts_.rows * counts_.columns; }

  // Bit 0, 1, 2 of the kind: the last of the batch, of the rows, of the columns, where it is shorter than the
  // others.
  tile tile_of(std::size_t kind) const {
    auto const extent = [](bool last, i64 total, i64 one) {
      return last ? total % one : total >= one ? one : 0;
    };
    return {extent(kind & 1, call_.batch, tile_.batch), extent(kind & 2, call_.m, tile_.rows),
            extent(kind & 4, call_.n, tile_.columns)};
  }

  std::optional<primitive_desc> describe(tile t) const {
    matmul_call const& c = call_;
    onednn_api const& api = *api_;
    bool const one = t.batch == 1;
    auto const matrix = [&](i64 rows, i64 columns, i64 row, i64 column, i64 batch_stride) {
      if (one) return desc_by_strides(api, c.type, {rows, columns}, {row, column});
      bool const shared = batch_stride == 0;
      return desc_by_strides(api, c.type, {shared ? 1 : t.batch, rows, columns},
                             {shared ? std::max(rows * row, columns * column) : batch_stride, row, column});
    };
    auto const a = matrix(t.rows, c.k, c.transpose_a ? 1 : c.lda, c.transpose_a ? c.lda : 1, c.stride_a);
    auto const b = matrix(c.k, t.columns, c.transpose_b ? 1 : c.ldb, c.transpose_b ? c.ldb : 1, c.stride_b);
    auto const out = matrix(t.rows, t.columns, c.ldc, 1, c.stride_c);
    auto const bias = one ? desc_by_tag(api, c.type, {1, t.columns}, dnnl_ab)
                          : desc_by_tag(api, c.type, {1, 1, t.columns}, dnnl_abc);
    dnnl_matmul_desc_t op;
    if (api.matmul_desc_init(&op, &a, &b, c.bias ? &bias : nullptr, &out) != dnnl_success)
      return std::nullopt;
    return primitive_desc::make(api_, &op);
  }

  void run_slice(execution& e, int slot, i64 index) const noexcept {
    matmul_call const& c = call_;
    // Neighbours share their columns of B.
    i64 const row = index % counts_.rows, column = index / counts_.rows % counts_.columns;
    i64 const batch = index / (counts_.rows * counts_.columns);
    auto const shorter = [](i64 at, i64 total, i64 one) { return (at + 1) * one > total; };
    std::size_t const kind = (shorter(batch, c.batch, tile_.batch) ? 1u : 0u) |
                             (shorter(row, c.m, tile_.rows) ? 2u : 0u) |
                             (shorter(column, c.n, tile_.columns) ? 4u : 0u);
    i64 const b0 = batch * tile_.batch, m0 = row * tile_.rows, n0 = column * tile_.columns;
    char const* const a = e.a + (b0 * c.stride_a + m0 * (c.transpose_a ? 1 : c.lda)) * size_;
    char const* const b = e.b + (b0 * c.stride_b + n0 * (c.transpose_b ? c.ldb : 1)) * size_;
    char* const out = e.c + (b0 * c.stride_c + m0 * c.ldc + n0) * size_;
    char* const scratch = e.workspace + static_cast<std::size_t>(slot) * scratch_bytes_;
    bool const good = c.bias ? kinds_[kind]->execute({a, b, out, e.bias + n0 * size_}, scratch)
                             : kinds_[kind]->execute({a, b, out}, scratch);
    if (!good) e.failed.store(true, std::memory_order_relaxed);
    if (c.act == jit::activation::none) return;
    tile const t = tile_of(kind);
    for (i64 i = 0; i < t.batch; ++i)
      relu_in_place(c.type, out + i * c.stride_c * size_, t.rows, t.columns, c.ldc);
  }

  pool& pool_;
  std::shared_ptr<onednn_api const> api_;
  matmul_call call_;
  tile tile_, counts_{};
  i64 size_ = 0;
  std::array<std::unique_ptr<primitive>, 8> kinds_;
  std::size_t scratch_bytes_ = 0;
  std::string name_;
};

}  // namespace

std::unique_ptr<library_call> make_matmul(onednn const& library, pool& threads, matmul_call const& described,
                                          std::string& reason) {
  check(described);
  if (!library.available()) {
    reason = library.reason();
    return nullptr;
  }
  if (data_type_of(described.type) == dnnl_data_type_undef) {
    reason = std::string("oneDNN does not multiply ") + name_of(described.type) + " on a CPU";
    return nullptr;
  }
  matmul_call const call = canonical(described);
  if (call.batch == 0 || call.m == 0 || call.n == 0 || call.k == 0) return make_trivial_matmul(call);
  // oneDNN has no batches in which both operands are shared, nor optimized ones of every stride: then one by
  // one.
  tile const chosen = choose_tile(call);
  for (i64 batch : {chosen.batch, i64{1}}) {
    auto made = std::make_unique<sliced_matmul>(threads, call, tile{batch, chosen.rows, chosen.columns});
    if (made->make(library.api(), reason)) {
      reason.clear();
      return made;
    }
  }
  return nullptr;
}

}  // namespace reprise::cpu
