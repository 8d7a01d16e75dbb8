// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ferry {

// Each says what is wrong with the text of an option; empty where nothing is.

/// A device by its name. Which there are, opening it says.
[[nodiscard]] std::string check_device_name(const std::string& text);

// Whole numbers: the parser of the command line alone would cut one that is too large.

[[nodiscard]] std::string check_integer(const std::string& text);

/// From 0 to 2^64-1.
[[nodiscard]] std::string check_seed(const std::string& text);

[[nodiscard]] std::function<std::string(const std::string&)> integer_between(std::int64_t least,
                                                                             std::int64_t most);

} // namespace ferry
