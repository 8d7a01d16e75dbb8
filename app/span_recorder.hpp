// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/overlap.hpp>
#include <ferry/platform/device.hpp>

#include <mutex>
#include <string_view>
#include <vector>

namespace ferry {

/// Adds up what a device did during a run.
/// Thread-safe.
class span_recorder final : public operation_observer {
public:
  void on_operation(const operation_span& span) override;
  void on_stream(stream_id, std::string_view) override {}

  [[nodiscard]] overlap_summary overlap() const;

  /// Returns the time of each step that ended, in seconds. Complete once the device has
  /// been drained.
  [[nodiscard]] std::vector<double> step_seconds() const;

private:
  mutable std::mutex mutex_;
  overlap_meter meter_;
  nanoseconds step_begun_{};
  std::vector<double> step_s_;
};

} // namespace ferry
