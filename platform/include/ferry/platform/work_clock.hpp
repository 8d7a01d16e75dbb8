// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <optional>

namespace ferry {

/// Notes when the calling thread was at work as some host thread of control (`host_thread::scope`)
/// while this lives. For whoever records what a thread did where time is virtual: outside a scope
/// it has none. Clocks nest like scopes; they stay on the thread that made them.
class work_clock {
public:
  work_clock() noexcept;
  work_clock(const work_clock&) = delete;
  work_clock& operator=(const work_clock&) = delete;
  ~work_clock();

  /// Returns the innermost clock of the calling thread, null if it has none.
  [[nodiscard]] static work_clock* current() noexcept;

  void note(nanoseconds now) noexcept;
  /// Takes `now` for the note before: the thread has just learned that it is later.
  void correct(nanoseconds now) noexcept;

  /// Returns when the first scope began, nothing if there was none.
  [[nodiscard]] std::optional<nanoseconds> began() const noexcept { return began_; }
  [[nodiscard]] nanoseconds ended() const noexcept { return ended_; }

private:
  work_clock* outer_;
  std::optional<nanoseconds> began_;
  nanoseconds ended_{};
};

} // namespace ferry
