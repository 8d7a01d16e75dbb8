// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "read_png.hpp"

#include "support/catch.hpp"

#include <png.h>

namespace ferry::test {

rgb_picture read_png(const std::filesystem::path& path) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_file(&image, path.c_str()) != 0);
  CHECK(image.format == PNG_FORMAT_RGB);
  rgb_picture picture{.width = image.width, .height = image.height, .pixels = {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  REQUIRE(png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) != 0);
  return picture;
}

} // namespace ferry::test
