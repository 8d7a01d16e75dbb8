// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include "models/diffusion_model.hpp"

#include <filesystem>

namespace ferry {

/// Returns the same values with their bytes in one piece.
[[nodiscard]] generated contiguous(generated made);

/// Returns the memory of a contiguous tensor.
[[nodiscard]] const_bytes bytes_of(const at::Tensor& contiguous);

/// Returns where the output of one of several requests goes: `directory/request-000` and so on.
[[nodiscard]] std::filesystem::path request_directory(const std::filesystem::path& directory,
                                                      std::size_t index);

/// Returns whether `write_output` may replace a file of that name.
[[nodiscard]] bool is_output_name(const std::filesystem::path& name);

/// Writes `latents.safetensors` into `directory`, which is made where it is missing, and the
/// pictures where there are some: `picture.png`, or `frame-000.png` and so on. Each file appears
/// complete or not at all; files of those names are replaced.
/// @pre `made` is contiguous
/// @throws ferry_error `io_failure`; `unsupported` if a picture has a value that is not a number
void write_output(const std::filesystem::path& directory, const generated& made);

} // namespace ferry
