// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <string>

namespace ferry {

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal.
[[nodiscard]] std::string sha256(const_bytes bytes);

} // namespace ferry
