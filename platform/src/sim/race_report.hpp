// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/race.hpp"
#include "sim/blocks.hpp"
#include "sim/clock.hpp"
#include "sim/shadow.hpp"

#include <cstdint>

namespace ferry::sim {

/// Says in words that `second`, made by somebody who knows `known`, conflicts with the earlier
/// access `found`, and what would order them.
[[nodiscard]] race make_race(const conflict& found, const access_record& second,
                             const vector_clock& known, const block_table& blocks,
                             std::uint64_t seed);

} // namespace ferry::sim
