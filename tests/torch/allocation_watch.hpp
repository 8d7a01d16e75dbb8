// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace ferry::test {

/// Watches the calling program's `operator new` while it lives. One at a time, one thread.
class allocation_watch {
public:
  /// @param fail_at the allocation from now on that throws `std::bad_alloc`, from 0
  explicit allocation_watch(std::size_t fail_at = ~std::size_t{0});
  allocation_watch(const allocation_watch&) = delete;
  allocation_watch& operator=(const allocation_watch&) = delete;
  ~allocation_watch();

  [[nodiscard]] std::size_t count() const noexcept; ///< Allocations, the failed one included.
  [[nodiscard]] std::size_t bytes() const noexcept; ///< Asked for and not given back.
  [[nodiscard]] bool failed() const noexcept;
};

} // namespace ferry::test
