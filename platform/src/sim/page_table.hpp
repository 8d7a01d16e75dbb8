// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace ferry::sim {

/// The host pages that one device reads by itself. Not thread-safe.
class page_table {
public:
  struct registration {
    const_bytes pages;
    /// Stands for the registration among the accesses: read by every copy that relies on it,
    /// written by what ends it. The pages themselves are also those of other devices.
    std::unique_ptr<std::byte> mark;
  };

  /// @pre `touched` returns false
  const registration& add(const_bytes pages);
  /// @pre `find_exactly` returns it
  void remove(const registration& ended);

  /// Returns the registration that has all of `range`, or null.
  [[nodiscard]] const registration* find(const_bytes range) const noexcept;
  /// Returns the registration of exactly `pages`, or null.
  [[nodiscard]] const registration* find_exactly(const_bytes pages) const noexcept;
  /// Returns whether some of `range` is registered.
  [[nodiscard]] bool touched(const_bytes range) const noexcept;

  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [begin, each] : registrations_)
      visit(each);
  }

private:
  std::map<std::uintptr_t, registration> registrations_;
};

} // namespace ferry::sim
