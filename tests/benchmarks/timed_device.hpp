// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "support/null_device.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace ferry::bench {

/// Holds up a host thread of control, as a machine that is busy elsewhere does.
struct delay_plan {
  std::string thread;      ///< Its name.
  nanoseconds length{};    ///< Of each.
  std::uint64_t every = 1; ///< One of so many messages is held up.
};

/// A device whose copies and computes take real time, and nothing else of it does. When an
/// operation ends is known once it is enqueued: after what its stream and its waits come after, but
/// not before the call. So no thread runs it; whoever waits sleeps, and spins for the rest.
/// Thread-safe.
class timed_device final : public test::null_device {
public:
  using clock = std::chrono::steady_clock;

  /// Each copy takes `copy`, and the thread that `delays` names comes late. Each compute takes
  /// `compute`, unless blocks compute `on_host`.
  timed_device(nanoseconds copy, nanoseconds compute, bool on_host, delay_plan delays);

  /// Waits until everything that was enqueued has ended.
  void drain();

  /// Returns how long each delay has really taken.
  [[nodiscard]] std::vector<nanoseconds> delays() const;

  [[nodiscard]] const device_traits& traits() const noexcept override { return traits_; }
  void copy(stream_id stream, const copy_operation& operation) override;
  void compute(stream_id stream, const compute_operation& operation) override;
  void record(stream_id stream, event_id event) override;
  void wait(stream_id stream, event_id event, wait_edge edge) override;
  [[nodiscard]] bool ready(event_id event) override;
  void synchronize(event_id event, wait_edge edge) override;
  void synchronize(stream_id stream, wait_edge edge) override;
  void settle(stream_id stream) override;
  [[nodiscard]] host_thread_id create_host_thread(std::string_view name) override;
  host_thread_id enter(host_thread_id thread) noexcept override;

private:
  void add(stream_id stream, nanoseconds length);
  [[nodiscard]] clock::time_point end_of(stream_id stream) const;
  [[nodiscard]] clock::time_point end_of(event_id event) const;

  device_traits traits_;
  nanoseconds copy_;
  nanoseconds compute_;
  delay_plan plan_;
  mutable std::mutex mutex_;
  std::map<stream_id, clock::time_point> streams_; ///< When their last operation ends.
  std::map<event_id, clock::time_point> events_;
  std::uint64_t messages_ = 0; ///< That the delayed thread has had.
  std::vector<nanoseconds> delays_;
};

/// Sleeps until shortly before `time` and spins until it has come.
void wait_until(timed_device::clock::time_point time);

} // namespace ferry::bench
