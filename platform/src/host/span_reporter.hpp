// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <shared_mutex>
#include <vector>

namespace ferry {

class sticky_fault;

/// Keeps the device's clock and tells the observers. An observer that throws breaks
/// the device. Thread-safe.
class span_reporter {
public:
  explicit span_reporter(sticky_fault& fault);

  /// Returns the time since the device was opened.
  [[nodiscard]] nanoseconds now() const;

  void attach(operation_observer& observer);

  /// Once this returns, `observer` is not told anything any more.
  void detach(operation_observer& observer) noexcept;

  void report(stream_id stream, std::string_view name) const;
  void report(const operation_span& span) const;

private:
  template <class Call>
  void tell(const Call& call) const;

  sticky_fault* fault_;
  std::chrono::steady_clock::time_point opened_;
  mutable std::shared_mutex mutex_;
  std::vector<operation_observer*> observers_;
};

} // namespace ferry
