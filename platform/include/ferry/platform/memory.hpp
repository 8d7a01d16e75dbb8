// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstddef>

namespace ferry {

/// Every block, slot and tensor starts at a multiple of this many bytes.
inline constexpr std::size_t memory_alignment = 256;

/// Returns `bytes` rounded up to a multiple of `memory_alignment`.
[[nodiscard]] constexpr std::size_t align_up(std::size_t bytes) noexcept {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

/// Returns the size of a page of this machine's memory.
[[nodiscard]] std::size_t page_bytes() noexcept;

/// One allocation of device or pinned memory. Must not outlive its device.
///
/// Destroying it gives the memory back at once; the owner first makes sure, on the host, that all
/// work which touches it has completed.
class memory_block {
public:
  memory_block() = default;
  /// @throws device_error `out_of_device_memory` or `out_of_host_memory`
  memory_block(device& owner, memory_kind kind, std::size_t bytes);
  memory_block(memory_block&& other) noexcept;
  memory_block& operator=(memory_block&& other) noexcept;
  ~memory_block();

  [[nodiscard]] mutable_bytes bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }

private:
  device* owner_ = nullptr;
  memory_kind kind_ = memory_kind::device;
  mutable_bytes bytes_;
};

} // namespace ferry
