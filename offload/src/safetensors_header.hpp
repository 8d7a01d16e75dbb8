// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// What the header of a safetensors file says about a tensor, each field well-formed by itself.
struct header_entry {
  std::string name;
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0; ///< From the start of the data.
  std::uint64_t end = 0;
};

struct safetensors_header {
  std::vector<header_entry> entries; ///< In file order, names unique.
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Reads the JSON of a header into `header`. Its memory stays in proportion to `text`, and its
/// stack does not depend on it.
/// @return nothing, or what is wrong
[[nodiscard]] std::optional<std::string> parse_safetensors_header(std::string_view text,
                                                                  safetensors_header& header);

} // namespace ferry
