// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/warning_memory.hpp"

#include <algorithm>
#include <iterator>

namespace ferry {

std::vector<std::string> warning_memory::news(const std::vector<std::string>& warnings) {
  std::vector<std::string> fresh;
  std::ranges::copy_if(warnings, std::back_inserter(fresh),
                       [this](const std::string& each) { return told_.insert(each).second; });
  return fresh;
}

} // namespace ferry
