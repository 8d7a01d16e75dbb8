// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "streaming.hpp"

#include <ferry/offload/wait_edges.hpp>

#include <algorithm>
#include <cstdint>

namespace ferry {

streaming::lanes::lanes(device& owner, std::size_t most_slots,
                        std::span<const mutable_bytes> slot_bytes,
                        std::span<const mutable_bytes> input_bytes, bool computes)
    : gathers_drained(owner), joined(owner), residents_ready(owner), drained(owner) {
  if (computes) {
    compute.emplace(owner, "compute");
    used.push_back(compute->id());
  }
  for (std::size_t i = 0; i != most_slots; ++i)
    slots.emplace_back(owner, i < slot_bytes.size() ? slot_bytes[i] : mutable_bytes{});
  for (const auto bytes : input_bytes)
    inputs.emplace_back(owner, bytes);
}

streaming::streaming(device& owner, const transfer_plan& plan, std::size_t slots,
                     std::size_t most_slots)
    : owner_(&owner), rings_(plan.rings), slot_count_(slots), most_slots_(most_slots),
      gathers_(!plan.gathers.empty()), board_(most_slots) {
  for (const auto& each : plan.blocks)
    blocks_.push_back({.path = each.path,
                       .bytes = each.layout.bytes,
                       .from = {},
                       .staged = false,
                       .gather = {},
                       .in_place = false,
                       .pages = {}});
}

const streaming::block& streaming::at(block_id id) const noexcept {
  FERRY_ASSERT(static_cast<std::size_t>(id) < blocks_.size());
  return blocks_[static_cast<std::size_t>(id)];
}

streaming::slot& streaming::at(slot_id id) noexcept {
  FERRY_ASSERT(lanes_.has_value() && static_cast<std::size_t>(id) < lanes_->slots.size());
  return lanes_->slots[static_cast<std::size_t>(id)];
}

namespace {

/// What the widest instructions load at a time. Libraries choose by it how they add up, so that
/// results differ in their last bits where weights are aligned to less than in a slot.
constexpr std::uintptr_t computed_alignment = 64;

bool is_aligned(const_bytes range) noexcept {
  return reinterpret_cast<std::uintptr_t>(range.data()) % computed_alignment == 0;
}

bool is_mapped(const host_master::segment& part) noexcept {
  return part.kind == memory_kind::mapped;
}

bool is_computed_with(const host_master::segment& part) noexcept {
  return (is_mapped(part) || part.kind == memory_kind::pageable) &&
         part.convert == conversion::none && is_aligned(part.source);
}

} // namespace

void streaming::add_sources(block_id id, sources from, bool binds_originals) {
  FERRY_ASSERT(static_cast<std::size_t>(id) < blocks_.size());
  auto& added = blocks_[static_cast<std::size_t>(id)];
  added.from = from;
  const auto was_in_place = added.in_place;
  added.in_place = binds_originals && owner_->traits().computes_in_place &&
                   std::ranges::all_of(from, is_computed_with) &&
                   (was_in_place || std::ranges::any_of(from, is_mapped));
  added.pages.clear();
  if (added.in_place) {
    added.pages.reserve(static_cast<std::size_t>(std::ranges::count_if(from, is_mapped)));
    for (const auto& each : from)
      if (is_mapped(each))
        added.pages.push_back(each.source);
  }
  added.staged = stages(added);
}

bool streaming::stages(const block& which) noexcept {
  return staging() != nullptr && !which.gather && !which.in_place && needs_staging(which.from);
}

void streaming::add_staging(std::size_t bytes) {
  FERRY_ASSERT(lanes_.has_value());
  lanes_->staging.emplace(*owner_, bytes);
  for (auto& each : blocks_)
    each.staged = stages(each);
}

void streaming::add_shard(block_id id, gathering how) noexcept {
  FERRY_ASSERT(static_cast<std::size_t>(id) < blocks_.size());
  blocks_[static_cast<std::size_t>(id)].gather = how;
}

streaming::input_buffer& streaming::input(std::uint64_t sequence) noexcept {
  FERRY_ASSERT(lanes_.has_value() && !lanes_->inputs.empty());
  return lanes_->inputs[sequence % lanes_->inputs.size()];
}

void streaming::add_resident(mutable_bytes target, sources from) {
  residents_.push_back({target, from});
}

void streaming::open(std::span<const mutable_bytes> slot_bytes,
                     std::span<const mutable_bytes> input_bytes) {
  FERRY_ASSERT(slot_bytes.size() == slot_count());
  lanes_.emplace(*owner_, most_slots_, slot_bytes, input_bytes, callers_ == nullptr);
}

stream_id streaming::compute() {
  FERRY_ASSERT(lanes_.has_value());
  if (lanes_->compute)
    return lanes_->compute->id();
  const auto current = callers_->current();
  if (std::ranges::find(lanes_->used, current) == lanes_->used.end())
    lanes_->used.push_back(current);
  return current;
}

void streaming::join(stream_id on, std::span<const stream_id> others) {
  FERRY_ASSERT(lanes_.has_value());
  for (const auto other : others) {
    if (other == on)
      continue;
    owner_->record(other, lanes_->joined.id());
    owner_->wait(on, lanes_->joined.id(), use_joins_streams);
  }
}

// Residents are used past any gate, on streams that nobody tells of: the host waits for those.
void streaming::admit_residents() {
  FERRY_ASSERT(lanes_.has_value());
  if (!lanes_->compute) {
    lanes_->residents_ready.synchronize(compute_waits_resident_load);
    return;
  }
  lanes_->compute->wait(lanes_->residents_ready, compute_waits_resident_load);
  if (owner_->traits().computes_on_host)
    lanes_->compute->settle();
}

void streaming::drain_compute(wait_edge edge) {
  FERRY_ASSERT(lanes_.has_value());
  for (const auto each : lanes_->used)
    owner_->drain(each, edge);
}

void streaming::add_slot(mutable_bytes region) noexcept {
  FERRY_ASSERT(lanes_.has_value() && slot_count() < most_slots_);
  lanes_->slots[slot_count()].bytes = region;
  slot_count_.fetch_add(1);
}

void streaming::close() noexcept {
  copying_->end();
  exchanging_->end();
  packing_->end();
  lanes_.reset();
  residents_.clear();
  ranks_.reset();
}

} // namespace ferry
