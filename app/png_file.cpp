// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "png_file.hpp"

#include <ferry/offload/rollback.hpp>
#include <ferry/platform/error.hpp>

#include <png.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace ferry {

namespace {

constexpr std::size_t colours = 3;

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::lround((std::clamp(value, -1.0F, 1.0F) + 1) * 127.5F));
}

[[noreturn]] void refuse_nan(std::string_view name, std::size_t index, std::uint32_t width,
                             std::uint32_t height) {
  constexpr std::array<std::string_view, colours> names{"red", "green", "blue"};
  const auto area = std::size_t{width} * height;
  throw ferry_error({.code = errc::unsupported,
                     .detail = std::string(names[index / area]) + " at column " +
                               std::to_string(index % width) + ", row " +
                               std::to_string(index % area / width) + " of " + std::string(name) +
                               " is not a number; expected one from -1 to 1"});
}

std::vector<char> encoded(const std::filesystem::path& path, const rgb_picture& picture) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = picture.width;
  image.height = picture.height;
  image.format = PNG_FORMAT_RGB;
  std::vector<char> bytes(PNG_IMAGE_PNG_SIZE_MAX(image));
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.pixels.data(), 0,
                                nullptr) == 0)
    throw ferry_error(
        {.code = errc::internal,
         .detail = "cannot encode '" + path.string() + "': " + std::string(image.message)});
  bytes.resize(size);
  return bytes;
}

} // namespace

rgb_picture to_rgb(std::string_view name, std::span<const float> planes, std::uint32_t width,
                   std::uint32_t height) {
  const auto area = std::size_t{width} * height;
  FERRY_ASSERT(area > 0 && planes.size() == colours * area);
  const auto odd = std::ranges::find_if(planes, [](float value) { return std::isnan(value); });
  if (odd != planes.end())
    refuse_nan(name, static_cast<std::size_t>(odd - planes.begin()), width, height);

  rgb_picture picture{.width = width, .height = height, .pixels = {}};
  picture.pixels.reserve(planes.size());
  for (std::size_t pixel = 0; pixel < area; ++pixel)
    for (std::size_t colour = 0; colour < colours; ++colour)
      picture.pixels.push_back(to_byte(planes[colour * area + pixel]));
  return picture;
}

void write_png(const std::filesystem::path& path, const rgb_picture& picture) {
  const auto bytes = encoded(path, picture);
  auto part = path;
  part += ".part";
  rollback steps;
  steps.on_failure([&] {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
  });
  std::ofstream file(part, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code unnamed;
  if (file)
    std::filesystem::rename(part, path, unnamed);
  if (!file || unnamed) {
    const auto reason = unnamed ? unnamed : std::error_code(errno, std::generic_category());
    throw ferry_error({.code = errc::io_failure,
                       .detail = "cannot write '" + path.string() + "': " + reason.message()});
  }
  steps.commit();
}

} // namespace ferry
