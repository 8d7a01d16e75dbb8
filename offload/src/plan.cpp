// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/plan.hpp"

#include <algorithm>

namespace ferry {

std::size_t block_stack::residents() const noexcept {
  return static_cast<std::size_t>(std::ranges::count(blocks, true, &stack_block::resident));
}

} // namespace ferry
