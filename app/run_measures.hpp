// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/offload_state.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/device.hpp>

#include "report.hpp"
#include "run_requests.hpp"
#include "span_recorder.hpp"

#include <cstdint>

namespace ferry {

// Each of these puts what it is given into `report`.

void add_state(run_report& report, const offload_state& state);

/// Of a pipeline that is on the device as a whole.
void add_unoffloaded(run_report& report, const pipeline& subject);

void add_device(run_report& report, const device& target, const span_recorder& recorder);

void add_tally(run_report& report, const run_tally& tally);

/// What a warm-up added to counters that never go back, to be taken out of a report.
class warm_up_share {
public:
  /// Counts from here.
  warm_up_share(const device_counters& device, const offload_state& state);

  /// Counts until here.
  void end(const device_counters& device, const offload_state& state);

  void take_out_of(run_report& report) const;

private:
  std::uint64_t h2d_bytes_;
  std::uint64_t d2h_bytes_;
  std::uint64_t collectives_;
  std::uint64_t gathered_bytes_;
  std::uint64_t prefetches_;
  std::uint64_t blocking_loads_;
  std::uint64_t block_uses_;
  std::uint64_t block_passes_;
};

} // namespace ferry
