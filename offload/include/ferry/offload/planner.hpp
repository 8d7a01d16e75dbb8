// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// How fast a machine is. Rates are in bytes per second, and above 0 unless it says otherwise.
/// Times are an hour at most; a copy or gather that would take longer than a day counts as a day.
struct machine_rates {
  double link = 25e9;    ///< From host memory to one device.
  nanoseconds latency{}; ///< Of every copy.
  double host = 0;       ///< What all ranks together get from host memory; 0: no limit.
  nanoseconds compute = std::chrono::milliseconds{2}; ///< Of a block.
  /// The same of the blocks at and below a path: "transformer", "transformer.blocks.3". The longest
  /// path counts.
  std::map<std::string, nanoseconds> computes = {};
  double gather = 360e9; ///< Bus bandwidth of an all-gather.
  nanoseconds gather_latency = std::chrono::microseconds{30};
  bool gather_over_link = false; ///< An all-gather occupies the link: the two take turns.
  double jitter = 0; ///< Coefficient of variation of copies and gathers, lognormal; may be 0.
};

/// What a plan is for.
struct plan_question {
  machine_rates rates = {};
  std::optional<std::uint64_t> device_memory = {}; ///< For weights, of each rank.
  std::optional<std::uint64_t> host_memory = {};   ///< To pin, by all ranks together.
  bool pins = true;     ///< The device wants sources pinned: `device_traits::wants_pinned_sources`.
  bool converts = true; ///< Its copies convert: `device_traits::converts`.
  std::size_t ranks = 1;
  std::size_t steps = 4; ///< Of a request, to which what it loads once is spread.
  std::map<std::string, std::size_t> passes = {}; ///< Of a step through a denoiser, by its path.
  /// Most passes that may share a fetch: more than a step has are those of several requests.
  /// Nothing: as many as a step has.
  std::optional<std::size_t> most_passes_per_fetch = {};

  /// Returns the passes of a step, of the denoiser that has most.
  [[nodiscard]] std::size_t passes_of_step() const noexcept;
};

/// A configuration, and what it comes to.
struct planned_configuration {
  std::string compact = {}; ///< The configuration to give to a run. Empty: nothing is offloaded.
  offload_config config = {};
  std::size_t resident_blocks = 0; ///< Of each denoiser.
  std::size_t slots = 0;           ///< 0: nothing is streamed.
  std::size_t passes_per_fetch = 1;
  std::size_t passes_of_step = 1; ///< Those of one request, which a run lets share unless told.

  nanoseconds step{}; ///< Of one request, in the long run; the mean over denoisers.
  std::map<std::string, nanoseconds> steps = {}; ///< With each denoiser, by its path.
  nanoseconds load{};                            ///< What a request brings once.
  std::uint64_t device_bytes = 0;                ///< Of weights at the peak, on each device.
  std::uint64_t host_bytes = 0;                  ///< Pinned, by all ranks together.
};

/// Returns the configurations that fit, the best first: those of the shortest request, of equal
/// ones (within a thousandth) that which offloads nothing, then those with fewer bytes on the
/// device and on the host. Places are what the resolver and the transfer plan give, times what the
/// schedule model does; nothing is read of the weights. What a run refuses is not among them, such
/// as gathers of weights that are converted.
///
/// A denoiser with a single block is planned for, and not streamed. Fails with `not_found` if a
/// compute time is of no block, with `invalid_pipeline` if no denoiser has blocks, and with
/// `out_of_device_memory` or `out_of_host_memory` if nothing fits, naming the least that would.
[[nodiscard]] result<std::vector<planned_configuration>>
plan_configurations(const pipeline& subject, const plan_question& asked);

} // namespace ferry
