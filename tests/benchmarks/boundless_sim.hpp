// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/sim_options.hpp>

#include <cstddef>

namespace ferry::bench {

/// A simulated device with memory for any model, for times only: it keeps no bytes. `link` is in
/// bytes a second.
[[nodiscard]] inline sim_options boundless_sim(double link) {
  sim_options options;
  options.h2d_bandwidth = link;
  options.contents = false;
  options.memory = std::size_t{1} << 40;
  options.pinned = std::size_t{1} << 40;
  return options;
}

} // namespace ferry::bench
