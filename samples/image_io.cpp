// libpng's simplified interface: it reports errors in a struct, so no longjmp crosses C++ frames.
#include "image_io.h"

#include <png.h>

#include <limits>
#include <stdexcept>
#include <utility>

namespace image {
namespace {

[[noreturn]] void fail(std::string const& file, std::string const& reason) {
  throw std::runtime_error(file + ": " + reason);
}

// Frees what libpng holds on every way out.
struct png {
  png_image header{};

  png() { header.version = PNG_IMAGE_VERSION; }
  png(png const&) = delete;
  png& operator=(png const&) = delete;
  ~png() { png_image_free(&header); }
};

void write(std::string const& file, std::int64_t height, std::int64_t width, std::int64_t channels,
           std::span<std::uint8_t const> pixels) {
  constexpr std::int64_t most =
      std::numeric_limits<std::int32_t>::max() / 4;  // a row's bytes fit libpng's int
  if (height < 1 || width < 1 || height > most || width > most) {
    fail(file, "cannot write an image of " + std::to_string(height) + " x " + std::to_string(width));
  }
  if (std::cmp_not_equal(pixels.size(), height * width * channels)) {
    fail(file, "an image of " + std::to_string(height) + " x " + std::to_string(width) + " x " +
                   std::to_string(channels) + " does not have " + std::to_string(pixels.size()) +
                   " elements");
  }
  png out;
  out.header.height = static_cast<png_uint_32>(height);
  out.header.width = static_cast<png_uint_32>(width);
  out.header.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  if (!png_image_write_to_file(&out.header, file.c_str(), 0, pixels.data(), 0, nullptr)) {
    fail(file, out.header.message);
  }
}

}  // namespace

rgb read_rgb(std::string const& file) {
  png in;
  if (!png_image_begin_read_from_file(&in.header, file.c_str())) fail(file, in.header.message);
  if (in.header.format != PNG_FORMAT_RGB) fail(file, "not an 8-bit RGB picture");
  rgb result{.height = in.header.height, .width = in.header.width, .pixels = {}};
  result.pixels.resize(PNG_IMAGE_SIZE(in.header));
  if (!png_image_finish_read(&in.header, nullptr, result.pixels.data(), 0, nullptr))
    fail(file, in.header.message);
  return result;
}

void write_rgb(std::string const& file, std::int64_t height, std::int64_t width,
               std::span<std::uint8_t const> pixels) {
  write(file, height, width, 3, pixels);
}

void write_gray(std::string const& file, std::int64_t height, std::int64_t width,
                std::span<std::uint8_t const> pixels) {
  write(file, height, width, 1, pixels);
}

}  // namespace image
