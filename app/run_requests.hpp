// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/diffusion_model.hpp"
#include "models/reference_run.hpp"
#include "request_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

class device;
class interrupt_watch;
class runtime;

/// Where requests run, and who hears of it.
struct run_context {
  const diffusion_model& model;
  const device& target;
  interrupt_watch& interrupt;         ///< Ends the request that runs; no other begins.
  runtime* through = nullptr;         ///< Has the model enabled; null: all weights are in place.
  bool in_waves = false;              ///< Other ranks take part in each request.
  reference_run* reference = nullptr; ///< Each stage is compared with it, if there is one.
  std::string title;                  ///< Of the progress bar, before the number of the request.
  bool quiet = false;                 ///< Neither a bar nor a word of requests that fail.
  /// Most passes that use a block while it is on the device: requests that have no more of them a
  /// step run together. Nothing: requests run one after another, the passes of each together.
  std::optional<std::size_t> passes_per_fetch = std::nullopt;
  /// Takes what a request ended in, once it has ended. If this throws, the request has failed.
  std::function<void(std::size_t index, const generated& made)> keep;
};

/// What a series of requests came to.
struct run_tally {
  std::size_t done = 0;
  std::size_t failed = 0;
  std::vector<double> step_s;  ///< Of every step that ran, on the wall clock; once for a group.
  double first_step_end_s = 0; ///< From the start of the process.
  double wall_s = 0;           ///< Of the requests, one after another.
  std::uint64_t allocations_after_first_step = 0;
};

/// Runs requests one after another, or in groups of neighbours. One that fails is ended and named
/// on standard error, and the others run. An interrupt ends the series without a word.
/// @throws ferry_error with the origin of the request that cannot be begun or ended, or, where
///         other ranks take part, to whose end the model does not get; no other runs then
[[nodiscard]] run_tally run_requests(const std::vector<asked_request>& asked,
                                     const run_context& where);

} // namespace ferry
