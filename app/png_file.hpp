// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace ferry {

/// A picture of 8 bits a colour.
struct rgb_picture {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> pixels; ///< Row by row from the top: red, green, blue.
};

/// Rounds a picture to 8 bits: -1 becomes 0 and 1 becomes 255; what lies beyond is cut off.
/// @param name of the picture, for the error
/// @param planes all red values row by row, then green, then blue
/// @pre `planes.size() == 3 * width * height`, all above 0
/// @throws ferry_error `unsupported` with the name and the place of a value that is not a number
[[nodiscard]] rgb_picture to_rgb(std::string_view name, std::span<const float> planes,
                                 std::uint32_t width, std::uint32_t height);

/// Writes a PNG file, replacing one of that name: whoever finds `path` finds it complete.
/// @throws ferry_error `io_failure` with the path and the reason; nothing is left then
void write_png(const std::filesystem::path& path, const rgb_picture& picture);

} // namespace ferry
