// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/error.hpp"
#include "host/exchange_board.hpp"
#include "process/process_identity.hpp"
#include "process/shared_memory.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace ferry {

/// One rank's share in an exchange of shards through shared memory, between threads or processes.
///
/// Each rank shows its shard part by part in two windows, and copies a part of all ranks once all
/// have shown it. Nobody's memory but the windows is read by others, so a rank that fails or ends
/// leaves nothing dangling.
///
/// Who waits sleeps on a futex and looks now and then whether those it waits for still live. No
/// lock is ever held, so a process that is killed at any instruction blocks nobody.
class exchange {
public:
  /// @pre `shared` has `exchange_board::size(size)` bytes
  exchange(std::shared_ptr<shared_memory> shared, int rank, int size, nanoseconds patience,
           peer_processes peers);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// Expects these ranks only, in ascending order: those that share the memory.
  void confine_to(std::vector<int> members);

  /// Lets no further process map the shared memory.
  void close_descriptor() noexcept { shared_->close_descriptor(); }

  /// Takes part in collective `number`, counted from 1: blocks until `output` holds the shards of
  /// all ranks or the exchange has failed.
  void gather(std::uint64_t number, mutable_bytes output, const_bytes shard, operation_tag tag);

  // Collectives whose bytes go another way, counted from 0 or 1.

  /// Says what this rank means by collective `number`, before it is enqueued. Never waits.
  void plan(std::uint64_t number, std::uint64_t shard_bytes, operation_tag tag) noexcept;

  /// Compares what all ranks have said so far, and ends the exchange if they mean different
  /// collectives. Whoever has seen the end of one finds it compared afterwards. Thread-safe.
  void compare_plans() noexcept;

  /// Comes to the collective after the last one. Never waits.
  void arrive() noexcept;

  /// Returns whether all ranks have come as far as this one, which is to `number`. Ends the
  /// exchange if one has not that never will, or not by `deadline`. Never waits.
  [[nodiscard]] bool all_arrived(std::uint64_t number,
                                 std::chrono::steady_clock::time_point deadline);

  /// Ends the exchange for all ranks, unless it has failed.
  void fail(const failure& cause) noexcept;

  /// Promises that this rank takes part in no collective from `number` on.
  void leave(std::uint64_t number) noexcept;

  /// Returns the first failure, which may be that another rank has ended without leaving.
  [[nodiscard]] std::optional<failure> failed();

  /// Returns a rank whose process is known to have ended, also after it has left.
  [[nodiscard]] std::optional<int> ended_rank() const noexcept;

private:
  template <class Condition>
  [[nodiscard]] bool await(std::uint64_t number, const Condition& holds_for);
  template <class Condition>
  [[nodiscard]] bool progress_possible(std::uint64_t number, const Condition& holds_for);
  template <class Condition>
  void expire(std::uint64_t number, const Condition& holds_for);
  void show(std::uint64_t part, const_bytes piece, std::size_t shard_bytes, operation_tag tag);
  [[nodiscard]] bool same_everywhere(std::uint64_t number, std::uint64_t part);
  [[nodiscard]] bool all_planned(std::uint64_t number) const noexcept;
  [[nodiscard]] bool same_plans(std::uint64_t number);
  void announce() noexcept;
  [[nodiscard]] failure read_cause();

  std::shared_ptr<shared_memory> shared_;
  exchange_board board_;
  int rank_;
  int size_;
  nanoseconds patience_;
  peer_processes peers_;
  std::vector<int> members_;
  std::mutex comparing_;
  std::atomic<std::uint64_t> turn_ = 1; ///< The collective whose turn it is on this rank.
};

} // namespace ferry
