// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ring_bound.hpp"

#include <algorithm>
#include <numeric>

namespace ferry::bench {

namespace {

bool all_alike(const std::vector<double>& values) {
  return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
}

double recurrence(const ring_shape& shape, int steps) {
  const auto blocks = shape.transfer.size();
  std::vector<double> done;
  double link_free = 0;
  for (std::size_t k = 0; k < blocks * static_cast<std::size_t>(steps); ++k) {
    const double slot_free = k < shape.slots ? 0 : done[k - shape.slots];
    link_free = std::max(link_free, slot_free) + shape.transfer[k % blocks];
    const double previous = done.empty() ? 0 : done.back();
    done.push_back(std::max(previous, link_free) + shape.compute[k % blocks]);
  }
  return done.back() - done[done.size() - 1 - blocks];
}

} // namespace

double lower_bound(const ring_shape& shape, int steps) {
  if (!all_alike(shape.transfer) || !all_alike(shape.compute))
    return recurrence(shape, steps);
  return std::max(std::accumulate(shape.transfer.begin(), shape.transfer.end(), 0.0),
                  std::accumulate(shape.compute.begin(), shape.compute.end(), 0.0));
}

} // namespace ferry::bench
