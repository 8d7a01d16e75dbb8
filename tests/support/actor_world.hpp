// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/errc.hpp>
#include <ferry/messages/type_ids.hpp>
#include <ferry/platform/error.hpp>

#include <caf/scheduler/test_coordinator.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace ferry::test {

/// What a test asked an actor: answered once the messages it takes have been dispatched.
template <class Answer>
class question {
public:
  template <class Handle, class Message>
  question(caf::actor_system& system, const Handle& whom, Message message)
      : asker_(std::make_unique<caf::scoped_actor>(system)) {
    auto pending = inquire(asker_->ptr(), whom, std::chrono::hours{1}, std::move(message));
    receive_ = [this, pending]() mutable {
      auto failed = [this](const caf::error& reason) {
        outcome_ = tl::unexpected(to_failure(reason));
      };
      if constexpr (std::is_void_v<Answer>)
        pending.receive([this] { outcome_.emplace(); }, failed);
      else
        pending.receive([this](Answer& answer) { outcome_ = std::move(answer); }, failed);
    };
  }
  question(const question&) = delete;
  question& operator=(const question&) = delete;

  [[nodiscard]] bool answered() const { return asked_ || !(*asker_)->mailbox().empty(); }

  /// @pre `answered()`
  [[nodiscard]] const result<Answer>& outcome() {
    FERRY_ASSERT(answered());
    if (!std::exchange(asked_, true))
      receive_();
    return *outcome_;
  }

  /// Returns whether a second answer came. @pre `outcome()` was called
  [[nodiscard]] bool answered_again() const { return !(*asker_)->mailbox().empty(); }

private:
  std::unique_ptr<caf::scoped_actor> asker_;
  std::function<void()> receive_;
  bool asked_ = false;
  std::optional<result<Answer>> outcome_;
};

/// An actor system that moves only when told to: pooled actors run on the calling thread, one
/// message at a time, and time is virtual. Detached actors would escape it: spawn none.
class actor_world {
public:
  actor_world() : system_(config_) {}
  ~actor_world() { dispatch_messages(); }

  [[nodiscard]] caf::actor_system& system() noexcept { return system_; }

  /// Lets one actor handle what is in its mailbox. Returns false if nothing was.
  bool dispatch_message() { return scheduler().try_run_once(); }

  /// Lets actors run until all mailboxes are empty.
  void dispatch_messages() {
    while (dispatch_message()) {
    }
  }

  /// Moves the time; deadlines that pass are delivered with the next dispatch.
  void advance_time(std::chrono::nanoseconds span) { scheduler().advance_time(span); }

  /// Asks `whom` and dispatches everything. Fails with `deadline_exceeded` if no answer came.
  template <class Answer, class Handle, class Message>
  [[nodiscard]] result<Answer> ask(const Handle& whom, Message message) {
    question<Answer> asked{system_, whom, std::move(message)};
    dispatch_messages();
    if (!asked.answered())
      return tl::unexpected(failure{errc::deadline_exceeded, "nobody answered"});
    return asked.outcome();
  }

private:
  struct config : caf::actor_system_config {
    config() {
      add_types<caf::id_block::ferry_messages>(*this);
      ferry::add_error_category(*this);
      set("scheduler.policy", caf::atom("testing"));
    }
  };

  [[nodiscard]] caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }

  config config_;
  caf::actor_system system_;
};

} // namespace ferry::test
