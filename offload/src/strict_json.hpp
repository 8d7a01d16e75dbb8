// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ferry {

/// Parses JSON from outside. Refuses what the standard leaves open and an attacker may use:
/// repeated keys, and nesting deeper than `max_depth`. Every refusal is `invalid_config` about
/// `subject`.
[[nodiscard]] result<nlohmann::json> parse_strict(std::string_view text, std::string_view subject,
                                                  int max_depth);

/// Returns `value` as messages print it: one line of ASCII, shortened.
[[nodiscard]] std::string shown(const nlohmann::json& value);

/// Returns `"subject is value; expected expected"`.
[[nodiscard]] std::string unexpected_value(std::string_view subject, const nlohmann::json& value,
                                           std::string_view expected);

} // namespace ferry
