// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <shared_mutex>

namespace ferry {

class sticky_fault;

/// Keeps the device's clock and tells the observer, if there is one. An observer that throws breaks
/// the device. Thread-safe.
class span_reporter {
public:
  explicit span_reporter(sticky_fault& fault);

  /// Returns the time since the device was opened.
  [[nodiscard]] nanoseconds now() const;

  /// Once this returns, the former observer is not told anything any more.
  void attach(operation_observer* observer);

  void report(stream_id stream, std::string_view name) const;
  void report(const operation_span& span) const;

private:
  template <class Call>
  void tell(const Call& call) const;

  sticky_fault* fault_;
  std::chrono::steady_clock::time_point opened_;
  mutable std::shared_mutex mutex_;
  operation_observer* observer_ = nullptr;
};

} // namespace ferry
