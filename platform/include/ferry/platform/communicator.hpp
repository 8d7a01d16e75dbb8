// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <optional>

namespace ferry {

/// One rank's end of a group of devices that exchange bytes.
///
/// All ranks issue the same collectives in the same order; a rank that never arrives holds up the
/// streams of the others. Used by one host thread at a time. Must not outlive its device.
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
  /// after it, and so is, on this rank, what all ranks enqueued before theirs.
  /// @pre `output.size() == size() * shard.size()`, and `shard.size()` is the same on every rank
  /// @throws device_error `transfer_aborted` after `abort`
  virtual void all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                          operation_tag tag) = 0;

  /// Gives up on every rank: collectives that still wait for somebody end without a result, and
  /// new ones are refused.
  virtual void abort() noexcept = 0;

  /// Returns the first failure of the group that no call of this rank has thrown.
  [[nodiscard]] virtual std::optional<failure> asynchronous_failure() const = 0;
};

} // namespace ferry
