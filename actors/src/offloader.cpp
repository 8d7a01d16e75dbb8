// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "offloader.hpp"

#include <ferry/platform/log.hpp>

#include "guarded.hpp"

#include <utility>

namespace ferry {

offloader::offloader(caf::actor_config& config, std::shared_ptr<device> owner,
                     offloader_options options, host_memory_actor memory, copy_stream_actor copies,
                     block_prefetcher_actor prefetcher, component_stager_actor stager,
                     supervisor_actor supervisor)
    : offloader_actor::base(config), owner_(std::move(owner)), options_(options),
      host_memory_(std::move(memory)), copies_(std::move(copies)),
      prefetcher_(std::move(prefetcher)), stager_(std::move(stager)),
      supervisor_(std::move(supervisor)) {}

offloader::behavior_type offloader::make_behavior() {
  return {
      [this](const enable_pipeline& m) {
        return guarded_later<enabled>(this, m, [&] { return enable(m); });
      },
      [this](const enable_weights& m) {
        return guarded_later<enabled>(this, m, [&] { return enable(m); });
      },
      [this](const disable_backend& m) {
        return guarded_later<answered>(this, m, [&] { return disable(m); });
      },
      [this](const queue_request& m) {
        return guarded_later<answered>(this, m, [&] { return queue(m); });
      },
      [this](const expire_requests& m) { return guarded(this, m, [&] { expire(); }); },
      [this](const cancel_request& m) { return guarded(this, m, [&] { cancel(m); }); },
      [this](const end_request& m) {
        return guarded_later<answered>(this, m, [&] { return end(m); });
      },
      [this](const announce_blocks& m) {
        return guarded_later<answered>(this, m, [&] { return announce(m); });
      },
      [this](const stage_component& m) {
        return guarded_later<answered>(this, m, [&] { return stage(m); });
      },
      [this](const update_weights& m) {
        return guarded_later<weights_updated>(this, m, [&] { return update(m); });
      },
      [this](const read_component& m) { return guarded(this, m, [&] { return read(m); }); },
      [this](const use_cache_retention& m) {
        return guarded(this, m, [&] { retention_ = m.whom; });
      },
      [this](const query_offload& m) {
        return guarded_later<offload_state>(this, m, [&] { return query(); });
      },
      [this](const start_child& m) { return guarded(this, m, [&] { start(); }); },
      [this](const drain_child& m) { return guarded(this, m, [&] { drain(m); }); },
      [this](const release_child& m) {
        return guarded_later<answered>(this, m, [&] { return release(m); });
      },
  };
}

void offloader::on_exit() {
  take_back_alone();
  limit_.reset();
  enabling_ = {};
  releasing_ = {};
  port_ = nullptr;
  group_port_ = nullptr;
  placement_ = nullptr;
  host_memory_ = nullptr;
  copies_ = nullptr;
  prefetcher_ = nullptr;
  stager_ = nullptr;
  supervisor_ = nullptr;
  retention_ = nullptr;
  options_.peers.reset();
  options_.packer = nullptr;
}

void offloader::start() {
  me_.emplace(*owner_, name());
}

void offloader::drain(const drain_child& message) {
  if (refusal_)
    return;
  refusal_ = message.cause;
  failed_ = message.failed;
  if (at_gate_)
    options_.peers->meeting->poison(message.cause);
  if (placement_ != nullptr)
    fail_boards(message.cause);
  refuse_waiting(message.cause);
}

caf::result<answered> offloader::release(const release_child& message) {
  // Who asks again has given up on the first answer, and gets that of the release under way.
  if (releasing_.pending())
    deliver_release({errc::deadline_exceeded, "asked to release once more"});
  release_until_ = std::chrono::steady_clock::now() + message.deadline;
  release_attempts_ = most_undo_attempts;
  releasing_ = make_response_promise<answered>();
  if (ranks_gather())
    limit_.emplace(options_.peers->ranks, message.deadline / 4,
                   failure{errc::transfer_aborted, "the runtime is stopping"});
  if (phase_ == phase::idle || phase_ == phase::enabled || phase_ == phase::incomplete)
    continue_release();
  return releasing_;
}

// Also comes here when a transition that was under way has ended.
void offloader::continue_release() {
  if (!releasing_.pending())
    return;
  if (phase_ == phase::idle) {
    if (me_ && abandoned_registrations(*owner_) != 0)
      retry_pages();
    releasing_.deliver(answered{me_ ? observed({}) : causal_stamp{}});
    me_.reset();
    releasing_ = {};
    quit();
    return;
  }
  if (delegate_ != nullptr) {
    if (auto gone = attempt([&] { return disable_delegate({}); }); !gone)
      deliver_release(gone.error());
    else
      continue_release();
    return;
  }
  fail_boards({errc::transfer_aborted, "the runtime is stopping"});
  if (!placement_->through()->board().wait_left(release_until_ -
                                                std::chrono::steady_clock::now())) {
    deliver_release({errc::deadline_exceeded, "the model has not released " + placement_->held()});
    return;
  }
  phase_ = phase::disabling;
  owed_ = nullptr;
  tear_down({}, [this](const result<void>& outcome) {
    phase_ = placement_ == nullptr ? phase::idle : phase::incomplete;
    if (outcome || --release_attempts_ > 0)
      continue_release();
    else
      deliver_release(outcome.error());
  });
}

// What an earlier disable or enable could not give back.
void offloader::retry_pages() {
  const host_thread::scope scope{*me_};
  for (const auto& each : retry_registrations(*owner_))
    log(log_level::error, "ferry.actors", "keep pages registered reason=" + ferry::describe(each));
}

void offloader::deliver_release(const failure& reason) {
  limit_.reset();
  releasing_.deliver(to_error(reason));
  releasing_ = {};
}

caf::result<offload_state> offloader::query() {
  if (phase_ == phase::idle)
    return describe({});
  auto promise = make_response_promise<offload_state>();
  const auto id = ++last_query_;
  queries_.emplace(id, promise);
  const auto answer = [this, id](const ring_counts& counts) {
    queries_.extract(id).mapped().deliver(describe(counts));
  };
  inquire(this, prefetcher_, options_.request_deadline, query_ring{})
      .then(answer, [answer](const caf::error&) { answer({}); });
  return promise;
}

offload_state offloader::describe(const ring_counts& counts) const {
  offload_state state;
  if (failed_)
    state.first_failure = refusal_;
  state.requests_waiting = waiting_.size();
  if (delegate_ != nullptr) {
    state.strategy = offload_strategy::model_level;
    state.enabled = true;
    state.in_request = in_request_;
  }
  if (placement_ == nullptr)
    return state;
  const auto& plan = placement_->plan();
  const auto& board = placement_->through()->board();
  const auto tickets = board.count();
  if (!state.first_failure && board_failed())
    state.first_failure = board.first_failure();
  state.strategy = plan.strategy;
  state.enabled = phase_ != phase::enabling;
  state.in_request = in_request_;
  state.components = placement_->components();
  for (const auto& each : plan.transfers.blocks)
    state.blocks.push_back(each.path);
  state.slots = placement_->through()->slot_count();
  state.slot_bytes = plan.transfers.slot_bytes;
  state.resident_bytes = plan.transfers.resident_bytes;
  state.pinned_bytes = placement_->pinned_bytes();
  state.registered_bytes = placement_->registered_bytes();
  if (const auto& reason = placement_->not_registered())
    state.not_registered = ferry::describe(*reason);
  state.pageable_stores = placement_->pageable_stores();
  state.staged_stores = placement_->staged_stores();
  state.misplaced_stores = placement_->misplaced_stores();
  state.peak_device_weight_bytes = placement_->device_bytes();
  state.collectives = placement_->through()->collectives();
  state.gathered_bytes = placement_->through()->gathered_bytes();
  state.prefetches = counts.prefetches;
  state.blocking_loads = counts.blocking_loads;
  state.block_uses = placement_->through()->uses();
  state.block_passes = placement_->through()->passes();
  state.device_allocations = owner_->counters().allocations - allocations_before_;
  state.tickets_in_flight = tickets.in_flight;
  state.slots_free = static_cast<std::uint32_t>(state.slots) - tickets.in_flight;
  return state;
}

bool offloader::board_failed() const noexcept {
  const auto serves = phase_ == phase::enabled || phase_ == phase::changing;
  return placement_ != nullptr && serves && placement_->through()->board().failed();
}

bool offloader::has_failed() const noexcept {
  return refusal_ || board_failed();
}

void offloader::check_enabled() const {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (board_failed())
    throw ferry_error{placement_->through()->board().first_failure()};
  if (phase_ == phase::idle)
    throw ferry_error{{errc::not_enabled, "nothing is enabled; enable a pipeline first"}};
  if (phase_ == phase::incomplete)
    throw ferry_error{{errc::incomplete, "the backend is not fully disabled; disable again"}};
  if (phase_ != phase::enabled)
    throw ferry_error{{errc::busy, "another call is being carried out"}};
}

void offloader::deliver(caf::typed_response_promise<answered> promise, result<answered> outcome) {
  if (!promise.pending())
    return;
  if (outcome)
    promise.deliver(std::move(*outcome));
  else
    promise.deliver(to_error(outcome.error()));
}

causal_stamp offloader::observed(const causal_stamp& stamp) {
  return attempt([&] {
           const host_thread::scope scope{*me_, stamp};
           return owner_->stamp();
         })
      .value_or(causal_stamp{});
}

} // namespace ferry
