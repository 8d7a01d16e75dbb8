// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_lease.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace ferry {

/// Returns the whole pages that hold `regions`: overlapping and touching ones joined within a file,
/// those of two files never. Regions without bytes are left out. Fails with `invalid_argument`,
/// naming the file, for a region that may be written or is no range of addresses, and if nothing is
/// left; with `out_of_host_memory` for more than `ceiling` bytes of pages.
[[nodiscard]] result<std::vector<const_bytes>>
plan_registration(std::span<const mapped_region> regions, std::optional<std::uint64_t> ceiling);

/// The pages that a lease's weights lie in, registered with one device: all of them, or none.
///
/// What is registered keeps the device and the lease alive, in a list of the process, until `close`
/// has given it back: a file is never unmapped under a device that may read it. Used by one thread
/// at a time.
class host_registration {
public:
  /// Registers the pages of `lease`, range by range, and makes sure that each of `sources` can be
  /// copied from as `memory_kind::registered`. `owner` is not called unless all is in order:
  /// `plan_registration` says what may be wrong, and `unsupported` that the device registers none.
  ///
  /// If anything fails, what is registered is given back in reverse order. If that works, the
  /// reason is returned, and the weights are where they were. If not, it is `incomplete`: the rest
  /// and the lease stay, for `retry_registrations`.
  [[nodiscard]] static result<std::unique_ptr<host_registration>>
  open(std::shared_ptr<device> owner, std::shared_ptr<host_lease> lease,
       std::span<const const_bytes> sources, std::optional<std::uint64_t> ceiling);

  host_registration(const host_registration&) = delete;
  host_registration& operator=(const host_registration&) = delete;

  /// What is still registered is left to `retry_registrations`.
  ~host_registration();

  /// Returns what is registered now.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  /// Returns whether all of `range` is registered, in one piece.
  [[nodiscard]] bool covers(const_bytes range) const noexcept;

  /// Gives the pages back, in reverse order. Returns what failed: those ranges stay, and the call
  /// may be repeated. @pre copies from the pages have run, and the calling host thread knows so
  std::vector<failure> close();

  class held; ///< Private to the implementation.

private:
  explicit host_registration(std::shared_ptr<held> what);

  std::shared_ptr<held> held_;
};

/// Gives back what `owner` has registered and nobody holds any more. Returns what failed; it may be
/// repeated. Leases of which nothing is registered any more end.
[[nodiscard]] std::vector<failure> retry_registrations(const device& owner);

/// Counts what is registered with `owner` and nobody holds any more.
[[nodiscard]] std::size_t abandoned_registrations(const device& owner) noexcept;

} // namespace ferry
