#include "rungs.h"

#include <reprise/reprise.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace ladder {

namespace {

using reprise::array, reprise::bfloat16, reprise::keepdims, reprise::shape;
using numbers = std::vector<float>;

// --- sizes and input, as in peers.py

std::int64_t elements(double n, double scale) {
  return std::max<std::int64_t>(1024, static_cast<std::int64_t>(n * scale));
}
std::int64_t side(double n, double scale) {
  return std::max<std::int64_t>(256, static_cast<std::int64_t>(n * std::sqrt(scale)) / 64 * 64);
}

std::mt19937& source() {
  thread_local std::mt19937 engine(std::random_device{}());
  return engine;
}
numbers normal(std::int64_t n, double deviation = 1) {
  std::normal_distribution<float> draw(0.f, static_cast<float>(deviation));
  numbers x(static_cast<std::size_t>(n));
  for (float& v : x) v = draw(source());
  return x;
}
numbers uniform(std::int64_t n, float width = 1, float from = 0) {
  std::uniform_real_distribution<float> draw(0.f, 1.f);
  numbers x(static_cast<std::size_t>(n));
  for (float& v : x) v = draw(source()) * width + from;
  return x;
}
std::vector<bfloat16> halves(numbers const& x) {
  std::vector<bfloat16> h;
  for (float const v : x) h.emplace_back(v);
  return h;
}

// --- right or wrong

// Elements spread over the whole result, all of it when it is short: `want(i)` in double precision.
template <class T, class Want>
std::string compare(array<T> const& result, std::int64_t samples, double tolerance, Want&& want) {
  auto const values = result.to_vector();
  auto const size = static_cast<std::int64_t>(values.size());
  for (std::int64_t k = 0; k < std::min(samples, size); ++k) {
    std::int64_t const i = size <= samples    ? k
                           : k + 1 == samples ? size - 1
                                              : k * (size / samples) + k % (size / samples);
    double const got = static_cast<double>(static_cast<float>(values[static_cast<std::size_t>(i)])),
                 right = want(i);
    if (!(std::abs(got - right) <= tolerance * std::max(1., std::abs(right))))
      return "element " + std::to_string(i) + " of " + result.shape().str() + " is " + std::to_string(got) +
             ", and it should be " + std::to_string(right);
  }
  return {};
}
constexpr std::int64_t many = 1 << 18;  // of what is cheap to compute one by one

// `f` traced and called with `arguments`; `check` judges its result.
template <class F, class Check, class... A>
workload traced(F f, Check check, A... arguments) {
  auto const function = cuda::trace(f);
  using result = decltype(function(std::as_const(arguments)...));
  auto const last = std::make_shared<result>();
  return {[=] { *last = function(arguments...); }, [=] { return check(*last); }};
}

// --- rungs

workload add_50k(double) {
  auto const a = normal(50'000), b = normal(50'000);
  return traced([](auto const& x, auto const& y) { return x + y; },
                [=](array<float> const& c) {
                  return compare(c, many, 1e-6, [&](auto i) { return double(a[i]) + b[i]; });
                },
                array<float>(a), array<float>(b));
}

// The caller's own memory in, the returned array read.
workload add_50k_host(double) {
  auto const a = normal(50'000), b = normal(50'000);
  auto const function = cuda::trace([](auto const& x, auto const& y) { return x + y; });
  auto const last = std::make_shared<array<float>>();
  return {[=] {
            *last = function(a, b);
            static_cast<void>(last->data());
          },
          [=] { return compare(*last, many, 1e-6, [&](auto i) { return double(a[i]) + b[i]; }); }};
}

constexpr auto convolve = [](auto const& x, auto const& w, auto const& b) {
  return relu(conv2d(x, w, b, {.padding = {1, 1}}));
};

// One output of a 3x3 convolution with padding 1, before the bias.
template <class Pixel>
double window(Pixel&& pixel, numbers const& weight, std::int64_t channels, std::int64_t out, std::int64_t i,
              std::int64_t j) {
  double sum = 0;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t t = 0; t < 9; ++t)
      sum += weight[(out * channels + c) * 9 + t] * pixel(c, i + t / 3 - 1, j + t % 3 - 1);
  return sum;
}

auto check_convolution(numbers const& x, numbers const& w, numbers const& b) {
  return [=](array<float> const& y) {
    return compare(y, 4096, 1e-5, [&](std::int64_t k) {
      std::int64_t const j = k % 32, i = k / 32 % 32, o = k / 1024 % 16, n = k / 16384;
      auto const pixel = [&](std::int64_t c, std::int64_t row, std::int64_t column) {
        bool const outside = row < 0 || column < 0 || row > 31 || column > 31;
        return outside ? 0. : double(x[((n * 3 + c) * 32 + row) * 32 + column]);
      };
      return std::max(0., window(pixel, w, 3, o, i, j) + b[o]);
    });
  };
}

workload conv_seed(double) {
  auto const x = normal(100 * 3 * 32 * 32), w = normal(16 * 27), b = normal(16);
  return traced(convolve, check_convolution(x, w, b), array<float>(x, {100, 3, 32, 32}),
                array<float>(w, {16, 3, 3, 3}), array<float>(b));
}

workload conv_seed_host(double) {
  auto const x = normal(100 * 3 * 32 * 32), w = normal(16 * 27), b = normal(16);
  auto const function = cuda::trace([](auto const& x, auto const& w, auto const& b) {
    return convolve(reshape(x, {100, 3, 32, 32}), reshape(w, {16, 3, 3, 3}), b);
  });
  auto const last = std::make_shared<array<float>>();
  return {[=] {
            *last = function(x, w, b);
            static_cast<void>(last->data());
          },
          [=, check = check_convolution(x, w, b)] { return check(*last); }};
}

workload saxpy_chain(double scale) {
  auto const x = normal(elements(1 << 26, scale));
  return traced([](auto const& x) { return tanh(1.5 * x + .3) * sigmoid(x) - x * x * .5 + exp(-abs(x)); },
                [=](array<float> const& y) {
                  return compare(y, many, 1e-5, [&](auto i) {
                    double const v = x[i];
                    return std::tanh(1.5 * v + .3) / (1 + std::exp(-v)) - v * v * .5 + std::exp(-std::abs(v));
                  });
                },
                array<float>(x));
}

workload black_scholes(double scale) {
  auto const n = elements(1 << 24, scale);
  auto const S0 = uniform(n, 90, 10), K = uniform(n, 90, 10), T = uniform(n, 2, .1f),
             r = uniform(n, .05f, .01f), v = uniform(n, .4f, .1f);
  auto const price = [](auto const& S0, auto const& K, auto const& T, auto const& r, auto const& v) {
    auto const below = [](auto const& d) { return 0.5 * (1 + erf(d * 0.7071067811865476)); };
    auto const sq = sqrt(T);
    auto const d1 = (log(S0 / K) + (r + .5 * v * v) * T) / (v * sq), d2 = d1 - v * sq;
    auto const discounted = K * exp(-r * T), n1 = below(d1), n2 = below(d2);
    return std::pair(S0 * n1 - discounted * n2, discounted * (1 - n2) - S0 * (1 - n1));
  };
  return traced(
      price,
      [=](std::pair<array<float>, array<float>> const& both) {
        auto const exact = [&](std::int64_t i) {
          auto const below = [](double d) { return 0.5 * std::erfc(-d * 0.7071067811865476); };
          double const s = S0[i], k = K[i], t = T[i], rate = r[i], vol = v[i], sq = std::sqrt(t);
          double const d1 = (std::log(s / k) + (rate + .5 * vol * vol) * t) / (vol * sq), d2 = d1 - vol * sq;
          double const discounted = k * std::exp(-rate * t);
          return std::pair(s * below(d1) - discounted * below(d2),
                           discounted * (1 - below(d2)) - s * (1 - below(d1)));
        };
        // Differences of numbers up to 100.
        auto const wrong = compare(both.first, many, 1e-4, [&](auto i) { return exact(i).first; });
        return wrong.empty() ? compare(both.second, many, 1e-4, [&](auto i) { return exact(i).second; })
                             : wrong;
      },
      array<float>(S0), array<float>(K), array<float>(T), array<float>(r), array<float>(v));
}

workload softmax_rows(double scale) {
  auto const n = side(8192, scale);
  auto const x = normal(n * n);
  return traced([](auto const& x) { return softmax(x, 1); },
                [=](array<float> const& y) {
                  return compare(y, 512, 1e-6, [&](std::int64_t i) {
                    double sum = 0;
                    for (std::int64_t j = i / n * n; j < i / n * n + n; ++j) sum += std::exp(double(x[j]));
                    return std::exp(double(x[i])) / sum;
                  });
                },
                array<float>(x, {n, n}));
}

workload layernorm(double scale) {
  auto const rows = side(16384, scale), columns = side(4096, scale);
  auto const x = normal(rows * columns), gain = normal(columns), bias = normal(columns);
  return traced([](auto const& x, auto const& g, auto const& b) { return layer_norm(x, g, b, 1e-5); },
                [=](array<float> const& y) {
                  return compare(y, 512, 1e-5, [&](std::int64_t i) {
                    double mean = 0, square = 0;
                    float const* const row = x.data() + i / columns * columns;
                    for (std::int64_t j = 0; j < columns; ++j) mean += row[j] / double(columns);
                    for (std::int64_t j = 0; j < columns; ++j)
                      square += (row[j] - mean) * (row[j] - mean) / double(columns);
                    return (x[i] - mean) / std::sqrt(square + 1e-5) * gain[i % columns] + bias[i % columns];
                  });
                },
                array<float>(x, {rows, columns}), array<float>(gain), array<float>(bias));
}

workload rmsnorm_bf16(double scale) {
  auto const rows = side(16384, scale), columns = side(4096, scale);
  auto const x = halves(normal(rows * columns)), gain = halves(normal(columns));
  auto const norm = [](auto const& x, auto const& g) {
    auto const wide = cast<float>(x);
    return cast<bfloat16>(wide * rsqrt(mean(wide * wide, {1}, keepdims) + 1e-5)) * g;
  };
  return traced(
      norm,
      [=](array<bfloat16> const& y) {
        return compare(y, 512, 0.02, [&](std::int64_t i) {
          double square = 0;
          for (std::int64_t j = i / columns * columns; j < i / columns * columns + columns; ++j)
            square += double(float(x[j])) * float(x[j]) / double(columns);
          return float(x[i]) / std::sqrt(square + 1e-5) * float(gain[i % columns]);
        });
      },
      array<bfloat16>(x, {rows, columns}), array<bfloat16>(gain));
}

workload sum_all(double scale) {
  auto const x = normal(elements(1 << 26, scale));
  return traced([](auto const& x) { return sum(x); },
                [=](array<float> const& y) {
                  double total = 0, size = 0;
                  for (float const v : x) total += v, size += std::abs(double(v));
                  return compare(y, 1, 1e-6 * size / std::max(1., std::abs(total)),
                                 [&](auto) { return total; });
                },
                array<float>(x));
}

workload colsum(double scale) {
  auto const rows = side(16384, scale), columns = side(4096, scale);
  auto const x = normal(rows * columns);
  return traced([](auto const& x) { return sum(x, {0}); },
                [=](array<float> const& y) {
                  return compare(y, 256, 1e-3, [&](std::int64_t j) {
                    double total = 0;
                    for (std::int64_t i = 0; i < rows; ++i) total += x[i * columns + j];
                    return total;
                  });
                },
                array<float>(x, {rows, columns}));
}

workload transpose_add(double scale) {
  auto const n = side(8192, scale);
  auto const x = normal(n * n), y = normal(n * n);
  return traced([](auto const& x, auto const& y) { return x + transpose(y); },
                [=](array<float> const& z) {
                  return compare(z, many, 1e-6,
                                 [&](std::int64_t i) { return double(x[i]) + y[i % n * n + i / n]; });
                },
                array<float>(x, {n, n}), array<float>(y, {n, n}));
}

workload tiny_chain(double) {
  auto const x = normal(1024);
  auto const chain = [](array<float> x) {
    for (int i = 0; i < 200; ++i) x = x * 0.999 - sum(x) * 0.00195 + 0.25;
    return x;
  };
  return traced(
      chain,
      [=](array<float> const& y) {
        std::vector<double> v(x.begin(), x.end());
        for (int i = 0; i < 200; ++i) {
          double total = 0;
          for (double const e : v) total += e;
          for (double& e : v) e = e * 0.999 - total * 0.00195 + 0.25;
        }
        return compare(y, many, 1e-3, [&](auto i) { return v[i]; });
      },
      array<float>(x));
}

// One row times a matrix with `columns` columns.
std::vector<double> times(std::vector<double> const& row, numbers const& matrix, std::int64_t columns) {
  std::vector<double> out(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < row.size(); ++i)
    for (std::int64_t j = 0; j < columns; ++j) out[j] += row[i] * matrix[i * columns + j];
  return out;
}

workload branches(double) {
  auto const x = normal(256 * 256);
  std::vector<numbers> w;
  std::vector<array<float>> weights;
  for (int i = 0; i < 8; ++i) {
    w.push_back(normal(256 * 256, 1. / 16));
    weights.emplace_back(w.back(), shape{256, 256});
  }
  auto const sum_of_chains = [](auto const& x, auto const& weights) {
    array<float> total;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      auto y = x;
      for (int i = 0; i < 4; ++i) y = matmul(y, weights[k]);
      total = k == 0 ? y : total + y;
    }
    return total;
  };
  return traced(
      sum_of_chains,
      [=](array<float> const& y) {
        return compare(y, 32, 1e-4, [&](std::int64_t i) {
          double total = 0;
          for (numbers const& matrix : w) {
            std::vector<double> row(x.begin() + i / 256 * 256, x.begin() + i / 256 * 256 + 256);
            for (int k = 0; k < 4; ++k) row = times(row, matrix, 256);
            total += row[i % 256];
          }
          return total;
        });
      },
      array<float>(x, {256, 256}), weights);
}

workload mlp(double) {
  auto const x = normal(256 * 784), w1 = normal(784 * 1024, 1 / std::sqrt(1024.)), b1 = normal(1024),
             w2 = normal(1024 * 1024, 1 / std::sqrt(1024.)), b2 = normal(1024),
             w3 = normal(1024 * 10, 1 / std::sqrt(10.)), b3 = normal(10);
  auto const network = [](auto const& x, auto const& w1, auto const& b1, auto const& w2, auto const& b2,
                          auto const& w3, auto const& b3) {
    return log_softmax(matmul(relu(matmul(relu(matmul(x, w1) + b1), w2) + b2), w3) + b3, 1);
  };
  return traced(
      network,
      [=](array<float> const& y) {
        return compare(y, 32, 1e-3, [&](std::int64_t i) {
          auto const layer = [](std::vector<double> const& in, numbers const& w, numbers const& b,
                                bool rectified) {
            auto out = times(in, w, static_cast<std::int64_t>(b.size()));
            for (std::size_t j = 0; j < out.size(); ++j)
              out[j] = rectified ? std::max(0., out[j] + b[j]) : out[j] + b[j];
            return out;
          };
          std::vector<double> const row(x.begin() + i / 10 * 784, x.begin() + i / 10 * 784 + 784);
          auto const scores = layer(layer(layer(row, w1, b1, true), w2, b2, true), w3, b3, false);
          double const top = *std::max_element(scores.begin(), scores.end());
          double sum = 0;
          for (double const s : scores) sum += std::exp(s - top);
          return scores[i % 10] - top - std::log(sum);
        });
      },
      array<float>(x, {256, 784}), array<float>(w1, {784, 1024}), array<float>(b1),
      array<float>(w2, {1024, 1024}), array<float>(b2), array<float>(w3, {1024, 10}), array<float>(b3));
}

workload gemm_gelu_bf16(double scale) {
  auto const n = side(4096, scale);
  auto const x = halves(normal(n * n)), w = halves(normal(n * n, 1 / std::sqrt(double(n)))),
             b = halves(normal(n));
  return traced([](auto const& x, auto const& w, auto const& b) { return gelu_tanh(matmul(x, w) + b); },
                [=](array<bfloat16> const& y) {
                  return compare(y, 512, 0.03, [&](std::int64_t k) {
                    double v = float(b[k % n]);
                    for (std::int64_t i = 0; i < n; ++i)
                      v += double(float(x[k / n * n + i])) * float(w[i * n + k % n]);
                    return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
                  });
                },
                array<bfloat16>(x, {n, n}), array<bfloat16>(w, {n, n}), array<bfloat16>(b));
}

workload resnet_block(double) {
  constexpr std::int64_t C = 64, H = 56;
  auto const x = normal(32 * C * H * H), w1 = normal(C * C * 9, .05), g1 = normal(C), b1 = normal(C),
             w2 = normal(C * C * 9, .05), g2 = normal(C), b2 = normal(C);
  auto const block = [](auto const& x, auto const& w1, auto const& g1, auto const& b1, auto const& w2,
                        auto const& g2, auto const& b2) {
    auto const scaled = [](auto const& y, auto const& g, auto const& b) {
      return y * reshape(g, {1, -1, 1, 1}) + reshape(b, {1, -1, 1, 1});
    };
    auto const y = relu(scaled(conv2d(x, w1, {.padding = {1, 1}}), g1, b1));
    return relu(scaled(conv2d(y, w2, {.padding = {1, 1}}), g2, b2) + x);
  };
  return traced(
      block,
      [=](array<float> const& z) {
        return compare(z, 32, 1e-3, [&](std::int64_t k) {
          std::int64_t const j = k % H, i = k / H % H, o = k / (H * H) % C, n = k / (H * H * C);
          auto const inside = [&](std::int64_t a, std::int64_t b) {
            return a >= 0 && b >= 0 && a < H && b < H;
          };
          auto const pixel = [&](std::int64_t c, std::int64_t a, std::int64_t b) {
            return inside(a, b) ? double(x[((n * C + c) * H + a) * H + b]) : 0.;
          };
          auto const hidden = [&](std::int64_t c, std::int64_t a, std::int64_t b) {
            return inside(a, b) ? std::max(0., window(pixel, w1, C, c, a, b) * g1[c] + b1[c]) : 0.;
          };
          return std::max(0., window(hidden, w2, C, o, i, j) * g2[o] + b2[o] + pixel(o, i, j));
        });
      },
      array<float>(x, {32, C, H, H}), array<float>(w1, {C, C, 3, 3}), array<float>(g1), array<float>(b1),
      array<float>(w2, {C, C, 3, 3}), array<float>(g2), array<float>(b2));
}

// A thousand sweeps: a traced function of 50, called 20 times.
workload jacobi(double) {
  constexpr std::int64_t N = 1024;
  numbers x(N * N);
  for (std::int64_t i = 1; i + 1 < N; ++i) {
    auto const row = uniform(N - 2);
    std::copy(row.begin(), row.end(), x.begin() + i * N + 1);
  }
  auto const function = cuda::trace([](array<float> x) {
    for (int i = 0; i < 50; ++i)
      x({1, -1}, {1, -1}) =
          .25 * (x({{}, -2}, {1, -1}) + x({2, {}}, {1, -1}) + x({1, -1}, {{}, -2}) + x({1, -1}, {2, {}}));
    return x;
  });
  auto const start = array<float>(x, {N, N});
  auto const last = std::make_shared<array<float>>();
  return {[=] {
            *last = start;
            for (int i = 0; i < 20; ++i) *last = function(std::as_const(*last));
          },
          [=] {
            std::vector<double> a(x.begin(), x.end()), b = a;
            for (int sweep = 0; sweep < 1000; ++sweep) {
              for (std::int64_t i = 1; i + 1 < N; ++i)
                for (std::int64_t j = 1; j + 1 < N; ++j)
                  b[i * N + j] =
                      .25 * (a[(i - 1) * N + j] + a[(i + 1) * N + j] + a[i * N + j - 1] + a[i * N + j + 1]);
              std::swap(a, b);
            }
            return compare(*last, many, 1e-5, [&](auto i) { return a[i]; });
          }};
}

}  // namespace

std::span<rung const> rungs() {
  static constexpr rung all[] = {
      {"add_50k", add_50k},
      {"add_50k_host", add_50k_host},
      {"conv_seed", conv_seed},
      {"conv_seed_host", conv_seed_host},
      {"saxpy_chain", saxpy_chain},
      {"black_scholes", black_scholes},
      {"softmax", softmax_rows},
      {"layernorm", layernorm},
      {"rmsnorm_bf16", rmsnorm_bf16},
      {"sum_all", sum_all},
      {"colsum", colsum},
      {"transpose_add", transpose_add},
      {"tiny_chain", tiny_chain},
      {"branches", branches},
      {"mlp", mlp},
      {"gemm_gelu_bf16", gemm_gelu_bf16},
      {"resnet_block", resnet_block},
      {"jacobi", jacobi},
  };
  return all;
}

}  // namespace ladder
