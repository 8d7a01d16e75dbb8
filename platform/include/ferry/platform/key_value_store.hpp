// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// What ranks leave for each other by name. A key is written once and stays. Thread-safe.
///
/// Members throw `ferry_error` `io_failure` if the store cannot be reached any more.
class key_value_store {
public:
  key_value_store() = default;
  key_value_store(const key_value_store&) = delete;
  key_value_store& operator=(const key_value_store&) = delete;
  virtual ~key_value_store() = default;

  /// Whether the others lose the store with this object.
  [[nodiscard]] virtual bool hosted_here() const noexcept = 0;

  /// Writes `key` unless somebody has. Returns whether this call did.
  virtual bool offer(const std::string& key, const_bytes value) = 0;

  /// Returns whether all keys have been written, waiting up to `patience` until they are. May
  /// return sooner when something else has been written.
  [[nodiscard]] virtual bool await(std::span<const std::string> keys, nanoseconds patience) = 0;

  /// Returns what was written. @pre `key` has been written
  [[nodiscard]] virtual std::vector<std::byte> read(const std::string& key) = 0;
};

/// Makes a store for ranks that are threads of this process.
[[nodiscard]] std::shared_ptr<key_value_store> make_memory_store();

} // namespace ferry
