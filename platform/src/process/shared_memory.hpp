// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"
#include "process/file_descriptor.hpp"

#include <cstddef>

namespace ferry {

/// Zeroed memory that several ranks see, threads or processes. It has no name in any file system,
/// so that nothing is left of it when the last process ends, however that ends.
class shared_memory {
public:
  /// Makes new memory, which other processes can map while `descriptor()` is open.
  explicit shared_memory(std::size_t bytes);
  /// Maps what another process has made. Takes over the descriptor.
  shared_memory(file_descriptor made_elsewhere, std::size_t bytes);
  shared_memory(shared_memory&& other) noexcept;
  shared_memory& operator=(shared_memory&&) = delete;
  ~shared_memory();

  [[nodiscard]] mutable_bytes bytes() const noexcept { return bytes_; }
  [[nodiscard]] int descriptor() const noexcept { return file_.number(); }

  /// Lets nobody else map it from now on.
  void close_descriptor() noexcept { file_ = {}; }

private:
  void map(std::size_t bytes);

  file_descriptor file_;
  mutable_bytes bytes_;
};

} // namespace ferry
