// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace ferry {

/// Notices the first SIGINT (Ctrl-C) or SIGTERM of the process, so that it can end in order. A
/// second one of the same kind ends it at once; one of the other kind never does, also after the
/// watch, while the process ends: a launcher may send a SIGTERM after a Ctrl-C. Where
/// the process was started with one of them ignored, that stays ignored. At most one watch at a
/// time.
class interrupt_watch {
public:
  /// @throws ferry_error `io_failure` if the system has no descriptor left
  interrupt_watch();
  interrupt_watch(const interrupt_watch&) = delete;
  interrupt_watch& operator=(const interrupt_watch&) = delete;
  ~interrupt_watch();

  [[nodiscard]] bool interrupted() const noexcept { return interrupted_; }

  /// What is done on an interrupt while this lives; at once if it has been. There may be several.
  class during {
  public:
    /// `act` runs on any thread, and ends without anything that the owner has to do first.
    during(interrupt_watch& watch, std::function<void()> act);
    during(const during&) = delete;
    during& operator=(const during&) = delete;

    /// Waits until `act` has returned if it runs.
    ~during();

  private:
    interrupt_watch& watch_;
    std::list<std::function<void()>>::iterator act_;
  };

private:
  void watch();

  std::atomic<bool> interrupted_ = false;
  std::mutex mutex_;
  std::list<std::function<void()>> acts_;
  std::array<struct sigaction, 2> before_{}; ///< Of SIGINT and SIGTERM.
  int wakes_ = -1; ///< An event counter: the handler adds to it, and the end.
  std::thread watcher_;
};

} // namespace ferry
