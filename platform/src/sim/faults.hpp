// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/sim_device.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ferry::sim {

/// How a call that throws nothing fails all the same.
enum class fault_outcome : std::uint8_t { none, absence, death };

/// Which calls of one device fail, and what became of it. Not thread-safe.
class fault_plan {
public:
  void inject(const sim_fault& fault) { armed_.push_back(fault); }
  /// Returns whether a fault has happened since this was last asked.
  bool cancel() noexcept;

  /// Counts a call. Only a gather fails other than by throwing.
  /// @throws device_error if it fails
  fault_outcome enter(device_call call);
  /// @throws device_error `device_poisoned` if the device is
  void require_alive(const char* operation) const;

  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }

private:
  void surface(device_call call);

  std::vector<sim_fault> armed_;
  std::optional<errc> deferred_;
  std::string poisoned_by_;
  std::uint64_t calls_ = 0;
  bool happened_ = false;
};

} // namespace ferry::sim
