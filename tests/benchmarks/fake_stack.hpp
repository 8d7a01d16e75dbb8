// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include "support/fake_pipeline.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ferry::bench {

/// Sizes and bandwidths of real models divided by this take the times of the real ones.
inline constexpr std::size_t scale = 1024;

/// Returns `bytes` scaled, as slots align it.
[[nodiscard]] std::size_t scaled(double bytes);

/// A denoiser of which blocks may be resident, and what it takes on a simulated device.
struct fake_stack {
  std::vector<std::size_t> bytes; ///< Of each block, scaled.
  double link = 0;                ///< Bytes per second, scaled.
  nanoseconds compute{};          ///< Of each block.
};

[[nodiscard]] std::shared_ptr<test::fake_pipeline> pipeline_of(const fake_stack& stack);

/// Returns how long the last of `steps` steps takes under a compact configuration that streams at
/// least one block, in seconds.
/// @throws ferry_error also if the device saw a race
[[nodiscard]] double last_step(const fake_stack& stack, const std::string& compact,
                               std::size_t steps);

} // namespace ferry::bench
