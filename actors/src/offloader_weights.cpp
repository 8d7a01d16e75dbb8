// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/log.hpp>

#include "guarded.hpp"
#include "offloader.hpp"

#include <utility>

namespace ferry {
namespace {

template <class T>
T checked(result<T> outcome) {
  if (!outcome)
    throw ferry_error{std::move(outcome.error())};
  return std::move(*outcome);
}

} // namespace

// The model thread binds tensors, which the names are looked up in: it stays outside meanwhile.
void offloader::hold_model_off() {
  check_enabled();
  if (placement_ == nullptr)
    throw ferry_error{{errc::unsupported, "the pipeline offloads its weights itself"}};
  if (in_request_)
    throw ferry_error{{errc::busy, "a request is running; come back after it has ended"}};
  if (!placement_->through()->board().hold_off(
          {errc::busy, "weights are being read or replaced; run the model afterwards"}))
    throw ferry_error{{errc::busy, placement_->held() + " is in use; release it first"}};
}

component_read offloader::read(const read_component& message) {
  hold_model_off();
  auto snapshot = attempt([&] { return placement_->read(message.component, message.names); });
  placement_->through()->board().admit();
  return {checked(std::move(snapshot)), observed(message.stamp)};
}

caf::result<weights_updated> offloader::update(const update_weights& message) {
  if (placement_ != nullptr && placement_->through()->gathers())
    throw ferry_error{{errc::unsupported, "ranks share the weights of this backend; disable it, "
                                          "change them on every rank and enable it again"}};
  hold_model_off();
  auto places = attempt([&] { return placement_->check(*message.update); });
  if (!places)
    placement_->through()->board().admit();
  auto change = std::make_shared<weight_change>();
  change->update = message.update;
  change->places = checked(std::move(places));
  change->promise = make_response_promise<weights_updated>();
  owe(change->promise);
  phase_ = phase::changing;
  quiet(observed(message.stamp), [this, change](const result<void>& outcome) {
    if (outcome)
      rewrite(change);
    else
      finish_update(change, tl::unexpected(outcome.error()));
  });
  return change->promise;
}

// Afterwards nothing on the device reads a master or a resident, and no slot holds a block.
void offloader::quiet(const causal_stamp& stamp, undo_handler then) {
  ask_ring(empty_ring{stamp}, [this, then = std::move(then)](result<answered> emptied) {
    if (!emptied) {
      then(tl::unexpected(emptied.error()));
      return;
    }
    ask_groups(end_request{std::move(emptied->stamp)}, [this, then](result<answered> left) {
      if (!left) {
        then(tl::unexpected(left.error()));
        return;
      }
      drain_all(left->stamp,
                [this, then](const drain_answers& answers) { then(wait_for_streams(answers)); });
    });
  });
}

void offloader::rewrite(const change_ptr& change) {
  const auto resident = placement_->touches_residents(change->places);
  auto written = attempt([&] {
    const host_thread::scope scope{*me_};
    change->rewrite = placement_->rewrite(change->places);
    change->rewrite->write(change->update->values);
    return owner_->stamp();
  });
  if (!written) {
    finish_update(change, tl::unexpected(written.error()));
    return;
  }
  if (!resident) {
    finish_update(change, placement_->updated(change->update->component));
    return;
  }
  load_residents_again(*written, [this, change](const result<void>& loaded) {
    if (loaded)
      finish_update(change, placement_->updated(change->update->component));
    else
      undo_update(change, loaded.error());
  });
}

void offloader::load_residents_again(const causal_stamp& stamp, undo_handler then) {
  ask(copies_, reload_residents{stamp}, [this, then = std::move(then)](result<answered> loaded) {
    if (!loaded) {
      then(tl::unexpected(loaded.error()));
      return;
    }
    then(attempt([&] {
      const host_thread::scope scope{*me_, loaded->stamp};
      placement_->through()->admit_residents();
    }));
  });
}

// Copies that were enqueued before one failed still read the masters.
void offloader::undo_update(const change_ptr& change, const failure& cause) {
  quiet(observed({}), [this, change, cause](const result<void>& quieted) {
    const auto stamp = attempt([&] {
      const host_thread::scope scope{*me_};
      change->rewrite->write_back();
      return owner_->stamp();
    });
    load_residents_again(
        stamp.value_or(causal_stamp{}), [this, change, cause, quieted](const result<void>& loaded) {
          if (!loaded || !quieted) {
            auto reason = loaded ? quieted.error() : loaded.error();
            log(log_level::error, "ferry.actors",
                "load residents as before an update reason=" + ferry::describe(reason));
            fail_boards(reason);
            tell(this, supervisor_, child_failed{"resident weights", 0, std::move(reason)});
          }
          finish_update(change, tl::unexpected(cause));
        });
  });
}

void offloader::finish_update(const change_ptr& change, result<weight_version> outcome) {
  change->rewrite = nullptr;
  ask_ring(refill_ring{observed({})},
           [this, change, outcome = std::move(outcome)](const result<answered>& refilled) {
             phase_ = phase::enabled;
             placement_->through()->board().admit();
             if (outcome) {
               log(log_level::info, "ferry.actors",
                   "update weights component=" + change->update->component +
                       " tensors=" + std::to_string(change->places.size()) +
                       " version=" + std::to_string(static_cast<std::uint64_t>(*outcome)));
               change->promise.deliver(weights_updated{
                   *outcome, observed(refilled ? refilled->stamp : causal_stamp{})});
             } else {
               change->promise.deliver(to_error(outcome.error()));
             }
             continue_release();
             begin_next();
           });
}

} // namespace ferry
