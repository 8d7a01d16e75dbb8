// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/sim_device.hpp"
#include "sim/device_access.hpp"

#include <algorithm>

namespace ferry {

void sim_device::host_read(const_bytes range, operation_tag tag) {
  auto guard = state_->lock();
  auto& host = state_->caller("host_read");
  state_->require_not_released("host_read", range);
  state_->host_access(host, "host read", range, false, tag);
  state_->machine->bytes.run_known(host.clock);
}

void sim_device::host_write(mutable_bytes range, operation_tag tag) {
  auto guard = state_->lock();
  auto& host = state_->caller("host_write");
  state_->require_not_released("host_write", range);
  state_->host_access(host, "host write", range, true, tag);
  if (const auto rate = state_->own.options.host_bandwidth; rate != 0)
    host.time += sim::transfer_time(range.size(), rate);
  state_->machine->bytes.run_known(host.clock);
}

host_thread_id sim_device::create_host_thread(std::string_view name) {
  auto guard = state_->lock();
  auto& creator = state_->caller("create_host_thread");
  creator.clock.tick(creator.self);
  auto parent = creator;
  return state_->add_host(name, &parent);
}

void sim_device::destroy_host_thread(host_thread_id thread) noexcept {
  state_->retire(thread);
}

host_thread_id sim_device::enter(host_thread_id thread) noexcept {
  auto guard = state_->lock();
  return state_->enter(thread);
}

causal_stamp sim_device::stamp() {
  auto guard = state_->lock();
  auto& host = state_->caller("stamp");
  host.clock.tick(host.self);
  return {std::make_shared<const sim::stamp_contents>(
      sim::stamp_contents{state_->machine.get(), host.self, host.clock, host.time})};
}

void sim_device::observe(const causal_stamp& stamp) {
  if (!stamp.knowledge)
    return;
  auto guard = state_->lock();
  auto& host = state_->caller("observe");
  const auto& sent = *static_cast<const sim::stamp_contents*>(stamp.knowledge.get());
  if (sent.machine != state_->machine.get())
    throw device_error(errc::invalid_argument, "observe",
                       "the stamp was taken on a device of another machine");
  host.clock.join(sent.clock);
  host.clock.resolve();
  auto own_message = sent.sender == host.self;
  host.time = std::max(host.time,
                       sent.time + (own_message ? nanoseconds::zero() : state_->own.options.hop));
}

void sim_device::spend(nanoseconds span) {
  auto guard = state_->lock();
  state_->caller("spend").time += span;
}

nanoseconds sim_device::now() {
  auto guard = state_->lock();
  return state_->caller("now").time;
}

} // namespace ferry
