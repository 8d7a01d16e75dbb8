// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/errc.hpp>
#include <ferry/platform/error.hpp>

#include "message_recording.hpp"

#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace ferry {

template <class T>
struct outcome {
  using type = result<T>;
};
template <class T>
struct outcome<result<T>> {
  using type = result<T>;
};

/// What `attempt` makes of a function's return type: `result<T>` stays, `T` becomes `result<T>`.
template <class Attempt>
using outcome_of = typename outcome<std::invoke_result_t<Attempt&>>::type;

/// Runs `act` and translates whatever it throws. The only place where exceptions become failures.
template <class Attempt>
[[nodiscard]] outcome_of<Attempt> attempt(Attempt&& act) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Attempt&>>) {
      act();
      return {};
    } else {
      return act();
    }
  } catch (const ferry_error& e) {
    return tl::unexpected(e.reason());
  } catch (const std::bad_alloc&) {
    return tl::unexpected(failure{errc::out_of_host_memory, "no host memory left"});
  } catch (const std::exception& e) {
    return tl::unexpected(failure{errc::internal, e.what()});
  } catch (...) {
    return tl::unexpected(failure{errc::internal, "an exception that is no std::exception"});
  }
}

/// Names the block or component that a failure is about, unless it does already.
[[nodiscard]] inline failure about(failure reason, const std::string& what) {
  if (reason.block.empty())
    reason.block = what;
  return reason;
}

/// Makes an actor's answer of an outcome.
template <class T>
[[nodiscard]] caf::result<T> answer(result<T> outcome) {
  if (!outcome)
    return to_error(outcome.error());
  if constexpr (std::is_void_v<T>)
    return caf::unit;
  else
    return std::move(*outcome);
}

/// Runs the body of a message handler that no trace shows: no exception reaches CAF.
template <class Attempt>
[[nodiscard]] auto unrecorded(Attempt&& act) {
  return answer(attempt(std::forward<Attempt>(act)));
}

/// Runs the body of the handler of a message: no exception reaches CAF, and the trace shows it.
template <class Self, class Message, class Attempt>
[[nodiscard]] auto guarded(const Self* self, const Message& message, Attempt&& act) {
  const message_recording recorded{*self, message};
  return answer(attempt(std::forward<Attempt>(act)));
}

/// As `guarded`, for a body that may put its answer off and return a promise. The trace shows it
/// until then.
template <class Answer, class Self, class Message, class Attempt>
[[nodiscard]] caf::result<Answer> guarded_later(const Self* self, const Message& message,
                                                Attempt&& act) {
  const message_recording recorded{*self, message};
  caf::result<Answer> later = caf::error{};
  if (auto done = attempt([&] { later = act(); }); !done)
    return to_error(done.error());
  return later;
}

} // namespace ferry
