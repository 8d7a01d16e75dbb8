// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

namespace ferry {

/// Which groups are on the device, and which of them the model uses right now.
///
/// `away -> moving -> here -> held -> here -> moving -> away`. The component stager moves groups,
/// the model thread holds them; what is held cannot be moved, and what moves cannot be held.
/// Thread-safe. A component is called a few times a step, so that one mutex is quick enough.
class group_board {
public:
  enum class state : std::uint8_t { away, moving, here, held };

  /// What the model thread has to know about a group that it holds.
  struct holding {
    bool first = false; ///< Nobody has used the group since it came.
    causal_stamp known; ///< What the stager knew when it came.
  };

  explicit group_board(std::vector<std::vector<group_id>> excludes);

  // The model thread.

  /// Holds the group if it is on the device and none of those that it excludes is; once more if it
  /// is held already.
  [[nodiscard]] std::optional<holding> hold(group_id group);

  /// As `hold`, but waits until it can. Fails with the reason of a refusal, `deadline_exceeded`, or
  /// the first failure as soon as there is one.
  [[nodiscard]] result<holding> wait_for(group_id group, std::chrono::nanoseconds deadline);

  /// Announces that a demand is about to be sent, so that an earlier refusal is not taken for its
  /// answer.
  void expect(group_id group);

  /// Ends one hold. `used` is what the model thread knew when it recorded the last use; it counts
  /// for the outermost hold.
  /// @pre the group is held
  void let_go(group_id group, causal_stamp used) noexcept;

  /// Returns whether `let_go` would end the outermost hold. @pre the group is held
  [[nodiscard]] bool held_once(group_id group) const;

  // The component stager.

  /// Makes the group move, if nobody holds it. Returns what was known when it came or was last
  /// used.
  [[nodiscard]] std::optional<causal_stamp> claim(group_id group);

  /// Ends a move. @pre the group moves
  void arrived(group_id group, causal_stamp known);
  void left(group_id group) noexcept;

  /// Tells who waits for the group why it does not come.
  void refuse(group_id group, failure reason);

  // Anybody.

  [[nodiscard]] state at(group_id group) const;
  [[nodiscard]] bool is_here(group_id group) const;

  /// Returns whether the group is on the device and was held since it came.
  [[nodiscard]] bool was_held(group_id group) const;

  /// Returns a group that is held, if any.
  [[nodiscard]] std::optional<group_id> any_held() const;

  /// Stores a failure unless there is one, and wakes who waits.
  void fail(failure cause);

private:
  struct cell {
    state now = state::away;
    unsigned holds = 0;
    bool first = false; ///< Came and was not held since.
    causal_stamp known;
    std::optional<failure> refusal;
    std::vector<group_id> excludes;
  };

  [[nodiscard]] cell& of(group_id group) noexcept;
  [[nodiscard]] const cell& of(group_id group) const noexcept;
  [[nodiscard]] std::optional<holding> hold_now(cell& entry);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<cell> cells_;
  std::optional<failure> failure_;
};

} // namespace ferry
