// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "steady_seconds.hpp"

#include "block_ends.hpp"

namespace ferry::bench {

double steady_seconds(device& on, std::size_t blocks, std::size_t passes,
                      const std::function<void(std::size_t passes)>& run) {
  block_ends ends;
  on.attach(ends);
  try {
    run(passes + 1);
  } catch (...) {
    on.detach(ends);
    throw;
  }
  on.detach(ends);
  return ends[(passes + 1) * blocks - 1] - ends[blocks - 1];
}

} // namespace ferry::bench
