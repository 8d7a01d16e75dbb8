// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ferry {

/// What a simulated device is like: its speed, its limits and its chance. Two devices with equal
/// options and equal programs give equal times, to the nanosecond.
struct sim_options {
  // Speed. A copy takes `latency` + bytes / bandwidth; copies of one direction queue on its link.

  double h2d_bandwidth = 25e9;               ///< Bytes per second, host to device.
  double pageable_bandwidth = 0;             ///< The same from memory not pinned; 0: no slower.
  double d2h_bandwidth = 25e9;               ///< Bytes per second, device to host.
  double on_device_bandwidth = 1e12;         ///< Bytes per second, copies that use no link.
  nanoseconds latency = nanoseconds::zero(); ///< Of every copy, while it holds its link.
  nanoseconds compute = std::chrono::milliseconds{2}; ///< Of a compute announced without duration.
  std::vector<nanoseconds> block_compute;             ///< The same for the first blocks, by number.
  nanoseconds launch = std::chrono::microseconds{2};  ///< Host time to enqueue a copy or a compute.
  nanoseconds hop = std::chrono::microseconds{5};     ///< Of a message between host threads.
  double host_bandwidth = 0;       ///< Bytes per second of a `host_write`; 0: it takes no time.
  double gather_bandwidth = 360e9; ///< Bus bandwidth of an all-gather.
  nanoseconds gather_latency = std::chrono::microseconds{30}; ///< Of one all-gather.
  bool in_place = false;         ///< Compute reads pages of mapped files where they are.
  bool gather_over_link = false; ///< An all-gather occupies the host-to-device link.

  // Chance.

  std::uint64_t seed = 1;
  double jitter = 0.0;         ///< Coefficient of variation of a copy's duration, lognormal.
  double compute_jitter = 0.0; ///< The same of a compute's duration.

  // Limits.

  std::size_t memory = std::size_t{16} << 30; ///< Device memory in bytes; allocated when asked for.
  std::size_t pinned = std::size_t{64} << 30; ///< Pinned memory in bytes.

  /// Whether memory has contents. Without, allocations are address ranges that must not be touched
  /// and copies move nothing: for schedules of models larger than the machine.
  bool contents = true;

  std::optional<int> node = {}; ///< Of the host's memory, that the device says it is near to.

  std::size_t timeline_limit = 65536; ///< Latest operations kept for `timeline()`.
  std::size_t race_limit = 1000;      ///< First races kept for `races()`.
  std::size_t pending_limit = 16384;  ///< Operations held back until someone settles them.
};

/// Reads "link=25GB/s,compute=2ms,jitter=0.1,seed=7": values that are not mentioned keep their
/// defaults. Sizes take B, KB, MB, GB, TB, KiB, MiB, GiB, TiB; times take ns, us, ms, s; rates are
/// sizes followed by "/s". Keys: link (both directions), h2d, d2h, pageable, on_device, host,
/// latency, compute, launch, hop, gather, gather_latency, gather_over_link, seed, jitter,
/// compute_jitter, memory, pinned, contents, node, in_place.
/// @return `invalid_argument`, naming the key, the value and what was expected
[[nodiscard]] result<sim_options> parse_sim_options(std::string_view text);

} // namespace ferry
