// The main job: a photograph in, a picture out. One traced function turns the bytes into numbers, runs a
// layer of 16 filters over them, and lays out three things: the photograph, an ink-and-wash drawing of it
// (smoothed and flattened colours under lines found by four of the filters), and a contact sheet of all 16
// responses. What the library did is printed, and written as JSON with --report.
#include <reprise/reprise.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "image_io.h"

using reprise::array;

namespace {

// Weights and colours are data: a trace takes them as arguments, so other ones need no other program.
struct darkroom {
  reprise::conv2d_layer filters;    // RGB to 16 responses
  reprise::conv2d_layer finish;     // RGB to RGB, each channel by itself
  array<float> down, across;        // a wide blur of columns and of rows, as matrices
  array<float> paper, ink, accent;  // colours
};

using kernel3 = std::array<float, 9>;
constexpr kernel3 blur{1 / 16.f, 2 / 16.f, 1 / 16.f, 2 / 16.f, 4 / 16.f,
                       2 / 16.f, 1 / 16.f, 2 / 16.f, 1 / 16.f};
constexpr kernel3 sharpen{0, -1, 0, -1, 5, -1, 0, -1, 0};
constexpr kernel3 sobel_x{-1, 0, 1, -2, 0, 2, -1, 0, 1};
constexpr kernel3 sobel_y{-1, -2, -1, 0, 0, 0, 1, 2, 1};
constexpr kernel3 laplace{-1, -1, -1, -1, 8, -1, -1, -1, -1};
constexpr kernel3 emboss{-2, -1, 0, -1, 1, 1, 0, 1, 2};
constexpr kernel3 point{0, 0, 0, 0, 1, 0, 0, 0, 0};

// One of the 16: a 3x3 kernel, how much of it each colour gets, and a bias.
struct filter {
  kernel3 kernel;
  float red, green, blue, bias = 0;
};

// relu keeps what is positive, so an edge takes two filters: from dark to light, and from light to dark.
constexpr std::array<filter, 16> bank{{
    {blur, 1, 0, 0},
    {blur, 0, 1, 0},
    {blur, 0, 0, 1},
    {sharpen, .30f, .59f, .11f},
    {sobel_x, .30f, .59f, .11f},
    {sobel_x, -.30f, -.59f, -.11f},
    {sobel_y, .30f, .59f, .11f},
    {sobel_y, -.30f, -.59f, -.11f},
    {laplace, .30f, .59f, .11f},
    {laplace, -.30f, -.59f, -.11f},
    {emboss, .30f, .59f, .11f},
    {emboss, -.30f, -.59f, -.11f, 1.f},
    {blur, 1, -.7f, -.3f},     // warm against cold
    {blur, -.8f, .3f, .9f},    // cold against warm
    {sobel_x, 1, -.5f, -.5f},  // edges between colours of one brightness
    {point, -.30f, -.59f, -.11f, 1.f},
}};

// Row i holds what each of n pixels in a line gives to pixel i: a Gaussian that sums up to 1, also at the
// ends.
array<float> wide_blur(std::int64_t n) {
  double const sigma = 12;
  std::vector<float> matrix;
  for (std::int64_t i = 0; i < n; ++i) {
    auto const weight = [&](std::int64_t j) {
      return std::exp(-double((i - j) * (i - j)) / (2 * sigma * sigma));
    };
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += weight(j);
    for (std::int64_t j = 0; j < n; ++j) matrix.push_back(static_cast<float>(weight(j) / sum));
  }
  return {matrix, {n, n}};
}

darkroom equip(std::int64_t height, std::int64_t width) {
  std::vector<float> weight, bias, finish;
  for (filter const& f : bank) {
    for (float const share : {f.red, f.green, f.blue})
      for (float const k : f.kernel) weight.push_back(share * k);
    bias.push_back(f.bias);
  }
  for (int channel = 0; channel < 3; ++channel)  // half the picture, half its sharpened self
    for (std::size_t i = 0; i < 9; ++i) finish.push_back((point[i] + sharpen[i]) / 2);
  return {
      .filters = {.in = 3,
                  .out = 16,
                  .padding = {1, 1},
                  .activation = reprise::activation::relu,
                  .weight = {weight, {16, 3, 3, 3}},
                  .bias = {bias, {16}}},
      .finish = {.in = 3,
                 .out = 3,
                 .padding = {1, 1},
                 .groups = 3,
                 .weight = {finish, {3, 1, 3, 3}},
                 .bias = reprise::zeros<float>({3})},
      .down = wide_blur(height),
      .across = transpose(wide_blur(width)),
      .paper = {.98, .95, .88},
      .ink = {.07, .09, .16},
      .accent = {.91, .45, .22},
  };
}

// (height, width, 3) bytes in, (3 * height, 2 * width, 3) bytes out; height and width are even.
array<std::uint8_t> develop(darkroom const& room, array<std::uint8_t> const& photo) {
  using reprise::concatenate, reprise::keepdims;
  auto const height = photo.shape()[0], width = photo.shape()[1];
  auto const colours = cast<float>(photo) / 255.f;
  auto const seen = room.filters(expand_dims(transpose(colours, {2, 0, 1}), 0));  // 1, 16, height, width

  // The wash: smoothed colours that stand out from what is around them, drawn a little apart and towards
  // seven levels.
  auto const smooth = seen({}, {0, 3});
  auto const around = matmul(matmul(room.down, smooth), room.across);
  auto const clear = smooth + 0.3f * (smooth - around);
  auto const gray = mean(clear, {1}, keepdims);
  auto const vivid = clip(gray + (clear - gray) * 1.15f, 0, 1);
  auto const wash = 0.5f * (vivid + round(vivid * 6) / 6);

  // The ink: how steep the brightness is, measured against the picture's own mean, so that it suits any
  // exposure.
  auto const dx = seen({}, {4, 5}) - seen({}, {5, 6}), dy = seen({}, {6, 7}) - seen({}, {7, 8});
  auto const steep = sqrt(dx * dx + dy * dy);
  auto const line = clip((steep / (mean(steep) + 1e-6f) - 1.5f) * 0.25f, 0, 1);
  auto const drawn = wash * (1 - line) + reshape(room.ink, {1, 3, 1, 1}) * line;
  auto const drawing = transpose(room.finish(drawn)(0), {1, 2, 0});

  // The sheet: 16 responses at half size, each as bright as it gets, from ink over the accent to paper.
  auto const small = avg_pool2d(seen)(0);
  auto const bright = sqrt(small / (max(small, {1, 2}, keepdims) + 1e-6f));
  auto const tiles = transpose(reshape(bright, {4, 4, height / 2, width / 2}), {0, 2, 1, 3});
  auto const t = reshape(tiles, {2 * height, 2 * width, 1});
  auto const sheet = where(t < 0.5f, room.ink + (room.accent - room.ink) * (2 * t),
                           room.accent + (room.paper - room.accent) * (2 * t - 1));

  auto const page = concatenate({concatenate({colours, drawing}, 1), sheet}, 0);
  return cast<std::uint8_t>(round(clip(page, 0, 1) * 255));
}

double milliseconds_of(auto&& work) {
  auto const start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void say(char const* what, double ms, reprise::report const& r) {
  std::cout << what << ms << " ms: " << (r.recorded ? "recorded, " : "")
            << (r.kernels_compiled ? std::to_string(r.kernels_compiled) + " kernels compiled, " : "")
            << (r.disk_hits ? "loaded from the disk cache, " : "") << (r.replayed ? "replayed, " : "")
            << r.kernel_launches << " kernels and " << r.library_calls << " library calls run, "
            << r.bytes_to_device << " bytes to the device, " << r.bytes_to_host << " back\n";
  for (auto const& reason : r.reasons) std::cout << "  " << reason.what << ": " << reason.why << '\n';
}

void write_report(cuda::context const& ctx, reprise::report const& last, std::string const& file) {
  std::ofstream out(file);
  out << "{\"report\": " << last.json() << ",\n \"totals\": " << ctx.totals().json() << "}\n";
  out.close();
  if (!out) throw std::runtime_error(file + ": cannot be written");
}

void run(std::string const& input, std::string const& output, std::string const& report_file, int repeat) {
  auto const photo = image::read_rgb(input);
  cuda::context const ctx;
  cuda::require_device const only(ctx, ctx.device());

  array<std::uint8_t> const all(photo.pixels, {photo.height, photo.width, 3});
  auto const pixels = all({0, photo.height / 2 * 2}, {0, photo.width / 2 * 2});  // tiles are of half the size
  auto const room = equip(pixels.shape()[0], pixels.shape()[1]);
  auto traced = cuda::trace(develop);

  array<std::uint8_t> picture;
  auto once = [&] {
    picture = traced(room, pixels);
    ctx.wait();
  };
  std::cout << input << ": " << photo.width << " x " << photo.height << ", on " << ctx.description() << '\n';
  double const first = milliseconds_of(once);
  say("first call ", first, ctx.report());
  auto const developed = picture;

  std::vector<double> replays;
  for (int i = 0; i < repeat; ++i) replays.push_back(milliseconds_of(once));
  std::ranges::nth_element(replays, replays.begin() + repeat / 2);
  auto const last = ctx.report();
  say(repeat == 1 ? "replay " : ("median of " + std::to_string(repeat) + " replays ").c_str(),
      replays[repeat / 2], last);
  if (last.recorded != 0 || last.replayed != 1) throw std::runtime_error("the last call was not a replay");
  if (!ctx.holds(picture)) throw std::runtime_error("the picture is not in this context's memory");
  if (!array_equal(picture, developed)) throw std::runtime_error("a replay gave another picture");

  image::write_rgb(output, picture.shape()[0], picture.shape()[1], picture.to_vector());
  std::cout << output << ": " << picture.shape()[1] << " x " << picture.shape()[0] << '\n';
  if (!report_file.empty()) {
    ctx.flush();
    write_report(ctx, last, report_file);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Develops a photograph: the picture, an ink-and-wash drawing of it, and what 16 filters see in it."};
  std::string input, output, report;
  int repeat = 20;
  app.add_option("input", input, "a PNG file, 8-bit RGB")->required();
  app.add_option("output", output, "the PNG file to write")->required();
  app.add_option("--report", report, "write what was done as JSON to this file");
  app.add_option("--repeat", repeat, "how many replays after the first call")->check(CLI::Range(1, 100000));
  CLI11_PARSE(app, argc, argv);
  try {
    run(input, output, report, repeat);
    return 0;
  } catch (std::exception const& e) {
    std::cerr << "photo: " << e.what() << '\n';
    return 1;
  }
}
