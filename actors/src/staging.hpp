// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>
#include <ferry/offload/module_stager.hpp>
#include <ferry/offload/staging_buffers.hpp>
#include <ferry/offload/staging_memory.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/profile_ranges.hpp>

#include "group_board.hpp"
#include "work_permit.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// What the actors and the model thread of one enabled backend share about its groups. Made by the
/// offloader, then constant except for the board, and for the stagers, which belong to the
/// component stager while it is open, and to the offloader otherwise.
class staging {
public:
  struct group {
    std::string path;
    std::vector<group_id> excludes;
    std::size_t computes = 1;              ///< Blocks that one use of it runs.
    std::unique_ptr<module_stager> stager; ///< Null for a group that only makes others leave.
    /// The compute streams that have used it since it came. Of the model thread.
    std::vector<stream_id> used_on = {};
  };

  staging(device& owner, const transfer_plan& plan);

  [[nodiscard]] device& owner() const noexcept { return *owner_; }
  [[nodiscard]] bool empty() const noexcept { return groups_.empty(); }
  [[nodiscard]] std::span<group> groups() noexcept { return groups_; }
  [[nodiscard]] group& at(group_id id) noexcept;
  [[nodiscard]] group_board& board() noexcept { return board_; }

  /// Of the component stager.
  [[nodiscard]] const std::shared_ptr<work_permit>& permit() const noexcept { return permit_; }

  /// Shows the copies of groups to a profiler; null: does not.
  void narrate(std::shared_ptr<profile_ranges> ranges) noexcept { ranges_ = std::move(ranges); }
  [[nodiscard]] profile_ranges* ranges() const noexcept { return ranges_.get(); }

  /// Says where the next group goes on the device.
  void add_memory(mutable_bytes range) { memory_.emplace_back(range); }
  [[nodiscard]] staging_memory& memory_of(std::size_t index) noexcept { return memory_[index]; }

  /// Makes the buffers that groups go through from now on, if they need it. @throws device_error
  void add_buffers(std::size_t bytes);
  /// Returns them, null if there are none.
  [[nodiscard]] const staging_buffers* buffers() const noexcept {
    return buffers_ ? &*buffers_ : nullptr;
  }

  /// Returns the group that is the component at `path` or its resident layers.
  [[nodiscard]] std::optional<group_id> find(std::string_view path) const noexcept;

  /// After everything on the staging stream when it was drained. @pre open
  [[nodiscard]] event& drained() noexcept { return *drained_; }

  void open() { drained_.emplace(*owner_); }

  /// Ends the permit too. @pre the stagers are gone
  void close() noexcept;

private:
  device* owner_;
  std::deque<reserved_memory> memory_;     ///< Of each group, in one region. Outlives the stagers.
  std::optional<staging_buffers> buffers_; ///< Of the component stager.
  std::vector<group> groups_;
  group_board board_;
  std::shared_ptr<work_permit> permit_ = std::make_shared<work_permit>();
  std::optional<event> drained_;
  std::shared_ptr<profile_ranges> ranges_;
};

} // namespace ferry
