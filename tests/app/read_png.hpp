// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "png_file.hpp"

#include <filesystem>

namespace ferry::test {

/// Reads a PNG file of red, green and blue with libpng; fails the test where it cannot.
[[nodiscard]] rgb_picture read_png(const std::filesystem::path& path);

} // namespace ferry::test
