// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/cached_device_memory.hpp"

#include "ferry/offload/wait_edges.hpp"

#include <algorithm>
#include <utility>

namespace ferry {

cached_device_memory::cached_device_memory(device& owner, stream& copies, cache_bounds bounds,
                                           std::shared_ptr<learned_budget> learned)
    : owner_(&owner), copies_(&copies), learned_(std::move(learned)),
      retention_(*this, bounds, learned_) {}

mutable_bytes cached_device_memory::take(std::size_t bytes) {
  const auto needed = align_up(bytes);
  piece* best = nullptr;
  for (auto& each : pieces_) {
    const auto fits = !each.taken && each.block.size() >= needed;
    if (fits && (best == nullptr || each.block.size() < best->block.size()))
      best = &each;
  }
  if (best == nullptr)
    best = &pieces_.emplace_back(piece{memory_block(*owner_, memory_kind::device, needed)});
  best->taken = true;
  if (learned_)
    learned_->staged(best->block.size());
  return best->block.bytes().first(bytes);
}

void cached_device_memory::give_back(mutable_bytes memory) noexcept {
  const auto found = std::ranges::find_if(pieces_, [&](const piece& each) {
    return each.taken && each.block.bytes().data() == memory.data();
  });
  FERRY_ASSERT(found != pieces_.end());
  found->taken = false;
  if (learned_)
    learned_->unstaged(found->block.size());
}

bool cached_device_memory::release_cache(bool force) noexcept {
  try {
    return retention_.release_if_needed(force);
  } catch (const device_error&) {
    return false; // Whoever uses the device next meets the failure, and can report it.
  }
}

void cached_device_memory::attach() noexcept {
  if (learned_)
    learned_->attach();
}

void cached_device_memory::detach() noexcept {
  if (learned_)
    learned_->detach();
}

result<cache_telemetry> cached_device_memory::telemetry() const {
  cache_telemetry now;
  for (const auto& each : pieces_) {
    now.reserved += each.block.size();
    now.allocated += each.taken ? each.block.size() : 0;
  }
  try {
    const auto memory = owner_->memory();
    now.free = memory.free;
    now.total = memory.total;
  } catch (const device_error& failed) {
    return tl::unexpected(failed.reason());
  }
  return now;
}

void cached_device_memory::release() {
  copies_->synchronize(drain_stage_before_release);
  std::erase_if(pieces_, [](const piece& each) { return !each.taken; });
}

} // namespace ferry
