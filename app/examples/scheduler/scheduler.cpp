// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "scheduler.hpp"

#include <ferry/messages/errc.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ferry::example {
namespace {

using namespace std::chrono_literals;

constexpr auto longest_transition = 30min;
constexpr auto longest_run = 24h;

} // namespace

scheduler::scheduler(caf::actor_config& config, std::vector<served_pipeline> pipelines,
                     offload_config offloading, model_actor model_thread)
    : scheduler_actor::base(config), pipelines_(std::move(pipelines)),
      offloading_(std::move(offloading)), model_thread_(std::move(model_thread)) {}

scheduler::behavior_type scheduler::make_behavior() {
  return {[this](const generate& m) -> caf::result<generated> {
            if (m.pipeline >= pipelines_.size())
              return to_error(
                  {errc::not_found, "there is no pipeline " + std::to_string(m.pipeline)});
            auto promise = make_response_promise<generated>();
            jobs_.push_back({m, promise});
            next();
            return promise;
          },
          [this](const cancel_request& m) { return cancel(m.id); },
          [this](const query_swaps&) -> caf::result<std::uint64_t> { return swaps_; }};
}

void scheduler::on_exit() {
  jobs_.clear();
  pipelines_.clear();
  model_thread_ = nullptr;
}

template <class Answer, class Handle, class Message, class Then>
void scheduler::ask(const Handle& whom, Message message, Then then) {
  inquire(this, whom, longest_transition, std::move(message))
      .then([then](const Answer& answer) { then(result<Answer>{answer}); },
            [then](const caf::error& reason) {
              then(result<Answer>{tl::unexpected(to_failure(reason))});
            });
}

caf::result<void> scheduler::cancel(request_id id) {
  const auto waiting = jobs_.begin() + (busy_ ? 1 : 0);
  const auto found =
      std::ranges::find(waiting, jobs_.end(), id, [](const job& each) { return each.what.id; });
  if (found == jobs_.end())
    return to_error({errc::not_found, "the request does not wait"});
  found->promise.deliver(to_error({errc::cancelled, "cancelled while it waited"}));
  jobs_.erase(found);
  return caf::unit;
}

void scheduler::next() {
  if (busy_ || jobs_.empty())
    return;
  busy_ = true;
  make_room();
}

void scheduler::make_room() {
  const auto which = jobs_.front().what.pipeline;
  const auto found = std::ranges::find(enabled_, which);
  if (found == enabled_.end()) {
    enable(true);
    return;
  }
  std::rotate(found, found + 1, enabled_.end());
  begin();
}

void scheduler::enable(bool may_disable) {
  ask<enabled>(current().actors->offloader, enable_pipeline{current().subject, offloading_, {}},
               [this, may_disable](const result<enabled>& answer) {
                 if (answer) {
                   enabled_.push_back(jobs_.front().what.pipeline);
                   begin();
                 } else if (answer.error().code == errc::out_of_device_memory && may_disable &&
                            !enabled_.empty()) {
                   disable_another();
                 } else {
                   finish(tl::unexpected(answer.error()));
                 }
               });
}

void scheduler::disable_another() {
  const auto other = enabled_.front();
  ask<answered>(pipelines_.at(other).actors->offloader, disable_backend{},
                [this](const result<answered>& disabled) {
                  if (!disabled) {
                    finish(tl::unexpected(disabled.error()));
                    return;
                  }
                  ++swaps_;
                  enabled_.erase(enabled_.begin());
                  enable(!enabled_.empty());
                });
}

void scheduler::begin() {
  const queue_request turn{jobs_.front().what.id, longest_transition, {}};
  ask<answered>(current().actors->offloader, turn, [this](const result<answered>& begun) {
    if (begun)
      run(begun->stamp);
    else
      finish(tl::unexpected(begun.error()));
  });
}

void scheduler::run(const causal_stamp& begun) {
  inquire(this, model_thread_, longest_run,
          run_model{current().model, jobs_.front().what.asked, begun})
      .then([this](const model_ran& ran) { end(ran.made, ran.stamp); },
            [this](const caf::error& reason) { end(tl::unexpected(to_failure(reason)), {}); });
}

// Also after a failure: it leaves no block and no component on the device.
void scheduler::end(result<generated> outcome, const causal_stamp& ran) {
  ask<answered>(current().actors->offloader, end_request{ran},
                [this, outcome = std::move(outcome)](const result<answered>& ended) {
                  if (outcome && !ended)
                    finish(tl::unexpected(ended.error()));
                  else
                    finish(outcome);
                });
}

void scheduler::finish(result<generated> outcome) {
  auto done_job = std::move(jobs_.front());
  jobs_.pop_front();
  busy_ = false;
  if (outcome)
    done_job.promise.deliver(std::move(*outcome));
  else
    done_job.promise.deliver(to_error(outcome.error()));
  next();
}

} // namespace ferry::example
