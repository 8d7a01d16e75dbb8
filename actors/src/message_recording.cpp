// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "message_recording.hpp"

namespace ferry {

void message_recording::begin() {
  if (log_->owner().traits().virtual_time)
    open_->clock.emplace();
  else
    open_->span.started = log_->owner().now();
}

void message_recording::end() noexcept {
  auto& span = open_->span;
  if (!open_->clock) {
    span.finished = log_->owner().now();
  } else {
    // What does not touch the device takes no time there.
    const auto at = std::max(span.sent, log_->latest());
    span.started = open_->clock->began().value_or(at);
    span.finished = open_->clock->began() ? open_->clock->ended() : at;
    open_->clock.reset();
  }
  if (span.sent == nanoseconds::zero() || span.sent > span.started)
    span.sent = span.started;
  log_->record(open_->actor, open_->name, span);
}

} // namespace ferry
