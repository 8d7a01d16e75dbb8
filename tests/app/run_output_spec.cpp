// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_output.hpp"

#include <ferry/torch/mapped_tensor.hpp>

#include "read_png.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Matchers::Contains;

at::Tensor tensor(std::vector<float> values, const std::vector<std::int64_t>& shape) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  return tensor_over(owner, std::as_bytes(std::span(*owner)), dtype::f32, shape);
}

/// One picture a value: a single pixel of that grey.
at::Tensor greys(const std::vector<float>& values) {
  std::vector<float> planes;
  for (const auto value : values)
    planes.insert(planes.end(), 3, value);
  return tensor(planes, {static_cast<std::int64_t>(values.size()), 3, 1, 1});
}

generated made_of(const std::vector<float>& latents, const std::vector<float>& pictures) {
  return {.latents = tensor(latents, {static_cast<std::int64_t>(latents.size())}),
          .pictures = pictures.empty() ? at::Tensor() : greys(pictures)};
}

std::size_t files_in(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), {}));
}

TEST_CASE("frames are numbered in the order in which they are shown", "[app][run_output]") {
  const test::scratch_directory scratch;
  std::vector<float> greys(1002, -1);
  greys[7] = 1;
  greys[1001] = 1;

  write_output(scratch.path(), made_of({1}, greys));

  CHECK(files_in(scratch.path()) == 1003);
  CHECK(test::read_png(scratch.path() / "frame-007.png").pixels.front() == 255);
  CHECK(test::read_png(scratch.path() / "frame-008.png").pixels.front() == 0);
  CHECK(test::read_png(scratch.path() / "frame-1001.png").pixels.front() == 255);
}

TEST_CASE("without pictures only latents are written", "[app][run_output]") {
  const test::scratch_directory scratch;

  write_output(scratch.path() / "new", made_of({1, 2}, {}));

  CHECK(files_in(scratch.path() / "new") == 1);
  CHECK(std::filesystem::exists(scratch.path() / "new" / "latents.safetensors"));
}

TEST_CASE("a frame that is not a number is named", "[app][run_output]") {
  const test::scratch_directory scratch;
  const auto made = made_of({1}, {0, std::numeric_limits<float>::quiet_NaN()});

  CHECK_THROWS_WITH(write_output(scratch.path(), made),
                    Contains("red at column 0, row 0 of frame-001.png is not a number"));
  CHECK_FALSE(std::filesystem::exists(scratch.path() / "frame-001.png"));
}

} // namespace
} // namespace ferry
