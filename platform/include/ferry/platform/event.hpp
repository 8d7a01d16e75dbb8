// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

namespace ferry {

/// A point in a stream that other streams can wait for. Owns one device event.
///
/// Recording again makes a new version; who waited before keeps waiting for the version it saw.
/// Immovable, so that its address can serve as its identity. Must not outlive its device.
class event {
public:
  explicit event(device& owner);
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  ~event();

  [[nodiscard]] event_id id() const noexcept { return id_; }

  /// Returns whether the latest record has run. True for an event never recorded.
  [[nodiscard]] bool ready() const;

  /// Blocks the calling thread until the latest record has run.
  void synchronize(wait_edge edge) const;

  /// As `synchronize`, whether something before it failed or not. See `device::drain`.
  void drain(wait_edge edge) const;

private:
  device* owner_;
  event_id id_;
};

} // namespace ferry
