// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/slot_depth.hpp>
#include <ferry/platform/log.hpp>

#include "guarded.hpp"
#include "offloader.hpp"

#include <algorithm>
#include <utility>

namespace ferry {
caf::result<enabled> offloader::enable(const enable_pipeline& message) {
  check_idle();
  FERRY_ASSERT(message.subject != nullptr);
  if (message.lease != nullptr &&
      message.config.strategy != offload_strategy::distributed_layer_wise)
    refuse_start(
        {errc::unsupported, "strategy is " + std::string{to_string(message.config.strategy)} +
                                "; expected distributed_layer_wise for weights in a lease"});
  auto claim = pipeline_claim::take(message.subject);
  if (!claim)
    refuse_start(std::move(claim.error()));
  if (message.config.strategy == offload_strategy::model_level &&
      message.subject->custom_model_offload() != nullptr) {
    auto placed = attempt([&] { return delegate(message); });
    if (!placed)
      refuse_start(std::move(placed.error()));
    claim_ = std::move(*claim);
    return vote_without_blocks(message, std::move(*placed));
  }
  slots_ = slots_of(message.config);
  auto planned = attempt([&] { return plan(message); });
  if (!planned)
    refuse_start(std::move(planned.error()));
  if (!*planned)
    return vote_without_blocks(
        message, {.placed = false, .gate = nullptr, .stamp = observed(message.stamp)});
  if (options_.peers) {
    auto weights = attempt([&] {
      return identify_gathers(*message.subject, (*planned)->transfers, message.transforms.get());
    });
    if (!weights)
      refuse_start(std::move(weights.error()));
    ballot_ = make_ballot(owner_->traits().name, (*planned)->pipeline, message.config, slots_.first,
                          std::move(*weights));
  }
  auto made = std::make_unique<placement>(*owner_, message.subject,
                                          left_weights{message.lease, message.transforms},
                                          std::move(**planned), slots_, options_.memory_nodes);
  claim_ = std::move(*claim);
  return place(std::move(made), message.stamp);
}

std::optional<placement_plan> offloader::plan(const enable_pipeline& message) const {
  if (auto fits = message.subject->check_device(owner_->traits()); !fits)
    throw ferry_error{std::move(fits.error())};
  auto made = plan_placement(*message.subject, message.config, where());
  if (!made)
    throw ferry_error{std::move(made.error())};
  return std::move(*made);
}

rank_place offloader::where() const noexcept {
  if (!options_.peers)
    return {};
  const auto& ranks = *options_.peers->ranks;
  return {static_cast<std::size_t>(ranks.rank()), static_cast<std::size_t>(ranks.size())};
}

// A start that fails on one rank fails on all, and for good: no rank enters a collective to mend
// it.
void offloader::leave_ranks_because(const failure& cause) {
  if (!options_.peers || refusal_)
    return;
  refusal_ = cause;
  failed_ = true;
  tell(this, options_.peers->gate, leave_ranks{cause});
}

void offloader::refuse_start(failure cause) {
  leave_ranks_because(cause);
  throw ferry_error{std::move(cause)};
}

// Nothing is streamed, but other ranks may have something to gather: they wait for this vote, which
// they then find to be another.
caf::result<enabled> offloader::vote_without_blocks(const enable_pipeline& message,
                                                    enabled answer) {
  if (!options_.peers)
    return answer;
  ballot_ = make_ballot(owner_->traits().name, message.subject->type_name(), message.config,
                        slots_of(message.config).first, {});
  phase_ = phase::enabling;
  enabling_ = make_response_promise<enabled>();
  owe(enabling_);
  ask_gate([this, answer = std::move(answer)](const result<void>& agreed) {
    phase_ = delegate_ == nullptr ? phase::idle : phase::enabled;
    if (agreed) {
      enabling_.deliver(answer);
    } else {
      leave_ranks_because(agreed.error());
      if (delegate_ != nullptr)
        undo_delegate();
      enabling_.deliver(to_error(agreed.error()));
    }
    enabling_ = {};
    continue_release();
  });
  return enabling_;
}

caf::result<enabled> offloader::enable(const enable_weights& message) {
  check_idle();
  FERRY_ASSERT(message.weights != nullptr);
  slots_ = slots_of({});
  return place(std::make_unique<placement>(*owner_, message.weights, slots_), message.stamp);
}

// Before anything is resolved: what a pipeline does by itself needs no plan of ours.
enabled offloader::delegate(const enable_pipeline& message) {
  auto& own = *message.subject->custom_model_offload();
  const model_offload_request request{.pin_memory = message.config.pin_memory,
                                      .use_hsdp = message.config.use_hsdp,
                                      .components = message.config.components};
  auto finished = attempt([&] {
    const host_thread::scope scope{*me_, message.stamp};
    own.enable(*owner_, request);
    return owner_->stamp();
  });
  if (!finished) {
    if (auto undone = attempt([&] { own.disable(); }); !undone)
      log(log_level::error, "ferry.actors",
          "undo enable pipeline=" + std::string{message.subject->type_name()} +
              " reason=" + ferry::describe(undone.error()));
    throw ferry_error{finished.error()};
  }
  delegate_ = message.subject;
  phase_ = phase::enabled;
  return {.placed = true, .gate = nullptr, .stamp = std::move(*finished)};
}

void offloader::undo_delegate() {
  const auto pipeline = std::string{delegate_->type_name()};
  if (auto undone = attempt([&] { static_cast<void>(disable_delegate({})); }); !undone)
    log(log_level::error, "ferry.actors",
        "undo enable pipeline=" + pipeline + " reason=" + ferry::describe(undone.error()));
}

answered offloader::disable_delegate(const causal_stamp& stamp) {
  const host_thread::scope scope{*me_, stamp};
  if (auto finished = attempt([&] { delegate_->custom_model_offload()->disable(); }); !finished) {
    phase_ = phase::incomplete;
    throw ferry_error{{errc::incomplete, "the backend is not fully disabled; disable again: " +
                                             finished.error().detail}};
  }
  delegate_ = nullptr;
  claim_.reset();
  end_run();
  phase_ = phase::idle;
  return {owner_->stamp()};
}

slot_numbers offloader::slots_of(const offload_config& config) const noexcept {
  const auto first = config.slots.value_or(options_.slots);
  if (config.more_slots && !options_.peers)
    return {first, std::max(first, most_useful_slots)};
  return {first, config.slots ? first : options_.most_slots.value_or(first)};
}

void offloader::check_idle() const {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (phase_ == phase::idle)
    return;
  if (phase_ == phase::enabled || phase_ == phase::incomplete)
    throw ferry_error{{errc::already_enabled, "a backend is enabled; disable it first"}};
  throw ferry_error{{errc::busy, "another call is being carried out"}};
}

caf::result<enabled> offloader::place(std::unique_ptr<placement> what, const causal_stamp& stamp) {
  placement_ = std::move(what);
  placement_->through()->compute_on(options_.callers);
  placement_->through()->narrate(options_.ranges);
  placement_->groups()->narrate(options_.ranges);
  if (options_.peers)
    placement_->through()->share(options_.peers->ranks);
  port_ = std::make_shared<block_port>(placement_->through(), prefetcher_, supervisor_,
                                       options_.acquire_deadline);
  group_port_ = std::make_shared<group_port>(placement_->through(), placement_->groups(), stager_,
                                             supervisor_, options_.acquire_deadline);
  phase_ = phase::enabling;
  enabling_ = make_response_promise<enabled>();
  owe(enabling_);
  auto stores = attempt([&] { return placement_->survey(static_cast<bool>(options_.packer)); });
  if (!stores)
    abandon_enable(stores.error());
  else if (stores->empty())
    take_memory({}, stamp);
  else
    lease(std::move(*stores), stamp);
  return enabling_;
}

// Before anything is touched: a refusal costs nothing.
void offloader::lease(std::vector<pin_candidate> stores, const causal_stamp& stamp) {
  const auto& plan = placement_->plan();
  tell(this, host_memory_, give_back_leases{}); // In case the last backend's was lost.
  inquire(
      this, host_memory_, options_.request_deadline,
      lease_host_memory{plan.pipeline, std::move(stores), plan.pinning, placement_->pages_wanted()})
      .then(
          [this, stamp](const pin_lease& granted) {
            lease_ = granted.id;
            if (granted.no_pages)
              placement_->leave_pages(*granted.no_pages);
            take_memory(granted.plan, stamp);
          },
          [this](const caf::error& reason) { abandon_enable(to_failure(reason)); });
}

// What the model's allocator keeps for later may be in the way. Asked for once: if it was not that,
// nothing else will help.
void offloader::take_memory(const pin_plan& pins, const causal_stamp& stamp) {
  auto carved = carve(stamp);
  if (carved || carved.error().code != errc::out_of_device_memory || !retention_) {
    prepare(pins, carved);
    return;
  }
  log(log_level::info, "ferry.actors", "release cache reason=" + carved.error().detail);
  inquire(this, retention_, options_.request_deadline, release_cache{})
      .then([this, pins, stamp] { prepare(pins, carve(stamp)); },
            [this, pins, carved](const caf::error& reason) {
              log(log_level::warn, "ferry.actors",
                  "keep cache reason=" + ferry::describe(to_failure(reason)));
              prepare(pins, carved);
            });
}

result<causal_stamp> offloader::carve(const causal_stamp& stamp) {
  return attempt([&] {
    const host_thread::scope scope{*me_, stamp};
    const auto fits = check_memory(placement_->plan().transfers, slots_.first,
                                   options_.device_memory, owner_->memory());
    if (!fits)
      throw ferry_error{fits.error()};
    placement_->carve_memory();
    return owner_->stamp();
  });
}

void offloader::prepare(const pin_plan& pins, const result<causal_stamp>& carved) {
  if (!carved) {
    abandon_enable(carved.error());
    return;
  }
  auto prepared = attempt([&] {
    const host_thread::scope scope{*me_, *carved};
    placement_->register_pages(owner_);
    placement_->prepare(port_, group_port_, pins);
    return owner_->stamp();
  });
  if (!prepared) {
    abandon_enable(prepared.error());
    return;
  }
  if (lease_)
    tell(this, host_memory_,
         settle_lease{*lease_, placement_->pinned_bytes(), placement_->registered_bytes()});
  ask_packer(open_packing{placement_->through(), *prepared}, [this](result<answered> opened) {
    if (opened)
      load_residents(opened->stamp);
    else
      abandon_enable(opened.error());
  });
}

std::chrono::milliseconds offloader::behind_gathers() const {
  const auto waits = options_.peers && !placement_->plan().transfers.gathers.empty() &&
                     placement_->staged_stores() != 0;
  return waits ? std::chrono::ceil<std::chrono::milliseconds>(options_.peers->patience)
               : std::chrono::milliseconds{0};
}

void offloader::load_residents(const causal_stamp& prepared) {
  open_copies opening{.through = placement_->through(),
                      .gathers = {},
                      .packer = options_.packer,
                      .patience = options_.request_deadline + behind_gathers(),
                      .stamp = prepared};
  port_->be_patient(behind_gathers());
  if (options_.peers) {
    opening.gathers = options_.peers->gathers;
    opening.pipelining = options_.peers->pipelining;
  }
  ask(copies_, std::move(opening), [this](result<answered> loaded) {
    if (loaded)
      bind(loaded->stamp);
    else
      abandon_enable(loaded.error());
  });
}

void offloader::bind(const causal_stamp& residents_loaded) {
  auto bound = attempt([&] {
    const host_thread::scope scope{*me_, residents_loaded};
    placement_->through()->admit_residents();
    placement_->bind();
    return owner_->stamp();
  });
  if (!bound) {
    abandon_enable(bound.error());
    return;
  }
  vote(*bound);
}

// What this rank needs is there: the first gather may come once that is so on every rank.
void offloader::vote(const causal_stamp& bound) {
  if (!options_.peers) {
    open(bound);
    return;
  }
  ask_gate([this, bound](const result<void>& agreed) {
    if (!agreed) {
      abandon_enable(agreed.error());
      return;
    }
    ask_gathers(open_gathers{placement_->through(), bound}, [this](result<answered> ready) {
      if (ready)
        open(ready->stamp);
      else
        abandon_enable(ready.error());
    });
  });
}

void offloader::ask_gate(std::function<void(const result<void>&)> then) {
  log(log_level::info, "ferry.actors", "vote to start rank=" + std::to_string(where().rank));
  at_gate_ = true;
  inquire(this, options_.peers->gate, options_.peers->patience + options_.request_deadline,
          vote_to_start{ballot_})
      .then(
          [this, then] {
            at_gate_ = false;
            then({});
          },
          [this, then](const caf::error& reason) {
            at_gate_ = false;
            then(tl::unexpected(to_failure(reason)));
          });
}

void offloader::open(const causal_stamp& bound) {
  ask_groups(open_groups{placement_->groups(), bound}, [this](result<answered> opened) {
    if (!opened) {
      abandon_enable(opened.error());
      return;
    }
    ask_ring(open_ring{placement_->through(), std::move(opened->stamp)},
             [this](result<answered> primed) {
               if (primed)
                 finish_enable(primed->stamp);
               else
                 abandon_enable(primed.error());
             });
  });
}

void offloader::finish_enable(const causal_stamp& primed) {
  phase_ = phase::enabled;
  allocations_before_ = owner_->counters().allocations;
  placement_->watch_uses();
  const auto& transfers = placement_->plan().transfers;
  log(log_level::info, "ferry.actors",
      "enable backend blocks=" + std::to_string(transfers.blocks.size()) + " slots=" +
          std::to_string(slots_.first) + " slot_bytes=" + std::to_string(transfers.slot_bytes) +
          " resident_bytes=" + std::to_string(transfers.resident_bytes) +
          " in_place=" + std::to_string(placement_->blocks_in_place()));
  if (const auto left = placement_->pageable_stores(); left != 0)
    log(log_level::warn, "ferry.actors",
        "leave stores pageable count=" + std::to_string(left) +
            " pinned_bytes=" + std::to_string(placement_->pinned_bytes()));
  if (const auto staged = placement_->staged_stores(); staged != 0)
    log(log_level::info, "ferry.actors", "stage stores count=" + std::to_string(staged));
  enabled answer{.placed = true, .gate = port_, .groups = group_port_, .stamp = observed(primed)};
  for (std::size_t i = 0; i != placement_->groups()->groups().size(); ++i)
    answer.group_paths.emplace(placement_->groups()->groups()[i].path,
                               group_id{static_cast<std::uint32_t>(i)});
  enabling_.deliver(std::move(answer));
  enabling_ = {};
  continue_release();
}

void offloader::abandon_enable(failure cause) {
  leave_ranks_because(cause);
  tear_down({}, [this, cause = std::move(cause)](const result<void>&) {
    phase_ = placement_ == nullptr ? phase::idle : phase::incomplete;
    enabling_.deliver(to_error(cause));
    enabling_ = {};
    continue_release();
  });
}

caf::result<answered> offloader::disable(const disable_backend& message) {
  if (phase_ == phase::idle)
    throw ferry_error{{errc::not_enabled, "nothing is enabled"}};
  if (phase_ != phase::enabled && phase_ != phase::incomplete)
    throw ferry_error{{errc::busy, "another call is being carried out"}};
  if (in_request_ && !has_failed())
    throw ferry_error{{errc::busy, "a request is running; end it first"}};
  if (delegate_ != nullptr)
    return disable_delegate(message.stamp);
  if (placement_->through()->board().entered())
    throw ferry_error{{errc::busy, "a block is in use; release it first"}};
  phase_ = phase::disabling;
  auto promise = make_response_promise<answered>();
  owe(promise);
  tear_down(observed(message.stamp), [this, promise](const result<void>& outcome) {
    phase_ = placement_ == nullptr ? phase::idle : phase::incomplete;
    if (outcome)
      deliver(promise, result<answered>{answered{observed({})}});
    else
      deliver(promise, result<answered>{tl::unexpected(outcome.error())});
    continue_release();
  });
  return promise;
}

} // namespace ferry
