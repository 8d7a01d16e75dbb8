// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/memory.hpp>

#include <cstddef>
#include <map>

namespace ferry {

/// A fixed piece of device memory that regions are carved from. One device allocation, made by the
/// constructor. Regions are aligned to `memory_alignment`. Not thread-safe.
class arena {
public:
  /// @throws device_error `out_of_device_memory`
  arena(device& owner, std::size_t bytes);

  /// Carves a region. The first gap that is large enough is used.
  /// @throws device_error `out_of_device_memory`, saying how much was asked, is free, and is the
  /// largest gap
  [[nodiscard]] mutable_bytes carve(std::size_t bytes);

  /// Gives a region back. @pre `region` came from `carve` of this arena and is not given back yet
  void give_back(mutable_bytes region) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return block_.size(); }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }

private:
  memory_block block_;
  std::map<std::size_t, std::size_t> regions_; ///< Offset to length, in use.
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

} // namespace ferry
