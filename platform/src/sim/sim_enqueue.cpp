// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "copy_checks.hpp"
#include "ferry/platform/sim_device.hpp"
#include "sim/device_access.hpp"
#include "sim/random.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ferry {
namespace {

nanoseconds scaled(nanoseconds span, double factor) {
  return nanoseconds{std::llround(static_cast<double>(span.count()) * factor)};
}

double to_device_bandwidth(const sim_options& options, memory_kind from) {
  const auto is_pageable = from == memory_kind::pageable || from == memory_kind::mapped;
  return is_pageable && options.pageable_bandwidth != 0 ? options.pageable_bandwidth
                                                        : options.h2d_bandwidth;
}

operation_span span_of(operation_kind kind, operation_tag tag, std::uint64_t bytes) {
  return {.kind = kind,
          .stream = {},
          .tag = tag,
          .bytes = bytes,
          .enqueued = {},
          .start = {},
          .end = {}};
}

nanoseconds modelled_compute(const sim_options& options, const operation_tag& tag) {
  return tag.block < options.block_compute.size() ? options.block_compute[tag.block]
                                                  : options.compute;
}

} // namespace

void sim_device::copy(stream_id stream, const copy_operation& operation) {
  auto guard = state_->lock();
  auto& host = state_->caller("copy");
  auto& own = state_->own;
  auto& on = state_->stream(stream, "copy");
  require_copyable(operation, own.traits);
  if (operation.to == memory_kind::registered)
    throw device_error(errc::invalid_argument, "copy", "registered pages are only read");
  state_->require_memory("copy", "the target", operation.target, operation.to);
  state_->require_memory("copy", "the source", operation.source, operation.from);
  own.faults.enter(device_call::copy);

  auto bytes = operation.source.size();
  auto to_device = operation.to == memory_kind::device && operation.from != memory_kind::device;
  auto to_host = operation.to != memory_kind::device && operation.from == memory_kind::device;
  auto bandwidth = to_device ? to_device_bandwidth(own.options, operation.from)
                   : to_host ? own.options.d2h_bandwidth
                             : own.options.on_device_bandwidth;
  host.time += own.options.launch;
  auto op = state_->enqueue(host, on, sim::operation_role::work,
                            span_of(operation_kind::copy, operation.tag, bytes));
  op->over = to_device ? own.h2d : to_host ? own.d2h : nullptr;
  op->duration = scaled(own.options.latency + sim::transfer_time(bytes, bandwidth),
                        sim::lognormal(op->key, own.options.jitter));
  if (own.options.contents) {
    op->target = operation.target;
    op->source = operation.source;
    op->convert = operation.convert;
  }
  ++own.counters.copies;
  own.counters.h2d_bytes += to_device ? bytes : 0;
  own.counters.d2h_bytes += to_host ? bytes : 0;
  state_->access(*op, "copy", on, host, operation.source, false);
  state_->access(*op, "copy", on, host, operation.target, true);
  if (operation.from == memory_kind::registered && bytes != 0) {
    const auto* through = own.registered.find(operation.source);
    state_->access(*op, "copy", on, host, {through->mark.get(), 1}, false);
  }
  state_->submit(host, on, op);
}

void sim_device::populate(stream_id stream, const_bytes pages, operation_tag tag) {
  auto guard = state_->lock();
  auto& own = state_->own;
  if (!own.traits.computes_in_place)
    return device::populate(stream, pages, tag);
  auto& host = state_->caller("populate");
  auto& on = state_->stream(stream, "populate");
  state_->require_memory("populate", "the range", pages, memory_kind::mapped);
  own.faults.enter(device_call::copy);

  host.time += own.options.launch;
  auto op = state_->enqueue(host, on, sim::operation_role::work,
                            span_of(operation_kind::copy, tag, pages.size()));
  const auto bandwidth = to_device_bandwidth(own.options, memory_kind::mapped);
  op->over = own.h2d;
  op->duration = scaled(own.options.latency + sim::transfer_time(pages.size(), bandwidth),
                        sim::lognormal(op->key, own.options.jitter));
  ++own.counters.copies;
  own.counters.h2d_bytes += pages.size();
  state_->access(*op, "populate", on, host, pages, true);
  state_->submit(host, on, op);
}

void sim_device::evict(stream_id stream, const_bytes pages, operation_tag tag) {
  auto guard = state_->lock();
  auto& own = state_->own;
  if (!own.traits.computes_in_place)
    return device::evict(stream, pages, tag);
  auto& host = state_->caller("evict");
  auto& on = state_->stream(stream, "evict");
  own.faults.require_alive("evict");
  state_->require_memory("evict", "the range", pages, memory_kind::mapped);

  auto op = state_->enqueue(host, on, sim::operation_role::work,
                            span_of(operation_kind::discard, tag, 0));
  state_->access(*op, "evict", on, host, pages, true);
  state_->submit(host, on, op);
}

void sim_device::compute(stream_id stream, const compute_operation& operation) {
  auto guard = state_->lock();
  auto& host = state_->caller("compute");
  auto& own = state_->own;
  auto& on = state_->stream(stream, "compute");
  for (auto range : operation.reads)
    state_->require_not_released("compute", range);
  for (auto range : operation.writes)
    state_->require_not_released("compute", range);
  own.faults.enter(device_call::compute);

  host.time += own.options.launch;
  auto op = state_->enqueue(host, on, sim::operation_role::work,
                            span_of(operation_kind::compute, operation.tag, 0));
  const auto duration = operation.duration == nanoseconds::zero()
                            ? modelled_compute(own.options, operation.tag)
                            : operation.duration;
  op->duration = scaled(duration, sim::lognormal(op->key, own.options.compute_jitter));
  for (auto range : operation.reads)
    state_->access(*op, "compute", on, host, range, false);
  for (auto range : operation.writes)
    state_->access(*op, "compute", on, host, range, true);
  state_->submit(host, on, op);
}

void sim_device::discard(stream_id stream, mutable_bytes range, operation_tag tag) {
  auto guard = state_->lock();
  auto& host = state_->caller("discard");
  auto& on = state_->stream(stream, "discard");
  state_->own.faults.require_alive("discard");
  state_->require_memory("discard", "the range", range, memory_kind::device);

  auto op = state_->enqueue(host, on, sim::operation_role::work,
                            span_of(operation_kind::discard, tag, 0));
  if (state_->own.options.contents)
    op->target = range;
  state_->access(*op, "discard", on, host, range, true);
  state_->submit(host, on, op);
}

void sim_device::mark(stream_id stream, operation_tag tag) {
  auto guard = state_->lock();
  auto& host = state_->caller("mark");
  auto& on = state_->stream(stream, "mark");
  state_->own.faults.require_alive("mark");
  state_->submit(
      host, on,
      state_->enqueue(host, on, sim::operation_role::work, span_of(operation_kind::mark, tag, 0)));
}

void sim_device::record(stream_id stream, event_id event) {
  auto guard = state_->lock();
  auto& host = state_->caller("record");
  auto& on = state_->stream(stream, "record");
  auto& version = state_->event(event, "record");
  state_->own.faults.enter(device_call::record);

  auto op =
      state_->enqueue(host, on, sim::operation_role::record, span_of(operation_kind::mark, {}, 0));
  state_->submit(host, on, op);
  version = {on.clock, op};
}

void sim_device::wait(stream_id stream, event_id event, wait_edge edge) {
  auto guard = state_->lock();
  auto& host = state_->caller("wait");
  auto& on = state_->stream(stream, "wait");
  auto& version = state_->event(event, "wait");
  state_->own.faults.enter(device_call::wait);
  if (state_->forgotten(edge) || !version.record)
    return;

  auto op =
      state_->enqueue(host, on, sim::operation_role::wait, span_of(operation_kind::mark, {}, 0));
  on.clock.join(version.clock);
  on.clock.resolve();
  op->awaited = version.record;
  state_->submit(host, on, op);
}

bool sim_device::ready(event_id event) {
  constexpr auto least_cost_of_asking = nanoseconds{100};
  auto guard = state_->lock();
  auto& host = state_->caller("ready");
  auto& version = state_->event(event, "ready");
  state_->own.faults.enter(device_call::ready);
  if (!version.record)
    return true;

  auto known = host.clock;
  known.join(version.clock);
  known.resolve();
  state_->machine->times.evaluate(known);
  if (!version.record->timed || version.record->span.end > host.time) {
    host.time += std::max(state_->own.options.launch, least_cost_of_asking);
    return false;
  }
  state_->learn(host, version.clock);
  return true;
}

void sim_device::synchronize(event_id event, wait_edge edge) {
  auto guard = state_->lock();
  auto& host = state_->caller("synchronize");
  auto& version = state_->event(event, "synchronize");
  state_->own.faults.enter(device_call::synchronize);
  if (!state_->forgotten(edge) && version.record)
    state_->wait_for(guard, host, version.record, version.clock);
}

void sim_device::synchronize(stream_id stream, wait_edge edge) {
  auto guard = state_->lock();
  auto& host = state_->caller("synchronize");
  auto& on = state_->stream(stream, "synchronize");
  state_->own.faults.enter(device_call::synchronize);
  if (!state_->forgotten(edge) && on.tail)
    state_->wait_for(guard, host, on.tail, on.clock);
}

void sim_device::settle(stream_id stream) {
  auto guard = state_->lock();
  (void)state_->caller("settle");
  auto& on = state_->stream(stream, "settle");
  state_->own.faults.require_alive("settle");
  if (on.tail)
    state_->settle(guard, on.tail, on.clock);
}

} // namespace ferry
