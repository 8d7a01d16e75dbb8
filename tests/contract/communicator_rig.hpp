// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/communicator.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace ferry::test {

/// The ranks of one group, rank 0 first.
struct connected_ranks {
  std::vector<std::unique_ptr<device>> devices;
  std::vector<std::unique_ptr<communicator>> ends;
};

/// Runs `body(rank)` for every rank on a thread of its own, and returns when all have ended.
void on_all_ranks(const connected_ranks& group, const std::function<void(int rank)>& body);

/// One rank at work, on one stream. Used by one thread.
class rank_at_work {
public:
  rank_at_work(device& owner, communicator& end, std::size_t shard_bytes);

  /// Enqueues: the shard becomes that of `round`, is gathered, and the output is kept as that of
  /// the round. Waits for nothing.
  void play(std::uint32_t round);

  /// Enqueues a collective of whatever the shard holds.
  void gather(std::uint32_t block);

  /// Waits for everything enqueued, and forgives that a group failed meanwhile.
  void finish();

  /// Returns whether the output kept of `round` holds the shards of all ranks. After `finish`.
  [[nodiscard]] bool right(std::uint32_t round);

  [[nodiscard]] stream& queue() noexcept { return queue_; }
  [[nodiscard]] memory_block& output() noexcept { return output_; }

private:
  struct kept {
    memory_block staged;
    memory_block seen;
  };

  device* device_;
  communicator* end_;
  std::size_t shard_bytes_;
  memory_block shard_;
  memory_block output_;
  std::vector<kept> rounds_;
  stream queue_;
};

/// Returns one rank of `group` at work.
[[nodiscard]] rank_at_work at_work(const connected_ranks& group, int rank, std::size_t shard_bytes);

/// Returns what `rank` shows in `round`: bytes that differ between ranks, rounds and places.
[[nodiscard]] std::vector<std::byte> shard_of(int rank, std::uint32_t round, std::size_t bytes);

} // namespace ferry::test
