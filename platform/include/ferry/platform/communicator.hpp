// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <optional>

namespace ferry {

/// One rank's end of a group of devices that exchange bytes.
///
/// - *Order.* All ranks issue the same collectives in the same order, each from one host thread at
///   a time. `abort` and `asynchronous_failure` may be called by any thread at any time.
/// - *Failure.* The first failure of a rank ends the group for good and on all ranks: collectives
///   that wait for somebody end without a result, their streams go on, and new ones are refused.
///   That a stream has passed a collective does not say that it succeeded: whoever uses the output
///   asks `asynchronous_failure` first.
/// - *End.* Destroying an end never waits. This rank then issues no further collective, and who
///   waits for one fails, naming it; what it has enqueued still takes part.
///
/// Must not outlive its device.
class communicator {
public:
  communicator() = default;
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;
  virtual ~communicator() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;

  /// Enqueues a collective and returns: once the stream of every rank has come here, `output`
  /// receives the shards of all ranks in the order of the ranks. The stream's later work is ordered
  /// after it, and so is, on this rank, what all ranks enqueued before theirs. Both ranges stay
  /// valid, and the shard unchanged, until it has run. May wait for the other ranks before it
  /// enqueues, as long as the group has patience.
  /// @pre `output.size() == size() * shard.size()`, `shard.size()` is the same on every rank, and
  ///      the two do not overlap
  /// @throws device_error `transfer_aborted` with the first cause once the group has failed
  virtual void all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                          operation_tag tag) = 0;

  /// Fails the group, unless it has failed already. A cause without a rank is this rank's.
  virtual void abort(const failure& cause) noexcept = 0;

  /// Returns why the group has failed, if it has: the first cause and the rank it came from.
  [[nodiscard]] virtual std::optional<failure> asynchronous_failure() const = 0;
};

} // namespace ferry
