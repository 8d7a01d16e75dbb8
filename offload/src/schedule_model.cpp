// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/schedule_model.hpp"

#include <ferry/platform/error.hpp>

#include <algorithm>
#include <utility>

namespace ferry {

namespace {

// Passes until what an empty device begins with no longer shows, and those that are averaged: a
// schedule may repeat only every few passes.
constexpr std::size_t settling_passes = 4;
constexpr std::size_t averaged_passes = 4;

nanoseconds end_after(schedule_model& model, std::span<const block_cost> blocks,
                      std::size_t passes) {
  for (std::size_t pass = 0; pass != passes; ++pass)
    for (const auto& each : blocks)
      model.run(each);
  return model.end();
}

} // namespace

schedule_model::schedule_model(const schedule_options& how) : how_(how), slots_(how.slots) {
  FERRY_ASSERT(how.slots >= 1 && how.passes >= 1);
}

void schedule_model::bring_residents(nanoseconds copy) noexcept {
  FERRY_ASSERT(fetches_ == 0 && computed_ == nanoseconds{});
  link_ = copy;
  residents_ = copy;
}

block_times schedule_model::run(const block_cost& block) {
  block_times times;
  auto* const slot = block.resident() ? nullptr : &slots_[fetches_++ % slots_.size()];
  times.ready = slot == nullptr ? residents_ : fetch(block, *slot, times.fetched);
  times.begun = std::max(computed_, times.ready);
  times.waited = times.begun - computed_;
  times.done = times.begun + block.compute * how_.passes;
  computed_ = times.done;
  if (slot != nullptr)
    *slot = computed_;
  return times;
}

nanoseconds schedule_model::fetch(const block_cost& block, nanoseconds slot_free,
                                  nanoseconds& first) {
  const auto ahead = how_.pipelining == gather_pipelining::overlapped ? inputs_.size() : 1;
  nanoseconds ready{};
  for (const auto& piece : block.pieces) {
    auto start = link_;
    if (!piece.gather) {
      start = std::max(start, slot_free);
      if (std::exchange(gathered_last_, false))
        start = std::max(start, gathered_);
    } else {
      start = std::max(start, inputs_[gathers_ % ahead]);
    }
    if (&piece == block.pieces.data())
      first = start;
    link_ = start + piece.copy;
    ready = link_;
    if (piece.gather) {
      gathered_ = std::max({gathered_, link_, slot_free}) + *piece.gather;
      inputs_[gathers_++ % ahead] = gathered_;
      gathered_last_ = true;
      ready = gathered_;
    }
  }
  return ready;
}

nanoseconds schedule_bounds::least() const noexcept {
  const auto moving =
      pipelining == gather_pipelining::overlapped ? std::max(copies, gathers) : copies + gathers;
  return std::max(compute, moving);
}

schedule_bounds bounds_of(std::span<const block_cost> blocks, const schedule_options& how) {
  schedule_bounds sums{.pipelining = how.pipelining};
  for (const auto& block : blocks) {
    sums.compute += block.compute * how.passes;
    for (const auto& piece : block.pieces) {
      sums.copies += piece.copy;
      sums.gathers += piece.gather.value_or(nanoseconds{});
    }
  }
  return sums;
}

nanoseconds last_pass(std::span<const block_cost> blocks, const schedule_options& how,
                      std::size_t passes) {
  FERRY_ASSERT(passes >= 2);
  schedule_model model(how);
  const auto before = end_after(model, blocks, passes - 1);
  return end_after(model, blocks, 1) - before;
}

nanoseconds steady_pass(std::span<const block_cost> blocks, const schedule_options& how) {
  schedule_model model(how);
  const auto before = end_after(model, blocks, settling_passes);
  return (end_after(model, blocks, averaged_passes) - before) / averaged_passes;
}

} // namespace ferry
