// PNG files in and out of plain vectors, for the samples: 8 bits a channel, row-major, height x width x
// channels. Every failure is a std::runtime_error with the file's name and the reason.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace image {

struct rgb {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels;  // height x width x 3
};

// Refuses what is not 8-bit RGB (gray, palette, alpha, 16 bits) rather than converting it. The bytes are the
// file's own.
rgb read_rgb(std::string const& file);

// `pixels` has height x width x 3 elements, or height x width for gray. A file that was there is replaced.
void write_rgb(std::string const& file, std::int64_t height, std::int64_t width,
               std::span<std::uint8_t const> pixels);
void write_gray(std::string const& file, std::int64_t height, std::int64_t width,
                std::span<std::uint8_t const> pixels);

}  // namespace image
