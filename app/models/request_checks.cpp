// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/request_checks.hpp"

#include <limits>

namespace ferry {

request_problem check_range(std::string_view field, std::int64_t value, std::int64_t least,
                            std::int64_t most) {
  if (value < least || value > most) {
    return says(field, value,
                "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return std::nullopt;
}

request_problem check_multiple(std::string_view field, std::int64_t value, std::int64_t unit,
                               std::int64_t most_units) {
  if (value < unit || value % unit != 0 || value / unit > most_units) {
    return says(field, value,
                "a multiple of " + std::to_string(unit) + " from " + std::to_string(unit) + " to " +
                    std::to_string(unit * most_units));
  }
  return std::nullopt;
}

request_problem check_ids(const std::string& name, const std::vector<std::int64_t>& ids,
                          std::int64_t vocabulary, std::int64_t most_ids) {
  const auto length = static_cast<std::int64_t>(ids.size());
  if (auto found = check_range("the number of " + name + "_ids", length, 1, most_ids)) {
    return found;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (auto found =
            check_range(name + "_ids[" + std::to_string(i) + "]", ids[i], 0, vocabulary - 1)) {
      return found;
    }
  }
  return std::nullopt;
}

request_problem check_schedule(const request& asked) {
  if (auto found = check_range("steps", asked.steps, 1, max_steps)) {
    return found;
  }
  constexpr auto most = std::numeric_limits<float>::max();
  if (!(asked.guidance >= 0 && asked.guidance <= most)) {
    return says("guidance", asked.guidance, "a number from 0 to 3.40282e+38, the largest float");
  }
  return std::nullopt;
}

} // namespace ferry
