// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "terminator.hpp"

#include <ferry/messages/errc.hpp>

#include <algorithm>
#include <utility>

namespace ferry {

void terminator::drain(children whom, drain_child message, std::chrono::nanoseconds deadline,
                       std::function<void()> then) {
  if (whom.empty()) {
    then();
    return;
  }
  const auto next = whom.back().handle;
  whom.pop_back();
  // A child that does not answer is gone or late; its release will tell.
  const auto go_on = [=, this] { drain(whom, message, deadline, then); };
  inquire(self_, next, deadline, message).then(go_on, [go_on](const caf::error&) { go_on(); });
}

void terminator::release(children whom, std::chrono::steady_clock::time_point until,
                         std::function<void(children, stopped)> then) {
  release_next(std::move(whom), until, {}, std::move(then));
}

void terminator::release_next(children whom, std::chrono::steady_clock::time_point until,
                              stopped so_far, std::function<void(children, stopped)> then) {
  if (whom.empty()) {
    then({}, std::move(so_far));
    return;
  }
  const auto child = whom.back();
  auto rest = whom;
  rest.pop_back();
  const auto left =
      std::max(until - self_->clock().now(), std::chrono::steady_clock::duration::zero());
  // The child shall have the time to say whom it waits for.
  inquire(self_, child.handle, left, release_child{left * 9 / 10})
      .then(
          [=, this](const answered& done) {
            auto report = so_far;
            report.stamps.push_back(done.stamp);
            release_next(rest, until, std::move(report), then);
          },
          [=, this](const caf::error& reason) {
            const auto why = to_failure(reason);
            auto report = so_far;
            if (why.code == errc::transfer_aborted) {
              release_next(rest, until, std::move(report), then);
              return;
            }
            report.late.push_back(child.name + ": " + why.detail);
            then(whom, std::move(report));
          });
}

void terminator::kill_all(const children& whom) {
  for (const auto& each : whom)
    kill(each.handle);
}

} // namespace ferry
