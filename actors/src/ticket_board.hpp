// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>
#include <ferry/offload/ring.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <semaphore.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace ferry {

/// What each slot is good for right now, readable without a message: the model thread finds its
/// block here, so that a prefetch that was on time costs it one atomic exchange.
///
/// One atomic word a slot: `free -> requested -> submitted -> in use -> free`. Each transition has
/// one owner: the prefetcher requests and revokes, the copy worker publishes, the model thread
/// takes and gives back. An exchange that lost its race changes nothing and says so.
///
/// The model thread is no actor and cannot be sent a message: when its block is late it sleeps on a
/// semaphore, which costs less than half of a condition variable. The mutex guards the failure
/// only.
class ticket_board final : public ticket_revoker {
public:
  struct ticket {
    slot_id slot{};
    std::uint64_t generation = 0;
    std::uint64_t retires_below = 0; ///< See `ring`.
  };

  struct counts {
    std::uint32_t in_flight = 0; ///< Requested, submitted or in use.
    std::uint32_t in_use = 0;
    std::uint32_t free = 0;
  };

  explicit ticket_board(std::size_t slots);
  ~ticket_board() override;

  // The prefetcher.

  /// Announces a fetch. @pre the slot is free
  void request(const fetch_command& command) noexcept;

  [[nodiscard]] bool revoke(slot_id slot, std::uint64_t generation) noexcept override;
  [[nodiscard]] bool is_given_back(slot_id slot, std::uint64_t generation) const noexcept override;

  /// Returns whether the model thread has waited in vain since this was last asked.
  [[nodiscard]] bool was_late() noexcept { return late_.exchange(false); }

  // The copy worker.

  /// Lets the model thread have the block. Nothing happens if the request has been revoked.
  void publish(slot_id slot, std::uint64_t generation, causal_stamp known);

  // The model thread. From `enter` to `leave` it may use the board and whatever lies behind it.

  /// Returns false if the board has failed, or holds the model thread off.
  [[nodiscard]] bool enter() noexcept;
  void leave() noexcept;

  /// Takes the oldest submitted ticket for `block` whose generation is at least `oldest`.
  [[nodiscard]] std::optional<ticket> take(block_id block, std::uint64_t oldest) noexcept;

  /// Returns whether a ticket for `block` that `take` would accept is requested or submitted.
  [[nodiscard]] bool on_its_way(block_id block, std::uint64_t oldest) const noexcept;

  /// As `take`, but waits until there is one. Fails with `deadline_exceeded`, or the first failure
  /// as soon as there is one.
  [[nodiscard]] result<ticket> wait_for(block_id block, std::uint64_t oldest,
                                        std::chrono::microseconds deadline);

  /// Returns the ticket for `block` that was taken and not given back.
  [[nodiscard]] std::optional<ticket> taken(block_id block) const noexcept;

  /// Returns what the copy worker knew when it published. @pre the slot is taken
  [[nodiscard]] const causal_stamp& known(slot_id slot) const noexcept;

  /// @pre the slot is taken
  void give_back(slot_id slot) noexcept;

  // Anybody.

  /// Stores a failure unless there is one, and wakes the model thread.
  void fail(failure cause);
  [[nodiscard]] bool failed() const noexcept { return failed_.load(); }
  /// Returns the first failure, or else why the model thread is or was held off.
  [[nodiscard]] failure first_failure() const;

  /// Keeps the model thread outside until `admit`. Returns false, and does not, if it is inside.
  [[nodiscard]] bool hold_off(failure why);
  void admit() noexcept;

  /// Lets the model thread's uses fail with `cancelled` until the request is over. What it uses
  /// already goes on.
  void cancel(bool on) noexcept { cancelled_.store(on); }
  [[nodiscard]] bool cancelled() const noexcept { return cancelled_.load(); }

  /// Returns whether the model thread is inside. Once it is not and the board has failed, it stays
  /// outside.
  [[nodiscard]] bool entered() const noexcept { return inside_.load() != 0; }

  /// Blocks the calling thread until the model thread is outside. Returns false after `deadline`.
  /// @pre `failed()`
  [[nodiscard]] bool wait_left(std::chrono::nanoseconds deadline);

  [[nodiscard]] counts count() const noexcept;
  /// Returns a block that is in use, if any.
  [[nodiscard]] std::optional<block_id> any_in_use() const noexcept;

private:
  struct alignas(64) cell {
    std::atomic<std::uint64_t> word{0}; ///< Generation and state.
    std::atomic<block_id> block{};      ///< Of that generation.
    std::uint64_t retires_below = 0;
    causal_stamp known;
  };

  [[nodiscard]] cell& at(slot_id slot) const noexcept;
  void wake_model() noexcept;

  std::size_t size_;
  std::unique_ptr<cell[]> cells_;
  std::atomic<std::uint32_t> inside_{0};
  std::atomic<bool> waiting_{false}; ///< The model thread is about to sleep on `wake_`.
  sem_t wake_;
  std::atomic<bool> late_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> barred_{false}; ///< Failed, or held off.
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  std::condition_variable woken_;
  failure first_failure_;
  failure held_off_;
};

} // namespace ferry
