// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <vector>

namespace ferry::bench {

/// A ring of streamed blocks; times in seconds.
struct ring_shape {
  std::vector<double> transfer; ///< Of each block over the link.
  std::vector<double> compute;  ///< Of each block.
  std::size_t slots = 2;
};

/// Returns the least time of the last of `steps` passes. If all blocks are alike that is the larger
/// of the two sums; otherwise what the ring recurrence gives, in which a fetch starts as soon as
/// the link and its slot are free and a block as soon as it is there:
///
///     start(k) = max(end of fetch k-1, done(k - slots));  ready(k) = start(k) + transfer(k)
///     begin(k) = max(done(k - 1), ready(k));              done(k) = begin(k) + compute(k)
[[nodiscard]] double lower_bound(const ring_shape& shape, int steps);

} // namespace ferry::bench
