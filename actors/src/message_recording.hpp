// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/trace_log.hpp>
#include <ferry/messages/values.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/platform/work_clock.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ferry {

namespace detail {

template <class Message>
constexpr std::string_view message_name() {
  // `... [with Message = ferry::fetch_block; ...]`
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr std::string_view before = "Message = ";
  constexpr auto begin = text.find(before) + before.size();
  constexpr auto name = text.substr(begin, text.find_first_of(";]", begin) - begin);
  return name.substr(name.rfind(':') + 1);
}

} // namespace detail

/// Records one message in the hands of an actor, from its construction to its end, if the thread
/// has a log. Otherwise it costs a branch.
class message_recording {
public:
  template <class Self, class Message>
  message_recording(const Self& self, const Message& message) : log_(trace_log::of_this_thread()) {
    if (log_ != nullptr)
      open_.emplace(self.id(), self.name(), span_of(message)), begin();
  }
  message_recording(const message_recording&) = delete;
  message_recording& operator=(const message_recording&) = delete;
  ~message_recording() {
    if (log_ != nullptr)
      end();
  }

private:
  struct open_message {
    open_message(std::uint64_t number, const char* called, const message_span& facts)
        : actor(number), name(called), span(facts) {}

    std::uint64_t actor;
    const char* name;
    message_span span;
    std::optional<work_clock> clock; ///< Where time is modelled.
  };

  template <class Message>
  [[nodiscard]] static message_span span_of(const Message& message) {
    message_span span{.what = detail::message_name<Message>()};
    if constexpr (requires {
                    { message.block } -> std::convertible_to<block_id>;
                  })
      span.block = static_cast<std::uint32_t>(message.block);
    if constexpr (requires {
                    { message.slot } -> std::convertible_to<slot_id>;
                  })
      span.slot = static_cast<std::uint32_t>(message.slot);
    if constexpr (requires {
                    message.slot;
                    message.generation;
                  })
      span.ticket = message.generation;
    if constexpr (requires { message.demanded; })
      span.demanded = message.demanded;
    if constexpr (requires { message.sent.at; })
      span.sent = message.sent.at;
    return span;
  }

  void begin();
  void end() noexcept;

  trace_log* log_;
  std::optional<open_message> open_;
};

} // namespace ferry
