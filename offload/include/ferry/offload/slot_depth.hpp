// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/block_marks.hpp>
#include <ferry/platform/device.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace ferry {

/// More slots hide no more of a link's jitter than is worth the memory.
inline constexpr std::size_t most_useful_slots = 4;

/// What one use of a block took on the device.
struct block_use {
  nanoseconds transfer{};
  nanoseconds compute{};

  friend bool operator==(const block_use&, const block_use&) = default;
};

/// Returns how long `uses` take one after another with `slots` slots, by the schedule model.
/// @pre `slots` >= 1
[[nodiscard]] nanoseconds time_in_slots(std::span<const block_use> uses, std::size_t slots);

/// Returns how many slots, from `slots` to `most`, are worth having: one more is if it saves a
/// hundredth of the time of `uses`. Where transfers take longer than compute, hardly any is.
[[nodiscard]] std::size_t slots_worth_having(std::span<const block_use> uses, std::size_t slots,
                                             std::size_t most);

/// Collects the uses of blocks while it observes a device. Thread-safe.
class use_recorder final : public operation_observer {
public:
  static constexpr std::size_t least_uses = 32;
  static constexpr std::size_t most_uses = 4096; ///< Later ones are left out.

  use_recorder();

  /// Takes notice of copies tagged with a ticket and of the marks of a block gate.
  void on_operation(const operation_span& span) override;
  void on_stream(stream_id, std::string_view) override {}

  /// Returns the uses that ended since it last returned some, in order; none if they are too few to
  /// tell anything.
  [[nodiscard]] std::vector<block_use> take();

private:
  struct fetch {
    std::uint64_t ticket = 0;
    nanoseconds transfer{};
  };

  [[nodiscard]] fetch& of(std::uint64_t ticket) noexcept;

  std::mutex mutex_;
  std::array<fetch, 64> fetches_; ///< By ticket; more than there are at a time.
  block_marks marks_;
  std::vector<block_use> uses_;
};

} // namespace ferry
