// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace ferry {

struct picture_size {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

// `name` is what a refusal calls the text. All fail with `invalid_argument`.

/// Reads `832x480`. Whether a model can draw it is not looked at.
[[nodiscard]] result<picture_size> read_size(std::string_view name, std::string_view text);

/// Reads decimal integers between commas, at least one.
[[nodiscard]] result<std::vector<std::int64_t>> read_ids(std::string_view name,
                                                         std::string_view text);

} // namespace ferry
