// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/bounded_allocator_cache.hpp"

#include <string>
#include <utility>

namespace ferry {

namespace {

void require_fraction(const char* name, double value) {
  if (!(value >= 0.0 && value <= 1.0))
    throw ferry_error({errc::invalid_argument, std::string{name} + " is " + std::to_string(value) +
                                                   "; expected a fraction from 0 to 1"});
}

std::uint64_t part_of(std::uint64_t total, double fraction) noexcept {
  return static_cast<std::uint64_t>(static_cast<double>(total) * fraction);
}

} // namespace

bounded_allocator_cache::bounded_allocator_cache(allocator_cache& cache, cache_bounds bounds,
                                                 std::shared_ptr<learned_budget> learned)
    : cache_(&cache), bounds_(bounds), learned_(std::move(learned)) {
  require_fraction("max_cached_fraction", bounds.max_cached_fraction);
  require_fraction("min_free_fraction", bounds.min_free_fraction);
}

bool bounded_allocator_cache::exceeded(const cache_telemetry& now) const {
  const auto most = part_of(now.total, bounds_.max_cached_fraction);
  return now.cached() > (learned_ ? learned_->budget(most) : most) ||
         now.free < part_of(now.total, bounds_.min_free_fraction);
}

bool bounded_allocator_cache::release_if_needed(bool force) {
  auto due = force;
  if (!due) {
    const auto now = cache_->telemetry();
    due = !now || exceeded(*now);
  }
  if (learned_)
    learned_->learn();
  if (due)
    cache_->release();
  return due;
}

} // namespace ferry
