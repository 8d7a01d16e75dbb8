// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/learned_budget.hpp"

#include <ferry/platform/error.hpp>

#include <algorithm>

namespace ferry {

void learned_budget::attach() noexcept {
  ++attached_;
}

void learned_budget::detach() noexcept {
  FERRY_ASSERT(attached_ != 0);
  if (--attached_ != 0)
    return;
  peak_ = 0;
  learned_ = 0;
}

void learned_budget::staged(std::uint64_t bytes) noexcept {
  staged_ += bytes;
  peak_ = std::max(peak_, staged_);
}

void learned_budget::unstaged(std::uint64_t bytes) noexcept {
  FERRY_ASSERT(bytes <= staged_);
  staged_ -= bytes;
}

std::uint64_t learned_budget::budget(std::uint64_t most) const noexcept {
  return std::min(learned_ + learned_ / 4, most);
}

void learned_budget::learn() noexcept {
  learned_ = peak_;
}

} // namespace ferry
