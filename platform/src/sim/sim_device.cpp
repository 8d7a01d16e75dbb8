// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/sim_device.hpp"

#include "ferry/platform/log.hpp"
#include "sim/device_access.hpp"
#include "sim/random.hpp"

#include <algorithm>
#include <string>
#include <tuple>

namespace ferry {

sim_device::sim_device(const sim_options& options)
    : sim_device(std::make_shared<sim_machine>(options.seed, options.pending_limit), "sim",
                 options) {}

sim_device::sim_device(std::shared_ptr<sim_machine> machine, std::string_view name,
                       const sim_options& options)
    : state_(std::make_shared<state>(std::move(machine), name, options)) {}

sim_device::~sim_device() = default;

std::uint64_t sim_device::seed() const noexcept {
  return state_->machine->seed;
}

std::vector<race> sim_device::races() const {
  auto guard = state_->lock();
  return state_->machine->races();
}

std::uint64_t sim_device::race_count() const {
  auto guard = state_->lock();
  return state_->machine->race_count();
}

std::vector<timeline_entry> sim_device::timeline() const {
  auto guard = state_->lock();
  state_->machine->times.evaluate_all();
  auto entries =
      std::vector<timeline_entry>(state_->own.timeline.begin(), state_->own.timeline.end());
  std::sort(entries.begin(), entries.end(), [](const timeline_entry& a, const timeline_entry& b) {
    return std::tie(a.span.start, a.stream, a.number) < std::tie(b.span.start, b.stream, b.number);
  });
  return entries;
}

std::vector<sim_allocation> sim_device::allocations() const {
  auto guard = state_->lock();
  std::vector<sim_allocation> live;
  state_->machine->blocks.for_each([&](const sim::memory_allocation& held) {
    if (held.device == state_->own.index)
      live.push_back(
          {held.kind, held.number, {reinterpret_cast<const std::byte*>(held.begin), held.bytes}});
  });
  std::sort(live.begin(), live.end(),
            [](const sim_allocation& a, const sim_allocation& b) { return a.number < b.number; });
  return live;
}

void sim_device::inject(const sim_fault& fault) {
  auto guard = state_->lock();
  state_->own.faults.inject(fault);
}

void sim_device::fail_after(std::uint64_t n) {
  inject({.after = n});
}

bool sim_device::cancel_failure() noexcept {
  auto guard = state_->lock();
  return state_->own.faults.cancel();
}

std::uint64_t sim_device::fallible_calls() const noexcept {
  auto guard = state_->lock();
  return state_->own.faults.calls();
}

void sim_device::forget(std::string_view edge) {
  auto guard = state_->lock();
  state_->machine->edges_forgotten.emplace(edge);
}

std::vector<std::string> sim_device::edges_seen() const {
  auto guard = state_->lock();
  return {state_->machine->edges_seen.begin(), state_->machine->edges_seen.end()};
}

bool sim_device::step(stream_id stream) {
  auto guard = state_->lock();
  return state_->machine->bytes.step(*state_->stream(stream, "step").queue);
}

void sim_device::run() {
  auto guard = state_->lock();
  state_->machine->bytes.run_all();
}

void sim_device::advance(nanoseconds span) {
  auto guard = state_->lock();
  state_->machine->advance(span);
}

const device_traits& sim_device::traits() const noexcept {
  return state_->own.traits;
}

mutable_bytes sim_device::allocate(memory_kind kind, std::size_t bytes) {
  auto guard = state_->lock();
  (void)state_->caller("allocate");
  auto& own = state_->own;
  own.faults.enter(device_call::allocate);
  if (kind != memory_kind::device && kind != memory_kind::pinned)
    throw device_error(errc::invalid_argument, "allocate",
                       "only device and pinned memory can be allocated");

  auto on_device = kind == memory_kind::device;
  auto full = on_device ? errc::out_of_device_memory : errc::out_of_host_memory;
  auto limit = std::uint64_t{on_device ? own.options.memory : own.options.pinned};
  auto& used = on_device ? own.counters.device_bytes : own.counters.pinned_bytes;
  auto& peak = on_device ? own.counters.peak_device_bytes : own.counters.peak_pinned_bytes;
  auto free = limit - used - (on_device ? 0 : own.counters.registered_bytes);
  if (bytes > free)
    throw device_error(full, "allocate",
                       std::to_string(bytes) + " bytes of " + (on_device ? "device" : "pinned") +
                           " memory asked for, " + std::to_string(free) + " of " +
                           std::to_string(limit) + " are free; ask for less or raise sim." +
                           (on_device ? "memory" : "pinned"));
  auto block = state_->machine->blocks.allocate(kind, own.index, bytes, own.options.contents);
  if (block.data() == nullptr)
    throw device_error(full, "allocate",
                       "this machine has no " + std::to_string(bytes) + " bytes left");
  auto begin = reinterpret_cast<std::uintptr_t>(block.data());
  state_->machine->shadow.forget(begin, begin + bytes);
  used += bytes;
  peak = std::max(peak, used);
  ++own.counters.allocations;
  return block;
}

void sim_device::release(memory_kind kind, mutable_bytes block) noexcept {
  auto guard = state_->lock();
  auto& own = state_->own;
  auto& machine = *state_->machine;
  auto begin = reinterpret_cast<std::uintptr_t>(block.data());
  const auto* held = machine.blocks.find(block);
  if (held == nullptr || held->begin != begin || held->bytes != block.size() ||
      held->kind != kind || held->device != own.index) {
    log(log_level::error, "ferry.platform",
        "release refused device=" + own.traits.name +
            " reason=\"not a live allocation of that kind\" bytes=" + std::to_string(block.size()));
    return;
  }
  try {
    state_->host_access(state_->caller("release"), "release", block, true, {});
  } catch (const device_error& error) {
    log(log_level::error, "ferry.platform",
        std::string("release unchecked reason=") + error.what());
  }
  machine.shadow.forget(begin, begin + block.size());
  machine.bytes.memory_gone(begin, begin + block.size());
  (kind == memory_kind::device ? own.counters.device_bytes : own.counters.pinned_bytes) -=
      block.size();
  machine.blocks.release(begin);
}

device_memory sim_device::memory() const {
  auto guard = state_->lock();
  const auto& own = state_->own;
  return {.free = own.options.memory - own.counters.device_bytes, .total = own.options.memory};
}

stream_id sim_device::create_stream(std::string_view name) {
  auto guard = state_->lock();
  auto& host = state_->caller("create_stream");
  auto& own = state_->own;
  own.faults.enter(device_call::create_stream);

  auto made = sim::stream_state{};
  made.id = stream_id{own.next_id++};
  made.facts = std::make_shared<sim::control_facts>(std::string(name), true);
  auto before = state_->machine->take_component();
  made.self = before.who;
  made.clock = host.clock;
  made.clock.raise(before);
  made.queue = state_->machine->bytes.open();
  auto device_key = sim::mix(state_->machine->seed, own.traits.name);
  made.key = sim::mix(sim::mix(device_key, name), ++own.streams_named[std::string(name)]);
  auto id = made.id;
  own.streams.emplace(static_cast<std::uint32_t>(id), std::move(made));
  ++own.counters.streams;
  for (auto* observer : own.observers)
    observer->on_stream(id, name);
  return id;
}

void sim_device::destroy_stream(stream_id stream) noexcept {
  auto guard = state_->lock();
  auto& own = state_->own;
  auto it = own.streams.find(static_cast<std::uint32_t>(stream));
  if (it == own.streams.end()) {
    log(log_level::error, "ferry.platform", "destroy_stream refused reason=\"unknown stream\"");
    return;
  }
  it->second.queue->closed = true;
  state_->machine->give_back(it->second.self, it->second.clock);
  own.streams.erase(it);
  --own.counters.streams;
}

event_id sim_device::create_event() {
  auto guard = state_->lock();
  (void)state_->caller("create_event");
  auto& own = state_->own;
  own.faults.enter(device_call::create_event);
  auto id = event_id{own.next_id++};
  own.events.emplace(static_cast<std::uint32_t>(id), sim::event_version{});
  ++own.counters.events;
  return id;
}

void sim_device::destroy_event(event_id event) noexcept {
  auto guard = state_->lock();
  if (state_->own.events.erase(static_cast<std::uint32_t>(event)) == 0)
    log(log_level::error, "ferry.platform", "destroy_event refused reason=\"unknown event\"");
  else
    --state_->own.counters.events;
}

device_counters sim_device::counters() const {
  auto guard = state_->lock();
  return state_->own.counters;
}

void sim_device::attach(operation_observer& observer) {
  auto guard = state_->lock();
  auto& own = state_->own;
  state_->machine->times.evaluate_all();
  own.observers.push_back(&observer);
  for (const auto& [id, stream] : own.streams)
    observer.on_stream(stream.id, stream.facts->name);
}

void sim_device::detach(operation_observer& observer) noexcept {
  auto guard = state_->lock();
  state_->machine->times.evaluate_all();
  std::erase(state_->own.observers, &observer);
}

} // namespace ferry
