// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/allocator_cache.hpp>
#include <ferry/offload/learned_budget.hpp>

#include <memory>

namespace ferry {

/// When freed device memory is given back. Fractions of the device's memory, from 0 to 1.
struct cache_bounds {
  double max_cached_fraction = 0.25; ///< More than this held for later.
  double min_free_fraction = 0.05;   ///< Less than this free.
};

/// Decides when an allocator gives the device back what it holds for later. Asked whenever
/// components are staged; how an executor cleans up at its end is not its business. Not
/// thread-safe.
class bounded_allocator_cache {
public:
  /// With a `learned` budget, that bounds what is held as well, below `max_cached_fraction`; null:
  /// none is learned.
  /// @throws ferry_error `invalid_argument` for a fraction below 0 or above 1
  bounded_allocator_cache(allocator_cache& cache, cache_bounds bounds,
                          std::shared_ptr<learned_budget> learned);

  /// Releases the cache if `force` is set, a bound is exceeded, or the allocator does not say.
  /// Returns whether it did. Then lets the budget learn.
  /// @throws ferry_error what the release throws
  bool release_if_needed(bool force);

private:
  [[nodiscard]] bool exceeded(const cache_telemetry& now) const;

  allocator_cache* cache_;
  cache_bounds bounds_;
  std::shared_ptr<learned_budget> learned_;
};

} // namespace ferry
