// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/error.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace ferry {

/// Counts the queued operations of one stream that have run, and keeps the first failure among
/// them. Outlives the stream in the events that were recorded on it. Thread-safe.
class stream_progress {
public:
  [[nodiscard]] bool reached(std::uint64_t count) const noexcept { return done_.load() >= count; }

  /// Sleeps until `count` operations have run.
  void await(std::uint64_t count) const;

  void advance();

  /// Says that the operation that runs now has failed. The first counts.
  void fail(failure cause);

  /// Returns the failure so far, if there is one.
  [[nodiscard]] std::optional<failure> failed() const;

  /// Returns the failure among the first `count` operations, if there is one. @pre they have run
  [[nodiscard]] std::optional<failure> failed(std::uint64_t count) const;

private:
  mutable std::mutex mutex_;
  mutable std::condition_variable moved_;
  std::atomic<std::uint64_t> done_ = 0;
  std::optional<failure> failure_;
  std::uint64_t failed_at_ = 0; ///< Operations that had run before the one that failed.
};

/// One version of an event: the place on a stream where it was recorded. Reached from the start if
/// there is no stream.
struct record_point {
  std::shared_ptr<const stream_progress> stream;
  std::uint64_t count = 0;

  [[nodiscard]] bool reached() const noexcept { return !stream || stream->reached(count); }
  void await() const;
  /// Returns what failed before it, if anything. @pre it is reached
  [[nodiscard]] std::optional<failure> failed() const;
};

} // namespace ferry
