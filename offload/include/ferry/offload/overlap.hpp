// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstdint>
#include <string_view>

namespace ferry {

/// The marks that a block gate puts on the compute stream around each block.
inline constexpr const char* mark_acquire = "acquire"; ///< Before the block's wait.
inline constexpr const char* mark_begin = "begin";     ///< After the wait: the body may start.
inline constexpr const char* mark_end = "end";         ///< After the body.

/// The marks that whoever runs a model puts around each denoising step.
inline constexpr const char* mark_step_begins = "step begins";
inline constexpr const char* mark_step_ended = "step ended";

/// How well transfers hid behind compute. Times are on the device's clock.
struct overlap_summary {
  std::uint64_t blocks = 0;   ///< Block uses.
  nanoseconds compute{};      ///< Sum of the bodies.
  nanoseconds transfer{};     ///< Sum of the copies: fetches, or those of this rank's shards.
  nanoseconds gather{};       ///< Sum of the gathers, where ranks hold the blocks together.
  nanoseconds exposed_wait{}; ///< Sum of what compute waited for a block.

  /// Returns the time that no schedule can beat: bodies, copies and gathers each have a queue of
  /// their own, and the longest one remains.
  [[nodiscard]] nanoseconds lower_bound() const noexcept;

  /// Returns (serial - observed) / (serial - bound), between 0 and 1, where serial is the sum of
  /// bodies, copies and gathers, and observed that of bodies and exposed waits. 1 if there is
  /// nothing to hide.
  [[nodiscard]] double efficiency() const noexcept;
};

/// Adds up `operation_span`s into an `overlap_summary`. Spans of one stream arrive in order.
/// Not thread-safe.
class overlap_meter {
public:
  /// Takes notice of marks of a block gate and of copies and gathers tagged with a block; ignores
  /// the rest.
  void add(const operation_span& span) noexcept;

  [[nodiscard]] const overlap_summary& summary() const noexcept { return summary_; }

private:
  overlap_summary summary_;
  nanoseconds acquired_{};
  nanoseconds begun_{};
};

} // namespace ferry
