// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace ferry {

/// Says what is wrong with the text of an option that takes a whole number; empty where nothing
/// is. The parser of the command line alone would cut a number that is too large.
[[nodiscard]] std::string check_integer(const std::string& text);

/// The same for one from 0 to 2^64-1.
[[nodiscard]] std::string check_seed(const std::string& text);

} // namespace ferry
