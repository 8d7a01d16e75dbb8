// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config_legacy.hpp>
#include <ferry/platform/error.hpp>

#include <optional>
#include <string>

namespace ferry {

/// Reads what `--config` gives, JSON or `@` and the name of the file it is in, with the options
/// beside it. Logs what its user may want to know.
/// @return what is wrong with it; `invalid_config` with the path if the file cannot be read
[[nodiscard]] result<offload_config> read_config(const std::optional<std::string>& given,
                                                 const legacy_options& beside);

} // namespace ferry
