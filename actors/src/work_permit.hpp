// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/stream.hpp>

#include <memory>
#include <mutex>
#include <utility>

namespace ferry {

/// Lets one actor work for one backend until the permit is withdrawn, and keeps the stream on which
/// it does, or what it knew at last: so its work can be waited for although the actor ended, or
/// will not answer.
///
/// The actor holds `use()` for as long as it handles a message. Thread-safe.
class work_permit {
public:
  using use_lock = std::unique_lock<std::mutex>;

  /// Says which stream the actor is going to work on. Like `use`.
  [[nodiscard]] use_lock begin(std::shared_ptr<stream> on) {
    auto held = use();
    if (held)
      on_ = std::move(on);
    return held;
  }

  /// While it is held, the backend is there. Holds nothing once the permit is withdrawn: then the
  /// actor touches nothing of the backend any more.
  [[nodiscard]] use_lock use() {
    use_lock held{mutex_};
    if (withdrawn_)
      held.unlock();
    return held;
  }

  /// Leaves what the actor knows for whoever withdraws the permit. @pre `use()` is held
  void leave(causal_stamp known) noexcept { known_ = std::move(known); }

  /// Returns what was left last. @pre withdrawn
  [[nodiscard]] const causal_stamp& known() const noexcept { return known_; }

  /// Waits until the actor has handled its message, and then until its stream ran dry, if it has
  /// one. May be repeated if it throws.
  /// @throws device_error
  void withdraw(wait_edge edge) {
    auto on = [this] {
      const std::lock_guard lock{mutex_};
      withdrawn_ = true;
      return on_;
    }();
    if (on != nullptr)
      on->drain(edge);
  }

  /// Withdraws it without waiting for the stream, and lets go of that. @pre its work has run
  void end() noexcept {
    const std::lock_guard lock{mutex_};
    withdrawn_ = true;
    on_ = nullptr;
  }

private:
  std::mutex mutex_;
  bool withdrawn_ = false;
  std::shared_ptr<stream> on_;
  causal_stamp known_;
};

} // namespace ferry
