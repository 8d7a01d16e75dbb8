// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/overlap.hpp>
#include <ferry/platform/device.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace ferry {

/// Collects what a device did during a run: sums always, single operations if a trace is wanted.
/// Thread-safe.
class span_recorder final : public operation_observer {
public:
  enum class keep { sums, spans };

  explicit span_recorder(keep what) : what_(what) {}

  void on_operation(const operation_span& span) override;
  void on_stream(stream_id stream, std::string_view name) override;

  [[nodiscard]] overlap_summary overlap() const;

  /// Returns the time of each step that ended, in seconds. Complete once the device has
  /// been drained.
  [[nodiscard]] std::vector<double> step_seconds() const;

  /// Writes the kept operations as Chrome trace JSON, which Perfetto opens.
  /// @throws ferry_error `io_failure`
  void write_trace(const std::filesystem::path& path) const;

private:
  static constexpr std::size_t most_spans = 1 << 20;

  const keep what_;
  mutable std::mutex mutex_;
  overlap_meter meter_;
  nanoseconds step_begun_{};
  std::vector<double> step_s_;
  std::vector<operation_span> spans_;
  std::uint64_t dropped_ = 0; ///< Spans beyond `most_spans`.
  std::map<stream_id, std::string> streams_;
};

} // namespace ferry
