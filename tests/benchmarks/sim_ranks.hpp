// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/rank_group.hpp>
#include <ferry/platform/sim_device.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ferry::bench {

/// One rank of several on simulated devices of one machine.
struct sim_rank {
  std::shared_ptr<sim_device> gpu;
  rank_group group;
};

[[nodiscard]] std::vector<sim_rank> make_sim_ranks(std::size_t size, const sim_options& options);

/// Calls `act` with each rank on a thread of its own, and waits for all.
/// @throws ferry_error the first failure by rank, also if a device saw a race
void on_every_rank(std::vector<sim_rank> ranks,
                   const std::function<void(std::size_t number, sim_rank own)>& act);

} // namespace ferry::bench
