// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/cuda_device.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ferry {

cuda_device::cuda_device() = default;

cuda_device::~cuda_device() {
  FERRY_ASSERT(guests_.empty());
}

// One that stands in for a GPU captures nothing.
void cuda_device::require_open(stream_id) const {}

void cuda_device::keep(std::unique_ptr<cuda_guest> guest) {
  std::vector<std::unique_ptr<cuda_guest>> gone; // Destroyed after the lock is released.
  const auto lock = std::scoped_lock(guests_mutex_);
  const auto left = std::ranges::partition(guests_, [](const auto& each) { return !each->gone(); });
  std::ranges::move(left, std::back_inserter(gone));
  guests_.erase(left.begin(), guests_.end());
  guests_.push_back(std::move(guest));
}

void cuda_device::dismiss_guests() noexcept {
  std::vector<std::unique_ptr<cuda_guest>> all;
  {
    const auto lock = std::scoped_lock(guests_mutex_);
    all.swap(guests_);
  }
}

void cuda_device::abandon_guests() noexcept {
  for (auto& each : guests_)
    static_cast<void>(each.release());
  guests_.clear();
}

} // namespace ferry
