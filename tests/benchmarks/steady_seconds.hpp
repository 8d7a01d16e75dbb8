// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstddef>
#include <functional>

namespace ferry::bench {

/// Returns the seconds that `passes` passes over all blocks take in the middle of a run, on the
/// device's clock. `run` runs one pass more in one go, and returns once it has ended.
///
/// They count from the end of the last block of the first pass to that of the last pass. What a
/// ring has fetched ahead before they begin is as much as what nobody waits for when they end.
[[nodiscard]] double steady_seconds(device& on, std::size_t blocks, std::size_t passes,
                                    const std::function<void(std::size_t passes)>& run);

} // namespace ferry::bench
