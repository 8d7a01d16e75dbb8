// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "support/actor_world.hpp"

#include <caf/mailbox_element.hpp>
#include <caf/monitorable_actor.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace ferry::test {

enum class message_fault : std::uint8_t {
  lost,    ///< Nobody ever hears it.
  slow,    ///< It and what follows on its way come when everybody else has nothing left to do.
  late,    ///< As `slow`, when every deadline that it could have met has passed.
  killed,  ///< The child that it was sent to ends before it gets it. Others are not touched.
  refused, ///< A request is answered, or its answer replaced, by an error. Others are not touched.
};

[[nodiscard]] const char* describe(message_fault kind);

/// Stands between the actors of an `actor_world` and makes one of their messages fail: requests,
/// answers and what expects none, counted in the order in which they are sent.
///
/// Actors are spawned as usual; others get the handle that `wire` returns. What a thread that is no
/// actor sends through a wire is handled before the sending returns, so that a model which waits
/// for it finds it done.
class message_faults {
public:
  explicit message_faults(actor_world& world) : world_(world) {}
  message_faults(const message_faults&) = delete;
  message_faults& operator=(const message_faults&) = delete;
  ~message_faults();

  /// Returns a handle whose messages can fail on their way to `target` and back.
  template <class Handle>
  [[nodiscard]] Handle wire(const Handle& target) {
    return caf::actor_cast<Handle>(wire_to(caf::actor_cast<caf::strong_actor_ptr>(target)));
  }

  /// Makes the `n`th message from now on (0: the next) fail.
  void fail_after(std::uint64_t n, message_fault kind) { plan_ = plan{n, kind}; }

  /// Returns whether a message was made to fail.
  [[nodiscard]] bool struck() const noexcept { return !struck_.empty(); }
  /// Returns which: its type, and whose way it was.
  [[nodiscard]] const std::string& what() const noexcept { return struck_; }
  /// Returns whether it was a message to or from whoever asked with `ask`.
  [[nodiscard]] bool struck_asker() const noexcept { return struck_asker_; }

  /// Lets actors run until all mailboxes are empty.
  void dispatch();

  /// Lets time pass, and everybody handle what it brings.
  void pass(std::chrono::nanoseconds span);

  template <class Answer>
  struct reply {
    result<Answer> outcome = tl::unexpected(failure{errc::deadline_exceeded, "nobody answered"});
    std::chrono::seconds waited{0};
  };

  /// Asks, and lets time pass until there is an answer, at most `patience`.
  template <class Answer, class Handle, class Message>
  [[nodiscard]] reply<Answer> ask_for(const Handle& whom, Message message,
                                      std::chrono::seconds patience) {
    question<Answer> asked{world_.system(), whom, std::move(message)};
    dispatch();
    reply<Answer> got;
    for (; !asked.answered() && got.waited < patience; ++got.waited)
      pass(std::chrono::seconds{1});
    if (asked.answered())
      got.outcome = asked.outcome();
    return got;
  }

  /// Ends every actor that is left, and forgets the wires.
  void end();

private:
  class way;
  struct plan {
    std::uint64_t left = 0;
    message_fault kind{};
  };
  struct held_message {
    caf::strong_actor_ptr target;
    caf::mailbox_element_ptr what;
  };

  /// Whether messages on a way are those that an actor gets, or the answers to what it asked.
  enum class direction : std::uint8_t { there, back };

  [[nodiscard]] caf::strong_actor_ptr wire_to(const caf::strong_actor_ptr& target);
  [[nodiscard]] caf::strong_actor_ptr way_back_to(const caf::strong_actor_ptr& asker);
  void travel(const caf::strong_actor_ptr& target, direction where, caf::mailbox_element_ptr what,
              caf::execution_unit* host);
  [[nodiscard]] bool strikes(const caf::strong_actor_ptr& target, direction where,
                             const caf::mailbox_element& what);
  void strike(const caf::strong_actor_ptr& target, direction where, caf::mailbox_element_ptr what);
  bool let_through();

  actor_world& world_;
  std::optional<plan> plan_;
  std::string struck_;
  bool struck_asker_ = false;
  std::optional<message_fault> held_as_;
  caf::strong_actor_ptr held_for_;
  direction held_direction_{};
  std::deque<held_message> held_;
  std::chrono::nanoseconds passed_{0}; ///< Since a message was held.
  bool dispatching_ = false;
  std::vector<caf::strong_actor_ptr> targets_;
  std::map<caf::actor_id, caf::strong_actor_ptr> ways_back_;
  std::set<caf::actor_id> actors_; ///< Those behind a wire.
};

} // namespace ferry::test
