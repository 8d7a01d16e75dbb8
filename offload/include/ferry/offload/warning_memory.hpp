// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <set>
#include <string>
#include <vector>

namespace ferry {

/// Remembers which warnings were passed on, so that an engine says each of them once however often
/// it resolves. Used by one thread at a time.
class warning_memory {
public:
  /// Returns those of `warnings` that no earlier call returned, in order.
  [[nodiscard]] std::vector<std::string> news(const std::vector<std::string>& warnings);

private:
  std::set<std::string> told_;
};

} // namespace ferry
