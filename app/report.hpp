// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// What one component weighs and how much of it moves.
struct component_report {
  std::uint64_t bytes = 0;
  bool selected = false;
  bool on_demand = false;
  std::uint64_t blocks = 0;
  std::uint64_t streamed_bytes = 0; ///< What the ring moves in one pass.
  std::uint64_t largest_block_bytes = 0;
  std::uint64_t resident_blocks = 0;
  std::uint64_t blocks_in_place = 0; ///< Computed with in their files.
};

/// What `--config auto` came to.
struct chosen_report {
  std::string config;  ///< The compact configuration. Empty: nothing is offloaded.
  std::string options; ///< Of a run that asks for the same.
  double step_s = 0;   ///< As predicted, like the following.
  std::uint64_t peak_device_weight_bytes = 0;
};

/// The report of `ferry run`. Sizes in bytes, times in seconds (virtual seconds where the device's
/// time is). Field names are those of the JSON and are a promise to scripts.
struct run_report {
  std::string strategy;
  std::optional<chosen_report> chosen; ///< Nothing: the user chose.
  std::string device;
  std::string compute_dtype;    ///< Of most weights where they are computed with, such as "bf16".
  std::string compute_reason;   ///< Why, where `auto` chose it; else empty.
  bool may_be_in_place = false; ///< The device computes in place; for people only.
  int rank = 0;                 ///< Which of them.
  int ranks = 1;
  std::uint64_t steps = 0;
  std::uint64_t requests = 0; ///< That ended well.
  std::map<std::string, component_report> components;

  std::uint64_t total_weight_bytes = 0;
  std::uint64_t peak_device_weight_bytes = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t pageable_stores = 0;  ///< Host copies left pageable although pinning was wanted.
  std::uint64_t staged_stores = 0;    ///< Host copies that go through staging buffers.
  std::uint64_t misplaced_stores = 0; ///< Pinned ones with pages off the device's node.
  std::uint64_t peak_host_bytes = 0;  ///< Largest resident set of the process so far.

  double wall_s = 0; ///< Of all requests. On the wall clock, always.
  /// Of every step that ran. Empty where the device's time is virtual and nothing is offloaded:
  /// the device then had nothing to do.
  std::vector<double> step_s;
  double first_step_end_s = 0; ///< From the start of the process, on the wall clock, always.

  std::uint64_t h2d_bytes = 0;
  std::uint64_t d2h_bytes = 0;
  std::uint64_t collectives = 0;
  std::uint64_t allgather_bytes = 0;

  std::uint64_t prefetches = 0;
  std::uint64_t blocking_loads = 0;
  std::uint64_t block_uses = 0;   ///< Times a streamed block was on the device for a body.
  std::uint64_t block_passes = 0; ///< Bodies that ran in them.

  // Of streamed blocks; nothing where none ran. What waits for a whole component is not seen.
  std::optional<double> exposed_wait_s;
  std::optional<double> overlap_efficiency;
  std::optional<double> lower_bound_s;

  std::uint64_t device_allocations_after_warmup = 0;
  std::uint64_t tickets_in_flight = 0;
  std::uint64_t races = 0;

  /// Of the latents; of several requests, over all one after another. Empty where none ended well.
  std::string output_sha256;
  std::optional<bool> output_equals_resident;
  std::optional<double> reference_max_abs_error;
  std::vector<double> resident_step_s; ///< Of the comparison run, if there was one.
};

/// Returns the report as one JSON object: that of the first rank, and where there are several ranks
/// each as `ranks_report`. What must hold for all, holds for the first only if it does for all.
/// @pre not empty
[[nodiscard]] std::string to_json(const std::vector<run_report>& ranks);

/// Returns the report as the table that people read.
[[nodiscard]] std::string to_table(const run_report& report);

/// Returns what weights are computed in, with the reason of `auto`, as people read it: "f32".
[[nodiscard]] std::string compute_dtype_text(const std::string& type, const std::string& reason);

/// Returns a time in seconds as people read it: "2.00 ms".
[[nodiscard]] std::string time_text(double seconds);

/// Returns the largest resident set of this process so far, in bytes.
[[nodiscard]] std::uint64_t peak_resident_bytes();

/// Returns the wall-clock time since this process was started, what it took to load its libraries
/// included.
[[nodiscard]] double seconds_since_process_start();

} // namespace ferry
