// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>
#include <ferry/offload/order.hpp>
#include <ferry/offload/ticket.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ferry {

/// Asks for the bytes of one block in one slot: one use of it.
struct fetch_command {
  block_id block{};
  slot_id slot{};
  std::uint64_t generation = 0;    ///< Increases from command to command over all slots.
  std::uint64_t retires_below = 0; ///< See `ring`.
  bool wait_for_last_use = false;  ///< The slot was used before.
  bool demanded = false;           ///< The model waits for it: nothing was submitted ahead.

  friend bool operator==(const fetch_command&, const fetch_command&) = default;
};

/// Takes tickets back from the thread that runs the model.
class ticket_revoker {
public:
  virtual ~ticket_revoker() = default;

  /// Makes a submitted or ready ticket unusable. Returns false, changing nothing, if the model has
  /// taken it, even if it has released it since: the ring will hear of that. After true the model
  /// never takes it, not even if its copies are published later.
  [[nodiscard]] virtual bool revoke(slot_id slot, std::uint64_t generation) noexcept = 0;

  /// Returns whether the model has taken the ticket and released it.
  [[nodiscard]] virtual bool is_given_back(slot_id slot,
                                           std::uint64_t generation) const noexcept = 0;
};

struct ring_counters {
  std::uint64_t prefetches = 0;     ///< Fetches ahead of any demand.
  std::uint64_t blocking_loads = 0; ///< Fetches that the model was already waiting for.
  std::uint64_t revoked = 0;        ///< Fetched, but never used.

  friend bool operator==(const ring_counters&, const ring_counters&) = default;
};

/// Decides what the slots of one arena hold: every slot that the model does not read is filled with
/// the next use expected, over all rings.
///
/// One ticket is one use: a block that runs twice in a row is fetched twice. Tickets are submitted
/// in the order of their generations and must be published in that order.
///
/// The thread that runs the model acts ahead of the ring, which hears of it by messages in program
/// order: a release, a demand, an announcement. So that outcomes do not depend on when messages
/// arrive, that thread
/// - takes, of several tickets for a block, the one with the lowest generation;
/// - takes, once it has released a ticket, none with a generation below its `retires_below`:
///   those were expected earlier, and skipped;
/// - demands a block only if it finds no ticket that it may take, and then waits for one;
/// - never acquires a block that it holds.
/// The ring revokes retired tickets when it hears of a release, and any unused ticket when it hears
/// of a demand, an announcement or the end of a request.
///
/// Pure policy: no device, no threads. Commands live until the next call. After the first calls
/// nothing is allocated. Not thread-safe.
class ring {
public:
  using commands = std::span<const fetch_command>;

  /// @pre `slots` >= 1; `revoker` outlives the ring
  ring(std::span<const planned_ring> rings, std::size_t slots, ticket_revoker& revoker);
  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  [[nodiscard]] std::size_t slots() const noexcept { return seats_.size(); }
  [[nodiscard]] const ring_counters& counters() const noexcept { return counters_; }

  /// Adds free slots, which the next call fills. @pre `slots` >= `slots()`
  void grow(std::size_t slots);

  /// Returns whether the model will find a ticket for `block` without a demand being served: then
  /// `demand` would do nothing.
  [[nodiscard]] bool on_its_way(block_id block) const noexcept;

  [[nodiscard]] bool in_request() const noexcept { return in_request_; }

  /// Returns the slots whose tickets the last call revoked without fetching into them again.
  [[nodiscard]] std::span<const slot_id> emptied() const noexcept { return emptied_; }

  /// Starts to prefetch. Fails with `busy` during a request.
  [[nodiscard]] result<commands> begin_request();

  /// Revokes every unused ticket and stops prefetching. A release that was not heard of counts; if
  /// it is heard later, it changes nothing. Fails with `busy` if a block is in use: the request
  /// then goes on; with `invalid_argument` outside a request.
  [[nodiscard]] result<void> end_request();

  /// Revokes every unused ticket and forgets nothing; prefetching goes on with the next call. Fails
  /// with `busy` if a block is in use: the tickets are revoked nevertheless.
  [[nodiscard]] result<void> empty();

  /// Fills the free slots again, in a request.
  [[nodiscard]] commands refill();

  /// The model waits for `block`. Outside a request only that block is fetched.
  /// Fails with `slot_conflict` if every slot is in use, with `not_found` for a block that no ring
  /// has.
  [[nodiscard]] result<commands> demand(block_id block);

  /// The model has released a ticket. Outside a request nothing is fetched. Fails with
  /// `stale_handle` if it is not the slot's current one.
  [[nodiscard]] result<commands> released(slot_id slot, std::uint64_t generation);

  /// The model will run exactly `blocks` next. See `execution_order::announce`. Fails with
  /// `not_found` for a block that no ring has.
  [[nodiscard]] result<commands> announce(std::span<const block_id> blocks);

  /// Returns whether an announced use has yet to come.
  [[nodiscard]] bool has_announced() const noexcept { return order_.next_announced().has_value(); }

  /// Goes on as if the model had run the next announced use, which it never will.
  /// @pre `has_announced()`, in a request
  [[nodiscard]] commands pass_over();

private:
  struct seat {
    slot_ticket ticket;
    std::uint64_t retires_below = 0;
    bool recorded = false;     ///< The order knows of this use already.
    bool used_before = false;  ///< By the model, whatever was fetched into the slot since.
    bool wanted = false;       ///< Holds one of `expected_`.
    std::uint64_t unheard = 0; ///< The generation whose release was not heard of, if any.
  };
  struct expected_use {
    block_id block{};
    std::uint64_t generation = 0; ///< Of the ticket that is there for it, 0 if none.
  };
  enum class revocable { nothing, anything };

  [[nodiscard]] slot_id id_of(const seat& which) const noexcept;
  void clear_results() noexcept;
  bool try_revoke(seat& which) noexcept;
  [[nodiscard]] result<void> leave(seat& which, std::uint64_t generation);
  void retire_below(std::uint64_t generation) noexcept;
  [[nodiscard]] seat* oldest_for(block_id block) noexcept;
  bool fill(revocable what, std::optional<block_id> demanded);
  void expect(std::optional<block_id> demanded, std::size_t usable) noexcept;
  void match_tickets() noexcept;
  [[nodiscard]] bool place_expected(revocable what, bool demanded) noexcept;
  void fetch(seat& into, std::size_t use, bool demanded) noexcept;

  ticket_revoker* revoker_;
  execution_order order_;
  std::vector<seat> seats_;
  std::vector<block_id> predicted_;
  std::vector<expected_use> expected_;
  std::vector<fetch_command> commands_;
  std::vector<slot_id> emptied_;
  ring_counters counters_;
  std::uint64_t last_generation_ = 0;
  bool in_request_ = false;
};

} // namespace ferry
