// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/log.hpp>

#include "guarded.hpp"
#include "offloader.hpp"

#include <utility>

namespace ferry {
namespace {

bool is_gone(const result<answered>& answer) {
  return !answer && answer.error().code == errc::transfer_aborted;
}

/// An actor that has not said that it let go may still use what it shares.
bool may_hold(const result<answered>& answer) {
  return !answer && !is_gone(answer);
}

failure still_held(const std::string& who) {
  return {errc::incomplete, who + " still holds the backend; disable again"};
}

} // namespace

void offloader::tear_down(const causal_stamp& stamp, undo_handler then) {
  fail_boards({errc::not_enabled, "the backend is disabled"});
  if (!placement_->through()->board().wait_left(options_.request_deadline)) {
    then(tl::unexpected(
        failure{errc::incomplete, "a block is still in use; release it, then disable again"}));
    return;
  }
  ask(prefetcher_, close_ring{stamp}, [this, then = std::move(then)](result<answered> closed) {
    if (may_hold(closed)) {
      then(tl::unexpected(still_held("block_prefetcher")));
      return;
    }
    drain_all(closed ? closed->stamp : causal_stamp{}, [this, then](const drain_answers& answers) {
      auto dry = wait_for_streams(answers);
      limit_.reset();
      let_go_unless_running(std::move(dry), then);
    });
  });
}

// Whoever gives work to another is asked first.
void offloader::drain_all(const causal_stamp& stamp, drain_handler then) {
  const auto known = [](const result<answered>& answer) {
    return answer ? answer->stamp : causal_stamp{};
  };
  ask(stager_, drain_groups{stamp}, [this, known, then](const result<answered>& staged) {
    ask(copies_, drain_copies{known(staged)},
        [this, known, then, staged](const result<answered>& copied) {
          ask_gathers(drain_gathers{known(copied)}, [this, known, then, staged,
                                                     copied](const result<answered>& gathered) {
            ask_packer(drain_packing{known(gathered)},
                       [then, staged, copied, gathered](const result<answered>& packed) {
                         then({staged, copied, gathered, packed});
                       });
          });
        });
  });
}

void offloader::let_go_unless_running(result<void> dry, const undo_handler& then) {
  if (!dry && can_go_on_without_answers(dry.error()))
    dry = withdraw_permits();
  if (!dry) {
    dry.error().detail = "the backend is not fully disabled; disable again: " +
                         std::exchange(dry.error().detail, {});
    dry.error().code = errc::incomplete;
    then(dry);
    return;
  }
  let_go(then);
}

void offloader::let_go(undo_handler then) {
  ask(stager_, close_groups{observed({})},
      [this, then = std::move(then)](const result<answered>& staged) {
        if (may_hold(staged)) {
          then(tl::unexpected(still_held("component_stager")));
          return;
        }
        ask(copies_, close_copies{observed({})}, [this, then](const result<answered>& copied) {
          if (may_hold(copied))
            then(tl::unexpected(still_held("copy_stream_worker")));
          else
            close_workers(then);
        });
      });
}

// Those that the copy worker gives work to.
void offloader::close_workers(undo_handler then) {
  ask_gathers(close_gathers{observed({})}, [this, then = std::move(then)](
                                               const result<answered>& gathered) {
    if (may_hold(gathered)) {
      then(tl::unexpected(still_held("comm_stream_worker")));
      return;
    }
    ask_packer(close_packing{observed({})}, [this, then](const result<answered>& packed) {
      if (may_hold(packed))
        then(tl::unexpected(still_held("host_packer")));
      else
        then(take_back());
    });
  });
}

// The stream of one that is gone is waited for without it.
result<void> offloader::wait_for_streams(const drain_answers& answers) {
  const auto& [staged, copied, gathered, packed] = answers;
  auto& through = *placement_->through();
  if (!through.is_open())
    return {};
  for (const auto* each : {&staged, &copied, &gathered, &packed})
    if (may_hold(*each) && each->error().code != errc::not_enabled) // Else it enqueued nothing.
      return tl::unexpected(each->error());
  return attempt([&] {
    const host_thread::scope scope{*me_, copied ? copied->stamp : causal_stamp{}};
    if (staged) {
      owner_->observe(staged->stamp);
      placement_->groups()->drained().drain(drain_before_restore);
    } else if (is_gone(staged)) {
      placement_->groups()->permit()->withdraw(drain_before_restore);
    }
    if (copied)
      through.drained().drain(drain_before_restore);
    else if (is_gone(copied))
      through.copying()->withdraw(drain_before_restore);
    if (gathered && through.gathers()) {
      owner_->observe(gathered->stamp);
      through.gathers_drained().drain(drain_gathers_before_release);
    } else if (is_gone(gathered)) {
      through.exchanging()->withdraw(drain_gathers_before_release);
    }
    if (packed)
      owner_->observe(packed->stamp);
    else if (is_gone(packed))
      withdraw_packing();
    through.drain_compute(drain_compute_before_release);
  });
}

// It has no stream: what it does is done when it has handled its message.
void offloader::withdraw_packing() {
  auto& permit = *placement_->through()->packing();
  permit.withdraw(drain_before_restore);
  owner_->observe(permit.known());
}

// Needs no answer of anybody: who goes on finds that it may do nothing any more. A device that
// failed for good runs nothing any more: waiting for it would keep the weights for ever, although
// their masters are intact.
result<void> offloader::withdraw_permits() {
  auto& through = *placement_->through();
  if (!through.is_open())
    return {};
  const host_thread::scope scope{*me_};
  result<void> dry;
  const auto then = [&dry](auto&& act) {
    if (auto waited = attempt(act); !waited && dry)
      dry = std::move(waited);
  };
  if (through.gathers()) {
    options_.peers->ranks->abort({errc::transfer_aborted, "the backend is taken back"});
    then([&] { through.exchanging()->withdraw(drain_gathers_before_release); });
  }
  then([&] { placement_->groups()->permit()->withdraw(drain_before_restore); });
  then([&] { through.copying()->withdraw(drain_before_restore); });
  then([&] { withdraw_packing(); });
  then([&] { through.drain_compute(drain_compute_before_release); });
  if (!dry && dry.error().code == errc::device_poisoned)
    return {};
  return dry;
}

// What still serves keeps its permits: its disable may be repeated.
bool offloader::can_go_on_without_answers(const failure& reason) const {
  log(log_level::error, "ferry.actors", "drain streams reason=" + ferry::describe(reason));
  // One that has not answered may have copies under way. Where ranks gather, the group is lost with
  // it, and no repetition helps.
  if (reason.code == errc::deadline_exceeded)
    return placement_->through()->gathers();
  return failed_ || phase_ == phase::enabling || reason.code == errc::device_poisoned;
}

result<void> offloader::take_back() {
  return attempt([&]() -> result<void> {
    const host_thread::scope scope{*me_};
    if (auto undone = placement_->take_back(); !undone)
      return undone;
    auto ended = placement_->end_lease();
    port_->close();
    port_ = nullptr;
    group_port_->close();
    group_port_ = nullptr;
    placement_ = nullptr;
    claim_.reset();
    end_run();
    unsettled_ = false;
    lease_.reset();
    tell(this, host_memory_, give_back_leases{});
    log(log_level::info, "ferry.actors", "disable backend");
    if (!ended)
      log(log_level::error, "ferry.actors",
          "close host weights reason=" + ferry::describe(ended.error()));
    return ended;
  });
}

// Nobody answers this actor any more, and nobody could repeat a disable.
void offloader::take_back_alone() {
  const failure cause{errc::transfer_aborted, "the offloader ended by itself"};
  if (phase_ == phase::idle || phase_ == phase::enabled || phase_ == phase::incomplete)
    owed_ = nullptr;
  if (delegate_ == nullptr && placement_ == nullptr) {
    answer_all(cause);
    return;
  }
  result<void> undone;
  if (delegate_ != nullptr)
    undone = attempt([&] { static_cast<void>(disable_delegate({})); });
  if (placement_ != nullptr) {
    fail_boards(cause);
    if (placement_->through()->board().wait_left(options_.request_deadline))
      undone = undo_alone();
    else
      undone = tl::unexpected(
          failure{errc::deadline_exceeded, "the model has not released " + placement_->held()});
  }
  tell(this, supervisor_, child_failed{name(), 0, cause, observed({})});
  answer_all(cause);
  if (undone)
    return;
  log(log_level::error, "ferry.actors",
      "abandon backend reason=" + ferry::describe(undone.error()));
  // Something may still use it: better kept for ever than taken away.
  static_cast<void>(placement_.release());
}

void offloader::answer_all(const failure& cause) {
  if (owed_)
    owed_(cause);
  if (releasing_.pending())
    releasing_.deliver(to_error(cause));
  for (auto& [id, promise] : queries_)
    promise.deliver(to_error(cause));
  queries_.clear();
  refuse_waiting(cause);
}

result<void> offloader::undo_alone() {
  result<void> undone;
  for (auto attempts = most_undo_attempts; attempts != 0; --attempts) {
    undone = withdraw_permits();
    if (undone)
      undone = take_back();
    if (placement_ == nullptr)
      break;
  }
  return undone;
}

} // namespace ferry
