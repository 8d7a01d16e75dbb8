// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "supervisor.hpp"

#include <ferry/platform/log.hpp>

#include "guarded.hpp"

#include <algorithm>
#include <utility>

namespace ferry {

supervisor::supervisor(caf::actor_config& config, std::vector<start_step> steps,
                       std::chrono::milliseconds start_deadline)
    : supervisor_actor::base(config), steps_(std::move(steps)), start_deadline_(start_deadline),
      watched_(this), terminator_(this) {}

supervisor::behavior_type supervisor::make_behavior() {
  return {
      [this](const start_children& m) {
        return guarded_later<void>(this, m, [&] { return start(); });
      },
      [this](const stop_children& m) {
        return guarded_later<stopped>(this, m, [&] { return stop(m); });
      },
      [this](const child_failed& m) { return guarded(this, m, [&] { report(m); }); },
      [this](const query_children& m) { return guarded(this, m, [&] { return describe(); }); },
  };
}

void supervisor::on_exit() {
  starting_ = {};
  children_.clear();
  steps_.clear();
}

caf::result<void> supervisor::start() {
  if (phase_ != phase::stopped || !children_.empty())
    throw ferry_error{{errc::already_enabled, "the children run already; stop them first"}};
  phase_ = phase::starting;
  ++generation_;
  first_cause_.reset();
  ended_.clear();
  restarts_ = 0;
  starting_ = make_response_promise<void>();
  start_next();
  return starting_;
}

void supervisor::start_next() {
  if (children_.size() == steps_.size()) {
    phase_ = phase::running;
    fulfil(starting_);
    starting_ = {};
    return;
  }
  const auto& step = steps_[children_.size()];
  auto spawned = attempt([&] { return step.spawn(); });
  if (!spawned) {
    abandon_start(spawned.error());
    return;
  }
  const auto child = *spawned;
  children_.push_back({step.name, child, generation_});
  watch(children_.back());
  inquire(this, child, start_deadline_, start_child{generation_})
      .then([this] { started({}); },
            [this](const caf::error& reason) { started(tl::unexpected(to_failure(reason))); });
}

void supervisor::started(const result<void>& outcome) {
  if (phase_ != phase::starting)
    return;
  if (outcome && !first_cause_)
    start_next();
  else
    abandon_start(first_cause_ ? *first_cause_ : outcome.error());
}

void supervisor::abandon_start(failure cause) {
  phase_ = phase::stopping;
  first_cause_ = std::move(cause);
  const auto until = clock().now() + start_deadline_;
  terminator_.release(children_, until, [this](const terminator::children& left, const auto&) {
    terminator::kill_all(left);
    children_.clear();
    phase_ = phase::stopped;
    starting_.deliver(to_error(*first_cause_));
    starting_ = {};
  });
}

caf::result<stopped> supervisor::stop(const stop_children& message) {
  if (phase_ == phase::starting || phase_ == phase::stopping)
    throw ferry_error{{errc::busy, "a start or stop is under way"}};
  auto promise = make_response_promise<stopped>();
  phase_ = phase::stopping;
  const auto until = clock().now() + message.deadline;
  const failure refusal{errc::transfer_aborted, "the runtime is stopping"};
  terminator_.drain(children_, {refusal, false}, message.deadline / 4, [this, promise, until] {
    terminator_.release(children_, until,
                        [this, promise](terminator::children left, stopped report) {
                          phase_ = left.empty() ? phase::stopped : phase::running;
                          children_ = std::move(left);
                          report.stamps.insert(report.stamps.end(), ended_.begin(), ended_.end());
                          auto answer = promise;
                          answer.deliver(std::move(report));
                        });
  });
  return promise;
}

void supervisor::report(const child_failed& message) {
  if (message.stamp.knowledge != nullptr)
    ended_.push_back(message.stamp);
  const auto is_current = message.generation == 0 || message.generation == generation_;
  if (!is_current || first_cause_ || children_.empty())
    return;
  first_cause_ = message.reason;
  // What another rank did is told by every call, in the same words on all ranks.
  log(message.reason.rank ? log_level::info : log_level::error, "ferry.actors",
      "stop transfers child=" + message.name + " reason=" + ferry::describe(message.reason));
  if (phase_ == phase::running)
    terminator_.drain(children_, {message.reason, true}, start_deadline_, [] {});
}

void supervisor::watch(const live_child& child) {
  watched_.watch(child.handle, [this, who = child.name, generation = child.generation](
                                   const caf::error& why) { gone(who, generation, why); });
}

void supervisor::gone(const std::string& child, std::uint64_t generation,
                      const caf::error& reason) {
  if (phase_ == phase::stopping)
    return;
  const auto step = std::ranges::find(steps_, child, &start_step::name);
  if (step != steps_.end() && may_restart(*step, generation)) {
    log(log_level::warn, "ferry.actors",
        "restart child=" + child + " reason=" + to_failure(reason).detail);
    restart(*step);
    return;
  }
  report({child,
          generation,
          {errc::internal, child + " ended by itself: " + to_failure(reason).detail}});
}

bool supervisor::may_restart(const start_step& step, std::uint64_t generation) const {
  constexpr int most_restarts = 3;
  return step.policy == when_it_ends::restart && phase_ == phase::running &&
         generation == generation_ && !first_cause_ && restarts_ < most_restarts;
}

void supervisor::restart(const start_step& step) {
  ++restarts_;
  const auto child = std::ranges::find(children_, step.name, &live_child::name);
  FERRY_ASSERT(child != children_.end());
  auto spawned = attempt([&] { return step.spawn(); });
  if (!spawned) {
    report({step.name, generation_, std::move(spawned.error())});
    return;
  }
  child->handle = *spawned;
  watch(*child);
  inquire(this, child->handle, start_deadline_, start_child{generation_})
      .then(
          [then = step.restarted] {
            if (then)
              then();
          },
          [this, who = step.name, generation = generation_](const caf::error& reason) {
            report({who, generation, to_failure(reason)});
          });
}

children_state supervisor::describe() const {
  children_state state{.running = {},
                       .generation = generation_,
                       .failed = first_cause_.has_value(),
                       .first_cause = first_cause_.value_or(failure{})};
  for (const auto& each : children_)
    state.running.push_back(each.name);
  return state;
}

} // namespace ferry
