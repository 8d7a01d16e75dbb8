// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "guarded.hpp"
#include "offloader.hpp"

#include <algorithm>
#include <utility>

namespace ferry {

caf::result<answered> offloader::queue(const queue_request& message) {
  if (!can_queue())
    check_enabled();
  const auto has_id = [&](const waiting_request& each) { return each.id == message.id; };
  if (running_ == message.id || std::ranges::any_of(waiting_, has_id))
    throw ferry_error{{errc::invalid_argument,
                       "request " + std::to_string(static_cast<std::uint64_t>(message.id)) +
                           " waits or runs already"}};
  auto promise = make_response_promise<answered>();
  waiting_.push_back(
      {message.id, clock().now() + message.patience, message.stamp, message.wave, promise, false});
  begin_next();
  if (!waiting_.empty() && waiting_.back().id == message.id)
    remind<offloader_actor>(this, message.patience, expire_requests{});
  return promise;
}

void offloader::expire() {
  const auto now = clock().now();
  std::erase_if(waiting_, [&](waiting_request& each) {
    return !each.withdrawn && each.until <= now &&
           withdraw(each, {errc::deadline_exceeded, "the requests before it took too long"});
  });
}

bool offloader::ranks_gather() const noexcept {
  return placement_ != nullptr && placement_->through()->gathers();
}

// Where ranks gather, the others count on its turn: it begins, and ends at once. Of one that did
// not say its blocks they learn then that it makes no wave.
bool offloader::withdraw(waiting_request& which, failure cause) {
  deliver(std::exchange(which.promise, {}), tl::unexpected(std::move(cause)));
  which.withdrawn = true;
  return !ranks_gather();
}

bool offloader::can_queue() const noexcept {
  return !has_failed() && (phase_ == phase::enabled || phase_ == phase::changing);
}

void offloader::begin_next() {
  if (!can_queue() || phase_ == phase::changing || in_request_)
    return;
  expire();
  if (waiting_.empty())
    return;
  auto next = std::move(waiting_.front());
  waiting_.pop_front();
  begin(std::move(next));
}

void offloader::begin(waiting_request next) {
  phase_ = phase::changing;
  if (!next.withdrawn)
    running_ = next.id;
  owe(next.promise);
  if (!unsettled_) {
    begin_settled(std::move(next));
    return;
  }
  settle([this, next = std::move(next)](result<answered> ended) {
    if (ended)
      begin_settled(next);
    else
      finish_change(next.promise, std::move(ended), false);
  });
}

void offloader::begin_settled(waiting_request next) {
  may_leave_ = !ranks_gather() || !next.wave.blocks.empty();
  if (ranks_gather()) {
    join(std::move(next));
    return;
  }
  auto added = add_slots(next.stamp);
  if (!added) {
    finish_change(next.promise, tl::unexpected(std::move(added.error())), false);
    return;
  }
  next.stamp = std::move(*added);
  begin_blocks(std::move(next));
}

// What the model runs outside requests is left alone.
result<causal_stamp> offloader::add_slots(const causal_stamp& stamp) {
  if (placement_ == nullptr || placement_->through()->board().entered())
    return stamp;
  return attempt([&] {
    const host_thread::scope scope{*me_, stamp};
    placement_->add_slots_worth_having(options_.device_memory);
    return owner_->stamp();
  });
}

void offloader::join(waiting_request next) {
  at_gate_ = true;
  const std::chrono::nanoseconds patience =
      next.withdrawn ? options_.request_deadline
                     : std::max(next.until - clock().now(), std::chrono::nanoseconds{0});
  const auto& gate = options_.peers->gate;
  const auto without_blocks = next.withdrawn && next.wave.blocks.empty();
  inquire(this, gate, patience + options_.request_deadline,
          join_wave{without_blocks ? withdrawn_ballot() : to_ballot(next.wave), patience})
      .then(
          [this, next] {
            at_gate_ = false;
            begin_blocks(next);
          },
          [this, promise = next.promise](const caf::error& reason) {
            at_gate_ = false;
            leave_if_apart(to_failure(reason));
            finish_change(promise, tl::unexpected(to_failure(reason)), false);
          });
}

// Ranks that meet no more gather no more either: who waits in a gather already is to hear of it. A
// wave that was only refused leaves them together.
void offloader::leave_if_apart(const failure& cause) {
  if (!refusal_ && options_.peers->meeting->failed())
    tell(this, supervisor_, child_failed{name(), 0, cause});
}

void offloader::begin_blocks(waiting_request next) {
  auto finished = [this, promise = next.promise,
                   withdrawn = next.withdrawn](result<answered> outcome) {
    if (outcome && withdrawn) {
      end_begun(promise, outcome->stamp);
      return;
    }
    if (outcome) {
      finish_change(promise, std::move(outcome), true);
      return;
    }
    // Whoever failed may have begun.
    give_up(promise, std::move(outcome.error()));
  };
  ask_groups(begin_request{observed(next.stamp)},
             [this, finished, blocks = std::move(next.wave.blocks)](result<answered> primed) {
               if (primed)
                 ask_ring(begin_request{std::move(primed->stamp), blocks}, finished);
               else
                 finished(std::move(primed));
             });
}

// Ends what the others may still take for a request, also if they never heard of it.
void offloader::settle(result_handler then) {
  ask_ring(end_request{observed({})}, [this, then = std::move(then)](result<answered> ended) {
    if (!ended && ended.error().code != errc::not_enabled) {
      then(std::move(ended));
      return;
    }
    ask_groups(end_request{observed({})}, [this, then](result<answered> left) {
      unsettled_ = !left.has_value();
      then(std::move(left));
    });
  });
}

void offloader::give_up(const caf::typed_response_promise<answered>& promise, failure cause) {
  unsettled_ = true;
  settle([this, promise, cause = std::move(cause)](const result<answered>&) {
    finish_change(promise, tl::unexpected(cause), false);
  });
}

void offloader::cancel(const cancel_request& message) {
  const auto found = std::ranges::find_if(waiting_, [&](const waiting_request& each) {
    return each.id == message.id && !each.withdrawn;
  });
  if (found != waiting_.end()) {
    if (ranks_gather() && found->wave.blocks.empty())
      throw ferry_error{{errc::unsupported,
                         "the other ranks count on this request and it did not say which blocks "
                         "they run without it; queue it with its blocks"}};
    if (withdraw(*found, {errc::cancelled, "it was cancelled"}))
      waiting_.erase(found);
    return;
  }
  if (running_ != message.id)
    throw ferry_error{{errc::not_found, "request " +
                                            std::to_string(static_cast<std::uint64_t>(message.id)) +
                                            " neither waits nor runs"}};
  if (delegate_ != nullptr)
    throw ferry_error{
        {errc::unsupported, "the pipeline stages its components itself; end the request instead"}};
  if (!may_leave_)
    throw ferry_error{{errc::unsupported,
                       "the other ranks run this request's blocks and it did not say which; begin "
                       "it with its blocks"}};
  if (placement_ != nullptr)
    placement_->through()->board().cancel(true);
}

void offloader::end_run() noexcept {
  in_request_ = false;
  running_.reset();
  if (placement_ != nullptr)
    placement_->through()->board().cancel(false);
}

void offloader::refuse_waiting(const failure& cause) {
  for (auto& each : std::exchange(waiting_, {}))
    deliver(each.promise, tl::unexpected(cause));
}

caf::result<answered> offloader::end(const end_request& message) {
  if (placement_ != nullptr && has_failed())
    end_run();
  check_enabled();
  if (!in_request_)
    throw ferry_error{{errc::not_enabled, "no request is running; begin one first"}};
  if (placement_ != nullptr && placement_->groups()->board().any_held())
    throw ferry_error{{errc::busy, placement_->held() + " is in use; end the request after it is "
                                                        "released"}};
  phase_ = phase::changing;
  auto promise = make_response_promise<answered>();
  owe(promise);
  end_begun(promise, message.stamp);
  return promise;
}

// The copy worker answers behind the fetches of the request: a failed one shows here at the latest.
void offloader::end_begun(const caf::typed_response_promise<answered>& promise,
                          const causal_stamp& stamp) {
  ask_ring(end_request{observed(stamp)}, [this, promise](result<answered> ended) {
    if (!ended && ended.error().code == errc::busy && in_request_) {
      finish_change(promise, std::move(ended), true);
      return;
    }
    if (!ended) {
      give_up(promise, std::move(ended.error()));
      return;
    }
    ask_groups(end_request{std::move(ended->stamp)}, [this, promise](result<answered> left) {
      if (!left) {
        give_up(promise, std::move(left.error()));
        return;
      }
      if (placement_ == nullptr) {
        finish_change(promise, std::move(left), false);
        return;
      }
      inquire(this, copies_, options_.request_deadline + behind_gathers(),
              drain_copies{std::move(left->stamp)})
          .then(
              [this, promise](const answered& drained) { finish_change(promise, drained, false); },
              [this, promise](const caf::error& reason) {
                finish_change(promise, tl::unexpected(to_failure(reason)), false);
              });
    });
  });
}

caf::result<answered> offloader::announce(const announce_blocks& message) {
  check_enabled();
  phase_ = phase::changing;
  auto promise = make_response_promise<answered>();
  owe(promise);
  ask_ring(announce_blocks{message.blocks, observed(message.stamp)},
           [this, promise](result<answered> outcome) {
             finish_change(promise, std::move(outcome), in_request_);
           });
  return promise;
}

caf::result<answered> offloader::stage(const stage_component& message) {
  check_enabled();
  phase_ = phase::changing;
  auto promise = make_response_promise<answered>();
  owe(promise);
  auto finished = [this, promise](result<answered> outcome) {
    finish_change(promise, std::move(outcome), in_request_);
  };
  if (placement_ == nullptr) {
    finished(
        tl::unexpected(failure{errc::unsupported, "the pipeline stages its components itself"}));
    return promise;
  }
  const auto group = placement_->groups()->find(message.path);
  if (group && message.in)
    ask(stager_, stage_group_in{*group, observed(message.stamp)}, finished);
  else if (group)
    ask(stager_, stage_group_out{*group, observed(message.stamp)}, finished);
  else
    finished(attempt([&] {
      const host_thread::scope scope{*me_, message.stamp};
      placement_->stage_on_demand(message.path, message.in);
      return answered{owner_->stamp()};
    }));
  return promise;
}

void offloader::fail_boards(const failure& cause) {
  placement_->through()->board().fail(cause);
  placement_->groups()->board().fail(cause);
}

void offloader::finish_change(const caf::typed_response_promise<answered>& promise,
                              result<answered> outcome, bool in_request) {
  phase_ = phase::enabled;
  in_request_ = in_request;
  if (!in_request_)
    end_run();
  if (placement_ != nullptr && outcome && placement_->through()->board().failed())
    outcome = tl::unexpected(placement_->through()->board().first_failure());
  deliver(promise, std::move(outcome));
  continue_release();
  begin_next();
}

} // namespace ferry
