// The second example: a convolution layer on a batch of pictures; as a trace, and as a block.
#include <reprise/reprise.h>

#include <cstdio>
static void expect(bool truth, char const* what) { truth ? void() : throw reprise::error(what); }

int main() try {
  cuda::context const ctx;                             // the best device here: a GPU, else this CPU
  cuda::require_device const only(ctx, ctx.device());  // what would run elsewhere throws instead
  reprise::conv2d_layer layer{.in = 3, .out = 16, .padding = {1, 1}, .activation = reprise::activation::relu};
  auto const x = reprise::random::uniform<float>(reprise::random::key{7}, {100, 3, 32, 32});

  // conv2d is cross-correlation, as in PyTorch and ONNX. Julia's conv flips the kernel: flip(layer.weight,
  // {2, 3}) gives that one.
  auto forward = cuda::trace([](auto const& layer, auto const& x) { return layer(x); });
  auto const y = forward(layer, x);  // recorded, compiled, run
  auto const z = forward(layer, x);  // replayed: the layer and the batch are arguments
  auto const report = ctx.report();
  expect(report.recorded == 0 && report.replayed == 1, "the second call was not a replay");
  auto const w =
      ctx.run([](auto const& layer, auto const& x) { return layer(x); }, layer, x);  // this work, now, here
  expect(ctx.holds(y) && ctx.holds(z) && ctx.holds(w), "a result is not in this context's memory");
  expect(y.shape() == reprise::shape{100, 16, 32, 32}, "the result has another shape");
  expect(array_equal(y, z) && array_equal(y, w), "three ways gave different numbers");

  auto const pixel = [&](int n, int c, int i, int j) {
    return i < 0 || j < 0 || i > 31 || j > 31 ? 0. : x[((n * 3 + c) * 32 + i) * 32 + j];
  };
  for (int k = 0; k < 100 * 16 * 32 * 32; k += 997) {  // every 997th number by hand
    int const j = k % 32, i = k / 32 % 32, o = k / 1024 % 16, n = k / 16384;
    double sum = layer.bias[o];
    for (int t = 0; t < 27; ++t)
      sum += layer.weight[o * 27 + t] * pixel(n, t / 9, i + t / 3 % 3 - 1, j + t % 3 - 1);
    expect(std::abs(y[k] - (sum > 0 ? sum : 0)) < 1e-5, "a number is wrong");
  }
  std::printf("a convolution layer on %s: %zu numbers in one batch, right\n", ctx.description().c_str(),
              y.size());
} catch (std::exception const& e) { return std::fprintf(stderr, "conv: %s\n", e.what()), 1; }
