// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/rank_group.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace ferry {

struct run_options;

/// One rank that this process plays.
struct opened_rank {
  int number = 0;
  std::shared_ptr<device> target;
  std::optional<rank_group>
      group; ///< Nothing: there is one rank, or its process has yet to join the others.
};

/// Most ranks that are threads of one process.
inline constexpr int most_ranks = 64;

struct opened_ranks {
  int size = 1; ///< In all processes.
  std::vector<opened_rank> here;
};

/// Opens the device, or one for each of `--ranks`, which are threads of this process. Where a
/// launcher has started several processes, this one is the rank that it says.
/// @pre `--ranks` is from 1 to `most_ranks`
/// @return `invalid_argument` or `unsupported` for what cannot be opened; as of `read_launcher`
[[nodiscard]] result<opened_ranks> open_ranks(const run_options& options,
                                              std::optional<std::uint64_t> device_memory);

} // namespace ferry
