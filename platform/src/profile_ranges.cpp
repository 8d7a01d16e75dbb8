// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/profile_ranges.hpp"

namespace ferry {

profile_scope::profile_scope(profile_ranges* ranges, const char* what, const std::string& whose)
    : ranges_(ranges) {
  if (ranges_ != nullptr)
    ranges_->push(what + (" " + whose));
}

profile_scope::~profile_scope() {
  if (ranges_ != nullptr)
    ranges_->pop();
}

} // namespace ferry
