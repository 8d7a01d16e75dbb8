// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/offload/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace ferry {

/// How the block of one use came to the device. Pointers are into the trace.
struct fetch_record {
  std::vector<const device_span*> copies;  ///< In order; of its shards where ranks gather it.
  std::vector<const device_span*> gathers; ///< In order.
  nanoseconds copying{};                   ///< Sum of the copies.
  std::uint64_t bytes = 0;

  [[nodiscard]] bool empty() const noexcept { return copies.empty() && gathers.empty(); }
};

/// What one rank did, for looking up. The trace outlives it. @pre the trace is sorted
class rank_history {
public:
  rank_history(const trace& run, std::uint32_t rank);

  [[nodiscard]] const std::vector<const block_span*>& uses() const noexcept { return uses_; }
  [[nodiscard]] const std::vector<const device_span*>& copies() const noexcept { return copies_; }
  [[nodiscard]] const std::vector<const device_span*>& gathers() const noexcept { return gathers_; }

  struct stretch {
    nanoseconds from{};
    nanoseconds until{};
  };

  /// Returns how many steps ended, also where the trace lacks their beginning.
  [[nodiscard]] std::uint64_t ended_steps() const noexcept { return ended_steps_; }
  /// Returns the whole steps.
  [[nodiscard]] const std::vector<stretch>& steps() const noexcept { return steps_; }
  /// Returns the step that the trace ends in.
  [[nodiscard]] const std::optional<stretch>& open_step() const noexcept { return open_step_; }

  /// Returns when compute ran something else than streamed blocks in a step: blocks that stay on
  /// the device.
  [[nodiscard]] const std::vector<stretch>& other_work() const noexcept { return other_work_; }

  /// Returns whether something at `when` belongs to what was run to warm up.
  [[nodiscard]] bool warms_up(nanoseconds when) const noexcept;

  /// Returns what brought the block of the `use`th use.
  [[nodiscard]] fetch_record fetch_of(std::size_t use) const;

  /// Returns the copy, or gather, that the link did before `span`; null if there was none.
  [[nodiscard]] const device_span* before(const device_span& span) const noexcept;

  /// Returns when the copy ended that brought what this rank sends in `gather`.
  [[nodiscard]] std::optional<nanoseconds> landed(const device_span& gather) const noexcept;

  /// Returns the number of a gather among those of this rank.
  [[nodiscard]] std::size_t number_of(const device_span& gather) const noexcept;

  /// Returns the use of a slot that ended last before `at` and may have made way for `use`.
  [[nodiscard]] const block_span* released_before(std::size_t use, nanoseconds at) const noexcept;

  /// The message that asked for a fetch, and the one that led to that.
  struct request {
    const message_span* fetch = nullptr;
    const message_span* trigger = nullptr; ///< A demand, or the release of the slot.
  };
  [[nodiscard]] request request_of(const block_span& use) const noexcept;

  /// Returns how long the packer worked for `block` between two times.
  [[nodiscard]] nanoseconds packing(std::uint32_t block, nanoseconds from,
                                    nanoseconds until) const noexcept;

  /// Returns how many slots messages speak of; 0 if none does.
  [[nodiscard]] std::size_t slots() const noexcept { return slots_.size(); }

  /// Returns at most how many bytes disks were read between two times; nothing where nobody counts.
  [[nodiscard]] std::optional<std::uint64_t> disk_bytes(nanoseconds from, nanoseconds until) const;

  /// Returns bytes a second of the copies of blocks, in the median; 0 if there are none.
  [[nodiscard]] double usual_rate() const;

private:
  void read_marks(const trace& run, std::uint32_t rank);
  void find_other_work(const stretch& step);

  using key = std::tuple<std::uint64_t, std::uint32_t>; ///< Ticket and block.

  std::vector<const block_span*> uses_;
  std::vector<const block_span*> by_end_;
  std::vector<const device_span*> copies_;
  std::vector<const device_span*> gathers_;
  std::map<std::uint32_t, std::map<std::uint64_t, const message_span*>> releases_; ///< Of slots.
  std::map<std::uint32_t, std::vector<const message_span*>> demands_;              ///< Of blocks.
  std::vector<const message_span*> packings_;
  std::vector<const trace_counter*> disk_;
  std::map<key, std::vector<const device_span*>> copies_for_;
  std::map<key, std::vector<const device_span*>> gathers_for_;
  std::map<key, std::vector<const message_span*>> requests_;
  std::map<key, std::vector<const block_span*>> uses_of_;
  std::set<std::uint32_t> slots_;
  std::uint64_t ended_steps_ = 0;
  std::vector<stretch> steps_;
  std::optional<stretch> open_step_;
  std::vector<stretch> warm_ups_;
  std::vector<stretch> other_work_;
};

} // namespace ferry
