// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/key_value_store.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// What the ranks brought to a meeting, rank 0 first.
using contributions = std::vector<std::vector<std::byte>>;

/// One rank's end of a group that meets by name: for votes, digests and unique ids. Carries
/// control, never weights: a contribution has at most 1 MiB.
///
/// The first failure of a rank, whether it poisoned, left, died or was late, fails the current and
/// all later meetings of all ranks with that cause. Destroying an end is leaving: whoever waits for
/// this rank fails. Where it hosts the store, that takes up to 2 s, until the others have left as
/// well, so that they see the last of it. One thread at a time may `meet`; `poison`
/// and `failed` may be called by any.
class rendezvous {
public:
  rendezvous() = default;
  rendezvous(const rendezvous&) = delete;
  rendezvous& operator=(const rendezvous&) = delete;
  virtual ~rendezvous() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;

  /// Waits until every rank has come to the meeting called `key`, and returns what they brought.
  /// The ranks hold the same meetings; a name is used once.
  /// @return the first cause, with its rank: `deadline_exceeded` naming all that did not come
  ///         within `patience`, `transfer_aborted` naming one that is gone, or what poisoned it
  [[nodiscard]] virtual result<contributions> meet(std::string_view key, const_bytes own,
                                                   nanoseconds patience) = 0;

  /// Fails all ranks, unless they have failed already. A cause without a rank is this rank's.
  virtual void poison(const failure& cause) noexcept = 0;

  /// Returns why the ranks have failed, as far as that is known without a meeting: somebody has
  /// poisoned them or found one missing.
  [[nodiscard]] virtual std::optional<failure> failed() noexcept = 0;

  /// Returns the ranks whose processes have ended without leaving, as far as this end can see that:
  /// those of this machine, while the store is there. Not at the same time as `meet`.
  [[nodiscard]] virtual std::vector<int> lost() noexcept = 0;
};

/// Connects ranks that are threads of this process, rank 0 first. @pre `size > 0`
[[nodiscard]] std::vector<std::unique_ptr<rendezvous>> make_memory_rendezvous(int size);

/// Tells the ranks that share `store` that this process is rank `rank` of `size`. From then on
/// those who wait for it miss it at once when it ends, if they are of this machine.
/// `join_rendezvous` does so as well; who has much to do before it joins does it first.
/// @return `invalid_argument` if all have joined and another process is that rank: they are of
///         another job, and learn nothing of this one
/// @throws ferry_error `io_failure` if the store cannot be reached
[[nodiscard]] result<void> announce_rank(key_value_store& store, int rank, int size);

/// Joins ranks that share `store`, as rank `rank` of `size`. Waits up to `patience` until all have
/// joined. A process of this machine that ends is missed at once, not when time is up; one that has
/// not been announced is not known, and missed when time is up.
/// @pre `0 <= rank < size`
/// @return as of `meet`; `invalid_argument` if two processes join as the same rank
[[nodiscard]] result<std::unique_ptr<rendezvous>>
join_rendezvous(std::shared_ptr<key_value_store> store, int rank, int size, nanoseconds patience);

/// Fails all ranks that share `store`, on behalf of one that cannot join them.
/// @throws ferry_error `io_failure` if the store cannot be reached
void fail_ranks(key_value_store& store, const failure& cause);

/// Fails all ranks in place of joining them as rank `rank`. Returns the first cause, the same on
/// all ranks. Whoever hosts the store keeps it until the others know, see `await_leaving_ranks`.
/// @throws ferry_error as `fail_ranks`
[[nodiscard]] failure refuse_to_join(key_value_store& store, int rank, failure cause);

/// Waits until all `size` ranks have left, have refused to join, or have ended, `patience` at most.
/// @throws ferry_error as `fail_ranks`
void await_leaving_ranks(key_value_store& store, int size, nanoseconds patience);

/// Text as a contribution, and back.
[[nodiscard]] const_bytes as_contribution(std::string_view text) noexcept;
[[nodiscard]] std::string as_text(const_bytes contribution);

} // namespace ferry
