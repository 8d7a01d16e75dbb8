// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/cuda_device.hpp"
#include "nccl/live_comm.hpp"
#include "nccl/nccl_api.hpp"
#include "nccl/peer_group.hpp"

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace ferry::nccl {

/// One rank's communicator, and what its two threads share: the one that issues collectives, and
/// one that watches them (`watch`) and is the only one that closes what NCCL has.
class rank_link {
public:
  using time_point = std::chrono::steady_clock::time_point;

  rank_link(const api& library, cuda_device& device, ncclComm_t comm,
            std::shared_ptr<peer_group> group, nanoseconds patience);

  // By whoever issues.

  /// Returns once NCCL has connected the ranks. False if the group has failed, as it has then if
  /// that took too long.
  [[nodiscard]] bool await_connected(time_point deadline);

  /// See `communicator::all_gather`. The first is number 0. Waits while NCCL is still about to
  /// enqueue it, which it is until all ranks have come where it connects them anew. Fails the group
  /// if it has not ended by `deadline`, or without one in the patience that the link has.
  void all_gather(stream_id stream, mutable_bytes output, const_bytes shard, operation_tag tag,
                  std::optional<time_point> deadline = std::nullopt);

  /// Returns once all collectives have ended. False as of `await_connected`.
  [[nodiscard]] bool await_idle(time_point deadline);

  /// Issues nothing any more: lets the watch end once what is enqueued has.
  void leave() noexcept;

  // By any thread.

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  void fail(const failure& cause) noexcept;
  [[nodiscard]] std::optional<failure> failed() const;
  [[nodiscard]] bool forked() const noexcept;

  // By who has the thread that watches.

  /// Runs until this rank has left and what it enqueued has ended, or the group has failed. Closes
  /// the communicator.
  void watch() noexcept;

  /// Waits for nobody any more: ends what is under way.
  void give_up() noexcept;

  /// Makes the watch touch the device no more, whenever it goes on. False if it has finished.
  [[nodiscard]] bool abandon() noexcept;

  [[nodiscard]] bool finished() const noexcept { return finished_; }
  [[nodiscard]] bool await_finished(time_point deadline);

private:
  struct order {
    std::uint64_t number;
    operation_tag tag;
    event_id arrived; ///< Of this rank's stream at the collective.
    event_id done;
    time_point issued;
    std::optional<time_point> deadline;                ///< Nothing: as the patience is.
    bool enqueued = false;                             ///< `done` has been recorded.
    std::optional<time_point> came = std::nullopt;     ///< The stream of this rank, when.
    std::optional<time_point> all_came = std::nullopt; ///< The ranks of this machine, when.
  };

  [[nodiscard]] event_id some_event();
  void issue(stream_id stream, mutable_bytes output, const_bytes shard, const order& made);
  void enqueue(void* native, mutable_bytes output, const_bytes shard);
  [[nodiscard]] std::optional<ncclResult_t> state();
  /// Returns whether NCCL has nothing in progress. Fails the group if it has found an error.
  [[nodiscard]] bool settled();
  [[nodiscard]] device_error refusal() const;

  [[nodiscard]] bool watch_on();
  [[nodiscard]] std::optional<order> first_order();
  /// Returns whether the order has got on.
  [[nodiscard]] bool advance(const order& first);
  void expect_soon(const order& first, time_point since);
  void watch_to_the_end();
  void pause();
  void close() noexcept;
  [[nodiscard]] bool finalize(ncclComm_t comm) noexcept;

  const api* library_;
  cuda_device* device_;
  live_comm comm_;
  std::shared_ptr<peer_group> group_;
  nanoseconds patience_;
  int rank_;
  int size_;
  ::pid_t process_;

  std::mutex issuing_; ///< Held by a collective that is issued, and to end that for good.
  std::uint64_t next_ = 0;

  mutable std::mutex mutex_; ///< Guards the rest.
  std::condition_variable changed_;
  std::deque<order> orders_;     ///< In the order of their numbers.
  std::vector<event_id> events_; ///< All that were made.
  std::vector<event_id> free_;   ///< Those of them that no order uses.
  bool leaving_ = false;
  bool abandoned_ = false;
  std::atomic<bool> given_up_ = false;
  std::atomic<bool> connected_ = false;
  std::atomic<bool> finished_ = false;
  nanoseconds delay_{}; ///< Before the watch looks again. Its thread's own.
};

} // namespace ferry::nccl
