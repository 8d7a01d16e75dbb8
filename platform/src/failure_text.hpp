// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/error.hpp"

#include <string>
#include <string_view>

namespace ferry {

/// Writes a failure so that another process of the same version can read it back.
[[nodiscard]] std::string to_text(const failure& cause);

/// Reads a failure back. What is not one becomes an `internal` failure that quotes it.
[[nodiscard]] failure read_failure(std::string_view text);

} // namespace ferry
