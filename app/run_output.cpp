// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_output.hpp"

#include <ferry/offload/safetensors_writer.hpp>

#include "png_file.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ferry {

namespace {

constexpr const char* latents_name = "latents.safetensors";

/// `frame-007`
std::string padded(std::string name, std::uint64_t index) {
  constexpr std::size_t digits = 3;
  const auto number = std::to_string(index);
  return name.append(digits - std::min(digits, number.size()), '0').append(number);
}

void write_latents(const std::filesystem::path& path, const at::Tensor& latents) {
  safetensors_writer writer(
      path, {{.name = "latents", .type = dtype::f32, .shape = latents.sizes().vec()}}, {});
  writer.append(bytes_of(latents));
  writer.finish();
}

void write_pictures(const std::filesystem::path& directory, const at::Tensor& pictures) {
  const auto count = pictures.size(0);
  const auto height = static_cast<std::uint32_t>(pictures.size(2));
  const auto width = static_cast<std::uint32_t>(pictures.size(3));
  const std::span values(pictures.const_data_ptr<float>(),
                         static_cast<std::size_t>(pictures.numel()));
  const auto each = std::size_t{3} * height * width;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto name =
        count == 1 ? "picture.png" : padded("frame-", static_cast<std::uint64_t>(i)) + ".png";
    const auto planes = values.subspan(static_cast<std::size_t>(i) * each, each);
    write_png(directory / name, to_rgb(name, planes, width, height));
  }
}

} // namespace

generated contiguous(generated made) {
  made.latents = made.latents.contiguous();
  if (made.pictures.defined())
    made.pictures = made.pictures.contiguous();
  return made;
}

const_bytes bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

std::filesystem::path request_directory(const std::filesystem::path& directory, std::size_t index) {
  return directory / padded("request-", index);
}

bool is_output_name(const std::filesystem::path& name) {
  return name == latents_name || name.extension() == ".png";
}

void write_output(const std::filesystem::path& directory, const generated& made) {
  std::filesystem::create_directories(directory);
  write_latents(directory / latents_name, made.latents);
  if (made.pictures.defined())
    write_pictures(directory, made.pictures);
}

} // namespace ferry
