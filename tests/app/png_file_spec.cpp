// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "png_file.hpp"

#include <ferry/platform/error.hpp>

#include "read_png.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Matchers::Contains;
using test::read_png;

/// Two columns, one row: the planes of red, green and blue.
rgb_picture two_pixels(std::vector<float> planes) {
  return to_rgb("p.png", planes, 2, 1);
}

rgb_picture gradient() {
  rgb_picture picture{.width = 5, .height = 3, .pixels = {}};
  for (int i = 0; i < 5 * 3 * 3; ++i)
    picture.pixels.push_back(static_cast<std::uint8_t>(5 * i));
  return picture;
}

std::string failure_of(const std::filesystem::path& path) {
  try {
    write_png(path, gradient());
  } catch (const ferry_error& error) {
    CHECK(error.reason().code == errc::io_failure);
    return error.reason().detail;
  }
  return {};
}

TEST_CASE("planes of colours become pixels", "[app][png_file]") {
  const auto picture = two_pixels({-1, 1, 0, -0.5F, 0.5F, 1});

  CHECK(picture.width == 2);
  CHECK(picture.height == 1);
  CHECK(picture.pixels == std::vector<std::uint8_t>{0, 128, 191, 255, 64, 255});
}

TEST_CASE("a colour is rounded to the nearest of 256", "[app][png_file]") {
  const float step = 2.0F / 255;

  const auto picture =
      two_pixels({-1 + 0.49F * step, -1 + 0.51F * step, 1 - 0.49F * step, 1 - 0.51F * step, 0, 0});

  CHECK(picture.pixels == std::vector<std::uint8_t>{0, 255, 128, 1, 254, 128});
}

TEST_CASE("a colour beyond its range is cut off", "[app][png_file]") {
  constexpr auto infinite = std::numeric_limits<float>::infinity();

  const auto picture = two_pixels({-1.5F, 1.5F, -infinite, infinite, -100, 100});

  CHECK(picture.pixels == std::vector<std::uint8_t>{0, 0, 0, 255, 255, 255});
}

TEST_CASE("a colour that is not a number is refused with its place", "[app][png_file]") {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> planes{0, 0, 0, 0, 0, 0, 0, nan, 0, 0, 0, 0};

  CHECK_THROWS_WITH(to_rgb("frame-007.png", planes, 2, 2),
                    Contains("green at column 1, row 1 of frame-007.png is not a number"));
}

TEST_CASE("a written picture is read back pixel by pixel", "[app][png_file]") {
  const test::scratch_directory scratch;
  const auto path = scratch.path() / "p.png";

  write_png(path, gradient());

  const auto read = read_png(path);
  CHECK(read.width == 5);
  CHECK(read.height == 3);
  CHECK(read.pixels == gradient().pixels);
}

TEST_CASE("a picture replaces one of its name and leaves nothing beside it", "[app][png_file]") {
  const test::scratch_directory scratch;
  const auto path = scratch.write("p.png", "something else");

  write_png(path, gradient());

  CHECK(read_png(path).pixels == gradient().pixels);
  CHECK(std::distance(std::filesystem::directory_iterator(scratch.path()), {}) == 1);
}

TEST_CASE("a picture that cannot be written is named with the reason", "[app][png_file]") {
  const test::scratch_directory scratch;
  const auto missing = scratch.path() / "missing" / "p.png";
  const auto taken = scratch.path() / "taken.png";
  std::filesystem::create_directories(taken / "inside");

  CHECK_THAT(failure_of(missing), Contains("cannot write '" + missing.string() + "': No such"));
  CHECK_THAT(failure_of(taken), Contains("cannot write '" + taken.string() + "': "));
  CHECK(std::distance(std::filesystem::directory_iterator(scratch.path()), {}) == 1);
}

} // namespace
} // namespace ferry
