// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/host_budget.hpp"

#include <algorithm>
#include <utility>

namespace ferry {

host_budget::host_budget(std::optional<std::uint64_t> ceiling) : ceiling_(ceiling) {}

result<pin_lease> host_budget::lease(std::uint64_t holder, std::string who,
                                     std::span<const pin_candidate> stores, pin_wish wish,
                                     const host_limits& now) {
  if (ceiling_ && (!wish.budget || *ceiling_ < *wish.budget)) {
    wish.budget = ceiling_;
    wish.budget_option = "runtime_options::pinned_memory";
  }
  pin_allowance there{.pinned = pinned(), .available = now.available, .decided_by = now.decided_by};
  if (there.available)
    there.available = *there.available - std::min(*there.available, sum(true));
  auto plan = plan_pinning(stores, wish, there);
  if (!plan)
    return tl::unexpected(std::move(plan.error()));
  const lease_id id{++last_id_};
  leases_.emplace(id, held{holder, {std::move(who), plan->bytes()}, true});
  return pin_lease{id, std::move(*plan)};
}

bool host_budget::settle(lease_id id, std::uint64_t bytes) {
  const auto found = leases_.find(id);
  if (found == leases_.end())
    return false;
  FERRY_ASSERT(bytes <= found->second.entry.bytes);
  found->second.entry.bytes = bytes;
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
  return sum(false);
}

std::vector<lease_entry> host_budget::leases() const {
  std::vector<lease_entry> all;
  for (const auto& [id, each] : leases_)
    all.push_back(each.entry);
  return all;
}

std::uint64_t host_budget::sum(bool open_only) const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [id, each] : leases_)
    if (each.open || !open_only)
      bytes += each.entry.bytes;
  return bytes;
}

} // namespace ferry
