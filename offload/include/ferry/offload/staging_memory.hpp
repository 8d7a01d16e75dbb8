// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstddef>

namespace ferry {

/// Where a `module_stager` gets device memory from while its group is there. The runtime gives each
/// group a place in its arena (`reserved_memory`), where a load always finds room; a stager of
/// one's own may take from an allocator instead, which can be out of memory and keep what was given
/// back.
///
/// Memory that was given back may be handed out again at once: all who take from here stage on one
/// stream, whose order keeps the uses apart. Used by one thread at a time.
class staging_memory {
public:
  staging_memory() = default;
  staging_memory(const staging_memory&) = delete;
  staging_memory& operator=(const staging_memory&) = delete;
  virtual ~staging_memory() = default;

  /// @throws device_error `out_of_device_memory`
  [[nodiscard]] virtual mutable_bytes take(std::size_t bytes) = 0;

  /// @pre `memory` came from `take` and is not given back yet
  virtual void give_back(mutable_bytes memory) noexcept = 0;

  /// Gives what was given back on to the device, if there is reason to or `force` is set. May block
  /// until the staging stream has run dry. Returns whether it did; if the device fails, it did not.
  virtual bool release_cache(bool force) noexcept = 0;

  /// Tells of a stager that begins, or ceases, to take from here.
  virtual void attach() noexcept {}
  virtual void detach() noexcept {}
};

/// One range of device memory that somebody else owns, for one group. Keeps nothing and allocates
/// nothing: groups that exclude each other may have overlapping ranges.
class reserved_memory final : public staging_memory {
public:
  explicit reserved_memory(mutable_bytes range) noexcept : range_(range) {}

  /// @throws device_error `out_of_device_memory` if the range is too short or taken
  [[nodiscard]] mutable_bytes take(std::size_t bytes) override;
  void give_back(mutable_bytes memory) noexcept override;
  bool release_cache(bool force) noexcept override;

private:
  mutable_bytes range_;
  bool taken_ = false;
};

} // namespace ferry
