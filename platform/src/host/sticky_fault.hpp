// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

namespace ferry {

/// Why a device is broken, by something that nobody was waiting for. Keeps the first for whoever
/// waits next, and stays. Thread-safe.
class sticky_fault {
public:
  void raise(std::string_view reason);

  [[nodiscard]] bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }

  /// @throws device_error `device_failure` with the reason, once raised
  void rethrow(std::string_view operation) const;

  /// @throws device_error `device_poisoned` with the reason, once raised
  void refuse(std::string_view operation) const;

  [[nodiscard]] std::string reason() const;

private:
  mutable std::mutex mutex_;
  std::string reason_;
  std::atomic<bool> raised_ = false;
};

} // namespace ferry
