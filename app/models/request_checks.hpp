// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/request.hpp"

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace ferry {

// What the checks of all families are made of.

/// What is wrong with a field; nothing if it is right.
using request_problem = std::optional<std::string>;

/// Returns "FIELD is VALUE; expected EXPECTED".
template <class Value>
[[nodiscard]] std::string says(std::string_view field, const Value& value,
                               std::string_view expected) {
  std::ostringstream out;
  out << field << " is " << value << "; expected " << expected;
  return out.str();
}

[[nodiscard]] request_problem check_range(std::string_view field, std::int64_t value,
                                          std::int64_t least, std::int64_t most);

/// Checks for a multiple of `unit` from one to `most_units` of it.
[[nodiscard]] request_problem check_multiple(std::string_view field, std::int64_t value,
                                             std::int64_t unit, std::int64_t most_units);

/// Checks the number of ids, from one to `most_ids`, and each of them.
/// @param name as the command line has it: "prompt"
[[nodiscard]] request_problem check_ids(const std::string& name,
                                        const std::vector<std::int64_t>& ids,
                                        std::int64_t vocabulary, std::int64_t most_ids);

/// Checks what every family reads: steps and guidance.
[[nodiscard]] request_problem check_schedule(const request& asked);

} // namespace ferry
