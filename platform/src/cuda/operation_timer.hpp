// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cuda/calls.hpp"
#include "ferry/platform/device.hpp"
#include "host/span_reporter.hpp"

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace ferry::cuda {

/// Measures operations by timed events around them, and tells the observers of those that have
/// ended. Without an observer it makes no call at all. Thread-safe.
///
/// Nothing is waited for: what has ended is found when the device is used next. The times of the
/// GPU are counted from an event whose time on the host's clock is known to some microseconds, and
/// then from later ones by the GPU's own clock: the two drift apart while somebody observes, and
/// spans of a GPU with them against times of the host. Lengths, and the order on a stream, do not.
class operation_timer {
public:
  operation_timer(const calls& through, sticky_fault& fault);
  operation_timer(const operation_timer&) = delete;
  operation_timer& operator=(const operation_timer&) = delete;
  ~operation_timer();

  [[nodiscard]] nanoseconds now() const { return reporter_.now(); }

  /// @throws device_error; then it is not attached
  void attach(operation_observer& observer);
  /// Tells of what has ended first. What has not is not told to the last one that leaves.
  void detach(operation_observer& observer) noexcept;

  void announce(stream_id stream, std::string_view name) { reporter_.report(stream, name); }

  /// Calls `enqueue`, between two timed events if there is an observer. Passes on what it throws.
  void time(stream_id stream, cudaStream_t native, operation_kind kind, operation_tag tag,
            std::uint64_t bytes, const std::function<void()>& enqueue);

  /// Begins a compute, which lasts until the next operation or record on its stream.
  void begin_compute(stream_id stream, cudaStream_t native, operation_tag tag);
  void end_compute(stream_id stream, cudaStream_t native);

  /// Forgets a stream, once what it has still to do has been told.
  void end_stream(stream_id stream, cudaStream_t native) noexcept;

  /// Tells of a point on the stream.
  void point(stream_id stream, cudaStream_t native, operation_kind kind, operation_tag tag);

  /// Tells of everything that has ended.
  void collect() noexcept;

private:
  struct timed {
    operation_span span;
    cudaEvent_t start;
    cudaEvent_t end; ///< `start` for a point.
  };
  struct track {
    std::optional<timed> computing;
    std::deque<timed> pending;
    nanoseconds last_end = nanoseconds::zero();
    bool gone = false; ///< The stream has been destroyed.
  };

  [[nodiscard]] bool watched() const noexcept { return watched_.load(std::memory_order_acquire); }
  [[nodiscard]] cudaEvent_t record(cudaStream_t native);
  [[nodiscard]] operation_span enqueued(stream_id stream, operation_kind kind, operation_tag tag,
                                        std::uint64_t bytes) const;
  void close_compute(track& on, cudaStream_t native);
  void tell_of_ended();
  void tell(track& on, timed done);
  [[nodiscard]] std::optional<nanoseconds> time_of(cudaEvent_t event) const noexcept;
  void release(cudaEvent_t event) noexcept;
  void open_clock();
  void close_clock() noexcept;

  const calls* call_;
  span_reporter reporter_;
  std::atomic<bool> watched_ = false;

  std::mutex mutex_;
  std::vector<const operation_observer*> observers_;
  std::unordered_map<stream_id, track> tracks_;
  std::vector<cudaEvent_t> spare_;
  cudaEvent_t origin_ = nullptr;
  nanoseconds origin_time_ = nanoseconds::zero();
};

} // namespace ferry::cuda
