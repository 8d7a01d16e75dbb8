// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "copy_stream_worker.hpp"

#include <ferry/offload/wait_edges.hpp>

#include "guarded.hpp"

#include <utility>

namespace ferry {

copy_stream_worker::copy_stream_worker(caf::actor_config& config, std::shared_ptr<device> owner,
                                       supervisor_actor supervisor)
    : copy_stream_actor::base(config), owner_(std::move(owner)),
      supervisor_(std::move(supervisor)) {}

copy_stream_worker::behavior_type copy_stream_worker::make_behavior() {
  return {
      [this](const fetch_block& m) { return guarded([&] { fetch(m); }); },
      [this](const open_copies& m) { return guarded([&] { return open(m); }); },
      [this](const reload_residents& m) { return guarded([&] { return reload(m); }); },
      [this](const discard_slot& m) { return guarded([&] { discard(m); }); },
      [this](const drain_copies& m) { return guarded([&] { return drain(m); }); },
      [this](const close_copies& m) { return guarded([&] { return close(m); }); },
      [this](const start_child& m) { return guarded([&] { start(m); }); },
      [this](const drain_child& m) { return guarded([&] { drain(m); }); },
      [this](const release_child&) { return guarded([&] { return release(); }); },
  };
}

void copy_stream_worker::on_exit() {
  through_ = nullptr;
  supervisor_ = nullptr;
}

void copy_stream_worker::start(const start_child& message) {
  generation_ = message.generation;
  lane_.emplace(*owner_);
}

void copy_stream_worker::drain(const drain_child& message) {
  if (!refusal_)
    refusal_ = message.cause;
}

answered copy_stream_worker::release() {
  answered last;
  if (lane_) {
    const host_thread::scope scope{lane_->me};
    through_ = nullptr;
    last.stamp = owner_->stamp();
  }
  lane_.reset();
  quit();
  return last;
}

answered copy_stream_worker::open(const open_copies& message) {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (through_ != nullptr)
    throw ferry_error{{errc::busy, "the copy worker serves a backend already"}};
  FERRY_ASSERT(lane_.has_value());
  const host_thread::scope scope{lane_->me, message.stamp};
  through_ = message.through;
  load_residents();
  return {owner_->stamp()};
}

answered copy_stream_worker::reload(const reload_residents& message) {
  if (refusal_)
    throw ferry_error{*refusal_};
  if (through_ == nullptr)
    throw ferry_error{{errc::not_enabled, "the copy worker serves no backend"}};
  const host_thread::scope scope{lane_->me, message.stamp};
  load_residents();
  return {owner_->stamp()};
}

void copy_stream_worker::load_residents() {
  for (const auto& each : through_->residents())
    copy_all(each.from, each.target, {.what = "load resident"});
  lane_->copies.record(through_->residents_ready());
}

void copy_stream_worker::fetch(const fetch_block& message) {
  if (idle())
    return;
  const auto& block = through_->at(message.block);
  const auto fetched = attempt([&] {
    const host_thread::scope scope{lane_->me, message.stamp};
    auto& slot = through_->at(message.slot);
    if (message.after_last_use)
      lane_->copies.wait(slot.last_use, fetch_waits_last_use);
    copy_all(block.from, slot.bytes,
             {.what = "fetch",
              .block = static_cast<std::uint32_t>(message.block),
              .ticket = message.generation});
    lane_->copies.record(slot.ready);
    through_->board().publish(message.slot, message.generation, owner_->stamp());
  });
  if (!fetched) {
    auto reason = fetched.error();
    reason.block = block.path;
    fail(std::move(reason));
  }
}

void copy_stream_worker::copy_all(streaming::sources from, mutable_bytes target,
                                  operation_tag tag) {
  for (const auto& each : from)
    lane_->copies.copy({.target = target.subspan(each.offset, each.source.size()),
                        .source = each.source,
                        .to = memory_kind::device,
                        .from = each.kind,
                        .tag = tag});
}

void copy_stream_worker::discard(const discard_slot& message) {
  if (idle())
    return;
  const auto discarded = attempt([&] {
    const host_thread::scope scope{lane_->me, message.stamp};
    auto& slot = through_->at(message.slot);
    // The fetch that waited for it may have failed to come.
    lane_->copies.wait(slot.last_use, fetch_waits_last_use);
    lane_->copies.discard(slot.bytes, {.what = "discard"});
  });
  if (!discarded)
    fail(discarded.error());
}

answered copy_stream_worker::drain(const drain_copies& message) {
  if (through_ == nullptr)
    throw ferry_error{{errc::not_enabled, "the copy worker serves no backend"}};
  const host_thread::scope scope{lane_->me, message.stamp};
  lane_->copies.record(through_->drained());
  return {owner_->stamp()};
}

answered copy_stream_worker::close(const close_copies& message) {
  if (!lane_)
    return {};
  const host_thread::scope scope{lane_->me, message.stamp};
  through_ = nullptr;
  return {owner_->stamp()};
}

void copy_stream_worker::fail(failure reason) {
  refusal_ = reason;
  through_->board().fail(reason);
  tell(this, supervisor_, child_failed{name(), generation_, std::move(reason)});
}

} // namespace ferry
