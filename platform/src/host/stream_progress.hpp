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
#include <vector>

namespace ferry {

/// Counts the queued operations of one stream and those of them that have run, and keeps what
/// failed among them. Outlives the stream in the events that were recorded on it. Thread-safe.
class stream_progress {
public:
  [[nodiscard]] bool reached(std::uint64_t count) const noexcept { return done_.load() >= count; }

  /// Sleeps until `count` operations have run.
  void await(std::uint64_t count) const;

  /// Counts one more that is queued.
  void enqueue() noexcept { ++enqueued_; }
  [[nodiscard]] std::uint64_t enqueued() const noexcept { return enqueued_; }

  void advance();

  /// Says that the operation that runs now has failed. Those behind it have failed with it, until
  /// somebody passes over that.
  void fail(failure cause);

  /// If one of the first `count` operations has failed, lets those be all right again that are
  /// queued from now on. What is queued already stays failed: it may have moved nothing. @pre the
  /// first `count` have run
  void pass_over(std::uint64_t count);

  /// Returns whether operations behind the first `count` are all right again.
  [[nodiscard]] bool passed_over(std::uint64_t count) const;

  /// Returns why the operation that runs now has failed already, if so.
  [[nodiscard]] std::optional<failure> failed() const;

  /// Returns the failure that the first `count` operations end with, if so. @pre they have run
  [[nodiscard]] std::optional<failure> failed(std::uint64_t count) const;

private:
  struct stretch {
    failure cause;
    std::uint64_t from;  ///< Operations that had run before the one that failed.
    std::uint64_t until; ///< Those that had been queued when it was passed over.
  };

  mutable std::mutex mutex_;
  mutable std::condition_variable moved_;
  std::atomic<std::uint64_t> enqueued_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  std::vector<stretch> failures_; ///< In order.
};

/// One version of an event: the place on a stream where it was recorded. Reached from the start if
/// there is no stream.
struct record_point {
  std::shared_ptr<stream_progress> stream;
  std::uint64_t count = 0;

  [[nodiscard]] bool reached() const noexcept { return !stream || stream->reached(count); }
  void await() const;
  /// Returns what failed before it, if anything. @pre it is reached
  [[nodiscard]] std::optional<failure> failed() const;
  /// Sleeps until it is reached, and passes over what failed before it.
  void drain() const;
};

} // namespace ferry
