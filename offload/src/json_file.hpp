// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <nlohmann/json_fwd.hpp>

#include <filesystem>

namespace ferry {

/// Reads a JSON object of a checkpoint from a regular file of at most 16 MiB, as strictly as
/// `parse_strict` does.
/// @return `invalid_checkpoint` with the path and what is wrong
[[nodiscard]] result<nlohmann::json> read_json_file(const std::filesystem::path& path);

} // namespace ferry
