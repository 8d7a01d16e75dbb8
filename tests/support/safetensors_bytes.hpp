// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

namespace ferry::test {

/// Returns the length of a header as the first 8 bytes of a file state it.
[[nodiscard]] std::string header_length(std::size_t bytes);

/// Returns a safetensors file with this header and so many bytes of data, sound or not.
[[nodiscard]] std::string safetensors_bytes(std::string_view header, std::size_t data_bytes);

} // namespace ferry::test
