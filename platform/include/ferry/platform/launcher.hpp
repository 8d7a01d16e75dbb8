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

/// What a launcher of processes, such as torchrun, told this one.
struct launched_rank {
  int rank = 0;             ///< `RANK`. May be wrong: see `beyond_world`.
  int size = 1;             ///< `WORLD_SIZE`
  int local_rank = 0;       ///< `LOCAL_RANK`; where it is not set, `RANK`.
  std::string address = {}; ///< `MASTER_ADDR`, where ranks meet.
  std::uint16_t port = 0;   ///< `MASTER_PORT`
  bool agent_hosts =
      false;       ///< `TORCHELASTIC_USE_AGENT_STORE`: the launcher hosts the meeting place.
  int restart = 0; ///< `TORCHELASTIC_RESTART_COUNT`: keeps attempts apart.

  friend bool operator==(const launched_rank&, const launched_rank&) = default;
};

/// Looks up a variable of the environment: `std::getenv` outside of tests.
using environment = std::function<const char*(const char* name)>;

/// Reads the launcher's variables. Nothing, if neither `RANK` nor `WORLD_SIZE` is set.
/// @return `invalid_config`, naming the variable, its value and what was expected
[[nodiscard]] result<std::optional<launched_rank>> read_launcher(const environment& variable);

/// Returns the index of a rank's GPU where its process sees so many: its local rank, or 0 where the
/// launcher shows each process one GPU alone.
[[nodiscard]] int gpu_of(const launched_rank& self, std::size_t gpus) noexcept;

/// Returns why a rank does not fit in its world, if it does not.
[[nodiscard]] std::optional<failure> beyond_world(const launched_rank& self);

} // namespace ferry
