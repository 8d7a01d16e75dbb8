// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/trace.hpp>
#include <ferry/platform/device.hpp>

#include <cstdint>
#include <map>
#include <optional>

namespace ferry {

/// The marks that a block gate puts on the compute stream around each block.
inline constexpr const char* mark_acquire = "acquire"; ///< Before the block's wait.
inline constexpr const char* mark_begin = "begin";     ///< After the wait: the body may start.
inline constexpr const char* mark_end = "end";         ///< After the body.

/// The marks that whoever runs a model puts around each denoising step.
inline constexpr const char* mark_step_begins = "step begins";
inline constexpr const char* mark_step_ended = "step ended";

/// The marks around what is run to warm up: no use of a block between them counts.
inline constexpr const char* mark_warm_up_begins = "warm-up begins";
inline constexpr const char* mark_warm_up_ended = "warm-up ended";

/// Turns the marks around blocks into the uses of blocks. A block is in use once at a time, and may
/// end on another stream than it began on. A use of which a mark is lost is none. Not thread-safe.
class block_marks {
public:
  /// Returns whether `span` is a mark of a block gate.
  [[nodiscard]] static bool is_gate_mark(const operation_span& span) noexcept;

  /// Takes the next mark of its block. Returns the use that it ends, of rank 0.
  /// @pre `is_gate_mark(mark)`
  std::optional<block_span> add(const operation_span& mark);

private:
  struct times {
    std::optional<nanoseconds> asked = {};
    std::optional<nanoseconds> begun = {};
    std::uint64_t ticket = 0;
    std::uint32_t track = 0;
  };

  std::map<std::uint32_t, times> open_; ///< By block.
};

} // namespace ferry
