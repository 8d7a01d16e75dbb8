// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_measures.hpp"

#include <ferry/offload/resident_weights.hpp>
#include <ferry/platform/sim_device.hpp>

#include <chrono>

namespace ferry {

namespace {

std::uint64_t race_count(const device& target) {
  const auto* sim = dynamic_cast<const sim_device*>(&target);
  return sim == nullptr ? 0 : sim->race_count();
}

} // namespace

void add_state(run_report& report, const offload_state& state) {
  report.strategy = to_string(state.strategy);
  report.slot_bytes = state.slot_bytes;
  report.pinned_bytes = state.pinned_bytes;
  report.pageable_stores = state.pageable_stores;
  report.staged_stores = state.staged_stores;
  report.misplaced_stores = state.misplaced_stores;
  report.collectives = state.collectives;
  report.allgather_bytes = state.gathered_bytes;
  report.prefetches = state.prefetches;
  report.blocking_loads = state.blocking_loads;
  report.block_uses = state.block_uses;
  report.block_passes = state.block_passes;
  report.tickets_in_flight = state.tickets_in_flight;
  for (const auto& [path, c] : state.components)
    report.components[path] = {.bytes = c.bytes,
                               .selected = c.selected,
                               .on_demand = c.on_demand,
                               .blocks = c.blocks,
                               .streamed_bytes = c.streamed_bytes,
                               .largest_block_bytes = c.largest_block_bytes,
                               .resident_blocks = c.resident_blocks,
                               .blocks_in_place = c.blocks_in_place};
}

void add_unoffloaded(run_report& report, const pipeline& subject) {
  report.strategy = to_string(offload_strategy::none);
  for (const auto& [path, node] : subject.root()->children())
    report.components[path].bytes = weight_bytes(node);
}

void add_device(run_report& report, const device& target, const span_recorder& recorder) {
  const auto counters = target.counters();
  const auto overlap = recorder.overlap();
  report.peak_device_weight_bytes = counters.peak_device_bytes;
  report.h2d_bytes = counters.h2d_bytes;
  report.d2h_bytes = counters.d2h_bytes;
  report.races = race_count(target);
  if (overlap.blocks == 0)
    return;
  report.exposed_wait_s = std::chrono::duration<double>(overlap.exposed_wait).count();
  report.lower_bound_s = std::chrono::duration<double>(overlap.lower_bound()).count();
  report.overlap_efficiency = overlap.efficiency();
}

void add_tally(run_report& report, const run_tally& tally) {
  report.requests = tally.done;
  report.steps = tally.step_s.size();
  report.step_s = tally.step_s;
  report.first_step_end_s = tally.first_step_end_s;
  report.wall_s = tally.wall_s;
  report.device_allocations_after_warmup = tally.allocations_after_first_step;
}

warm_up_share::warm_up_share(const device_counters& device, const offload_state& state)
    : h2d_bytes_(device.h2d_bytes), d2h_bytes_(device.d2h_bytes), collectives_(state.collectives),
      gathered_bytes_(state.gathered_bytes), prefetches_(state.prefetches),
      blocking_loads_(state.blocking_loads), block_uses_(state.block_uses),
      block_passes_(state.block_passes) {}

void warm_up_share::end(const device_counters& device, const offload_state& state) {
  h2d_bytes_ = device.h2d_bytes - h2d_bytes_;
  d2h_bytes_ = device.d2h_bytes - d2h_bytes_;
  collectives_ = state.collectives - collectives_;
  gathered_bytes_ = state.gathered_bytes - gathered_bytes_;
  prefetches_ = state.prefetches - prefetches_;
  blocking_loads_ = state.blocking_loads - blocking_loads_;
  block_uses_ = state.block_uses - block_uses_;
  block_passes_ = state.block_passes - block_passes_;
}

void warm_up_share::take_out_of(run_report& report) const {
  report.h2d_bytes -= h2d_bytes_;
  report.d2h_bytes -= d2h_bytes_;
  report.collectives -= collectives_;
  report.allgather_bytes -= gathered_bytes_;
  report.prefetches -= prefetches_;
  report.blocking_loads -= blocking_loads_;
  report.block_uses -= block_uses_;
  report.block_passes -= block_passes_;
}

} // namespace ferry
