// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/errc.hpp>
#include <ferry/platform/error.hpp>

#include <chrono>
#include <optional>
#include <utility>

namespace ferry {

/// Asks an actor from a thread that is none and blocks until it answers.
template <class Answer, class Handle, class Message>
[[nodiscard]] result<Answer> ask(caf::actor_system& system, const Handle& whom,
                                 std::chrono::nanoseconds deadline, Message message) {
  result<Answer> outcome =
      tl::unexpected(failure{errc::deadline_exceeded, "no answer within the deadline"});
  std::optional<caf::scoped_actor> self{std::in_place, system};
  auto failed = [&](const caf::error& reason) { outcome = tl::unexpected(to_failure(reason)); };
  auto pending = inquire(self->ptr(), whom, deadline, std::move(message));
  if constexpr (std::is_void_v<Answer>)
    pending.receive([&] { outcome = {}; }, failed);
  else
    pending.receive([&](Answer& answer) { outcome = std::move(answer); }, failed);
  self.reset();
  forget_system();
  return outcome;
}

} // namespace ferry
