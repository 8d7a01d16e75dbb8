// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/host_budget.hpp"

#include <algorithm>
#include <utility>

namespace ferry {

host_budget::host_budget(std::optional<std::uint64_t> ceiling) : ceiling_(ceiling) {}

result<pin_lease> host_budget::lease(std::uint64_t holder, std::string who, lease_wish wish,
                                     const host_limits& now) {
  pin_allowance there{.pinned = pinned(), .available = now.available, .decided_by = now.decided_by};
  auto& pinning = wish.pinning;
  if (ceiling_ && (!pinning.budget || *ceiling_ < *pinning.budget)) {
    pinning.budget = ceiling_;
    pinning.budget_option = "runtime_options::pinned_memory";
    there.pinned += registered();
  }
  if (there.available)
    there.available = *there.available - std::min(*there.available, open());
  auto plan = plan_pinning(wish.stores, pinning, there);
  if (!plan)
    return tl::unexpected(std::move(plan.error()));
  auto refused = against_pages(wish.pages, plan->bytes(), there);
  const lease_id id{++last_id_};
  leases_.emplace(id,
                  held{holder, {std::move(who), plan->bytes(), refused ? 0 : wish.pages}, true});
  return pin_lease{id, std::move(*plan), std::move(refused)};
}

std::optional<failure> host_budget::against_pages(std::uint64_t pages, std::uint64_t stores,
                                                  const pin_allowance& there) const {
  const auto locked = pinned() + registered() + stores;
  const auto asked = "registering takes " + std::to_string(pages) + " bytes of pages; ";
  if (pages == 0)
    return std::nullopt;
  if (ceiling_ && locked + pages > *ceiling_)
    return failure{errc::out_of_host_memory,
                   asked + "runtime_options::pinned_memory allows " + std::to_string(*ceiling_) +
                       ", and " + std::to_string(locked) + " are pinned or registered"};
  if (there.available && stores + pages > *there.available)
    return failure{errc::out_of_host_memory,
                   asked + std::to_string(*there.available) + " are available by " +
                       there.decided_by + ", and " + std::to_string(stores) + " are to be pinned"};
  return std::nullopt;
}

bool host_budget::settle(lease_id id, std::uint64_t pinned, std::uint64_t registered) {
  const auto found = leases_.find(id);
  if (found == leases_.end())
    return false;
  auto& entry = found->second.entry;
  FERRY_ASSERT(pinned <= entry.bytes && registered <= entry.registered);
  entry.bytes = pinned;
  entry.registered = registered;
  found->second.open = false;
  return true;
}

std::vector<lease_entry> host_budget::give_back_all(std::uint64_t holder) {
  std::vector<lease_entry> gone;
  std::erase_if(leases_, [&](auto& each) {
    if (each.second.holder != holder)
      return false;
    gone.push_back(std::move(each.second.entry));
    return true;
  });
  return gone;
}

std::uint64_t host_budget::pinned() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [id, each] : leases_)
    bytes += each.entry.bytes;
  return bytes;
}

std::uint64_t host_budget::registered() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [id, each] : leases_)
    bytes += each.entry.registered;
  return bytes;
}

std::uint64_t host_budget::open() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [id, each] : leases_)
    bytes += each.open ? each.entry.bytes + each.entry.registered : 0;
  return bytes;
}

std::vector<lease_entry> host_budget::leases() const {
  std::vector<lease_entry> all;
  for (const auto& [id, each] : leases_)
    all.push_back(each.entry);
  return all;
}

} // namespace ferry
