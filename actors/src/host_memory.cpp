// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host_memory.hpp"

#include <ferry/platform/log.hpp>

#include "guarded.hpp"

#include <utility>

namespace ferry {

host_memory::host_memory(caf::actor_config& config, host_memory_options options)
    : host_memory_actor::base(config), options_(std::move(options)),
      budget_(options_.pinned_memory), watched_(this) {}

host_memory::behavior_type host_memory::make_behavior() {
  return {
      [this](const lease_host_memory& m) { return guarded(this, m, [&] { return lease(m); }); },
      [this](const settle_lease& m) { return guarded(this, m, [&] { settle(m); }); },
      [this](const give_back_leases& m) {
        return guarded(this, m, [&] { budget_.give_back_all(current_sender()->id()); });
      },
      [this](const query_host_memory& m) { return guarded(this, m, [&] { return describe(); }); },
      [this](const start_child& m) { return guarded(this, m, [] {}); },
      [this](const drain_child& m) {
        return guarded(this, m, [&] { refusal_ = refusal_.value_or(m.cause); });
      },
      [this](const release_child& m) {
        return guarded(this, m, [&] {
          quit();
          return answered{};
        });
      },
  };
}

pin_lease host_memory::lease(const lease_host_memory& message) {
  if (refusal_)
    throw ferry_error{*refusal_};
  const auto holder = current_sender()->id();
  auto granted = budget_.lease(holder, message.who, {message.stores, message.wish, message.pages},
                               read_host_limits(options_.root));
  if (!granted)
    throw ferry_error{std::move(granted.error())};
  if (holders_.insert(holder).second)
    watched_.watch_sender([this, holder](const caf::error&) { take_back(holder); });
  return std::move(*granted);
}

void host_memory::settle(const settle_lease& message) {
  if (!budget_.settle(message.id, message.pinned, message.registered))
    throw ferry_error{
        {errc::stale_handle, "lease " + std::to_string(static_cast<std::uint64_t>(message.id)) +
                                 " is not held; ask for a new one"}};
}

void host_memory::take_back(std::uint64_t holder) {
  holders_.erase(holder);
  for (const auto& each : budget_.give_back_all(holder))
    log(log_level::warn, "ferry.actors",
        "take back lease who=" + each.who + " bytes=" + std::to_string(each.bytes) +
            " registered=" + std::to_string(each.registered) + " reason=its holder ended");
}

host_memory_state host_memory::describe() const {
  return {.pinned = budget_.pinned(),
          .registered = budget_.registered(),
          .ceiling = budget_.ceiling(),
          .host = read_host_limits(options_.root),
          .leases = budget_.leases()};
}

} // namespace ferry
