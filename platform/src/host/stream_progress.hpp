// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace ferry {

/// Counts the queued operations of one stream that have run. Outlives the stream in the events
/// that were recorded on it. Thread-safe.
class stream_progress {
public:
  [[nodiscard]] bool reached(std::uint64_t count) const noexcept { return done_.load() >= count; }

  /// Sleeps until `count` operations have run.
  void await(std::uint64_t count) const;

  void advance();

private:
  mutable std::mutex mutex_;
  mutable std::condition_variable moved_;
  std::atomic<std::uint64_t> done_ = 0;
};

/// One version of an event: the place on a stream where it was recorded. Reached from the start if
/// there is no stream.
struct record_point {
  std::shared_ptr<const stream_progress> stream;
  std::uint64_t count = 0;

  [[nodiscard]] bool reached() const noexcept { return !stream || stream->reached(count); }
  void await() const;
};

} // namespace ferry
