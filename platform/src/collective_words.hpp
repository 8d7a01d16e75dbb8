// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

/// One rank's view of a collective.
struct described_collective {
  int rank;
  std::string_view what;
  std::uint32_t block;
  std::uint64_t shard_bytes;

  /// Whether another rank means the same one.
  [[nodiscard]] bool same_as(const described_collective& other) const noexcept {
    return what == other.what && block == other.block && shard_bytes == other.shard_bytes;
  }
};

/// Says how two ranks disagree about collective `number`.
[[nodiscard]] std::string disagreement(std::uint64_t number, const described_collective& one,
                                       const described_collective& other);

/// "rank 3 left before collective 7"
[[nodiscard]] std::string left_before(int rank, std::uint64_t number);

/// "the process of rank 3 has ended", and before the end of which collective
[[nodiscard]] std::string ended(int rank);
[[nodiscard]] std::string ended_in(int rank, std::uint64_t number);

/// "rank 1, rank 2 did not arrive at collective 7 in time"
[[nodiscard]] std::string not_arrived(std::string_view ranks, std::uint64_t number);

} // namespace ferry
