// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/memory.hpp"
#include "ferry/platform/sim_device.hpp"
#include "sim/device_access.hpp"

#include <cstdint>
#include <string>

namespace ferry {
namespace {

std::string in_words(const_bytes pages) {
  return std::to_string(pages.size()) + " bytes";
}

bool are_whole_pages(const_bytes range) noexcept {
  return !range.empty() && reinterpret_cast<std::uintptr_t>(range.data()) % page_bytes() == 0 &&
         range.size() % page_bytes() == 0;
}

device_error refused(const char* call, const_bytes pages, const std::string& why) {
  return {errc::invalid_argument, call, in_words(pages) + " " + why};
}

} // namespace

void sim_device::register_pages(const_bytes pages) {
  auto guard = state_->lock();
  (void)state_->caller("register_pages");
  auto& own = state_->own;
  own.faults.enter(device_call::register_pages);
  if (!are_whole_pages(pages))
    throw refused("register_pages", pages, "are not whole pages");
  if (own.registered.touched(pages))
    throw refused("register_pages", pages, "overlap pages that are registered already");
  if (state_->machine->blocks.touched_by(pages) != nullptr)
    throw refused("register_pages", pages, "overlap memory that a device allocated");
  auto& counters = own.counters;
  const auto limit = std::uint64_t{own.options.pinned};
  const auto taken = counters.pinned_bytes + counters.registered_bytes;
  if (pages.size() > limit - taken)
    throw device_error(errc::out_of_host_memory, "register_pages",
                       in_words(pages) + " to be registered, " + std::to_string(limit - taken) +
                           " of " + std::to_string(limit) +
                           " are free; ask for less or raise sim.pinned");
  (void)own.registered.add(pages);
  counters.registered_bytes += pages.size();
}

void sim_device::unregister_pages(const_bytes pages) {
  auto guard = state_->lock();
  auto& host = state_->caller("unregister_pages");
  auto& own = state_->own;
  own.faults.enter(device_call::unregister_pages);
  const auto* held = own.registered.find_exactly(pages);
  if (held == nullptr)
    throw refused("unregister_pages", pages, "were not registered like that");
  const auto mark = const_bytes{held->mark.get(), 1};
  state_->host_access(host, "unregister_pages", mark, true, {});
  state_->forget_accesses(mark);
  own.registered.remove(*held);
  own.counters.registered_bytes -= pages.size();
}

bool sim_device::pages_registered(const_bytes range) {
  auto guard = state_->lock();
  (void)state_->caller("pages_registered");
  state_->own.faults.enter(device_call::pages_registered);
  return state_->own.registered.find(range) != nullptr;
}

} // namespace ferry
