// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/overlap.hpp>
#include <ferry/platform/device.hpp>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

namespace ferry {

/// How well transfers hid behind compute, in requests that are over.
struct request_sums {
  std::uint64_t requests = 0;          ///< That ended.
  overlap_summary all;                 ///< Of all of them.
  std::optional<overlap_summary> last; ///< Of the last one.
};

/// Adds up, request by request, what a device reports. A request has what is reported from its
/// beginning to the next one's: a device may be behind when a request ends. Thread-safe.
class request_meter final : public operation_observer {
public:
  void on_operation(const operation_span& span) override;
  void on_stream(stream_id, std::string_view) override {}

  void begin();
  void end();

  /// Returns the sums of requests that ended, as far as the device has reported them.
  [[nodiscard]] request_sums sums() const;

private:
  mutable std::mutex mutex_;
  std::optional<overlap_meter> open_; ///< Of the last request that began.
  bool ended_ = false;
  request_sums closed_;
};

} // namespace ferry
