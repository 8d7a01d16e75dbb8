// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ferry {

/// What a launcher of processes told this one.
struct launched_rank {
  int rank = 0;             ///< May be wrong: see `beyond_world`.
  int size = 1;             ///< How many processes there are.
  int local_rank = 0;       ///< Among those of this machine; where nobody says, `rank`.
  std::string address = {}; ///< Where ranks meet.
  std::uint16_t port = 0;
  bool agent_hosts =
      false;            ///< `TORCHELASTIC_USE_AGENT_STORE`: the launcher hosts the meeting place.
  int restart = 0;      ///< `TORCHELASTIC_RESTART_COUNT`: keeps attempts apart.
  std::string job = {}; ///< Keeps jobs apart that meet at one place; empty where nobody says.

  friend bool operator==(const launched_rank&, const launched_rank&) = default;
};

/// Most ranks of one group.
inline constexpr int most_launched_ranks = 65536;

/// Looks up a variable of the environment: `std::getenv` outside of tests.
using environment = std::function<const char*(const char* name)>;

/// Reads what a launcher told: `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`,
/// as torchrun sets them. Where `RANK` or `WORLD_SIZE` is not set, the variables of a step of srun,
/// of Open MPI's mpirun, or of one that speaks PMI (MPICH, Intel MPI) take their place, if that has
/// started several processes. Ranks of one machine need no address then, and none needs a port:
/// each job has its own, as far as the launcher numbers jobs.
///
/// Nothing, if nobody has started several processes: an allocation of a batch system alone is no
/// launcher.
/// @return `invalid_config`, naming the variable, its value and what was expected; or the launchers
///         that contradict each other
[[nodiscard]] result<std::optional<launched_rank>> read_launcher(const environment& variable);

/// Returns the index of a rank's GPU where its process sees so many: its local rank, or 0 where the
/// launcher shows each process one GPU alone.
[[nodiscard]] int gpu_of(const launched_rank& self, std::size_t gpus) noexcept;

/// Returns why a rank does not fit in its world, if it does not.
[[nodiscard]] std::optional<failure> beyond_world(const launched_rank& self);

} // namespace ferry
