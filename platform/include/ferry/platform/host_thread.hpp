// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <string_view>

namespace ferry {

/// A host thread of control: whoever calls a device in program order. An actor is one, although it
/// runs on many threads. Must not outlive its device.
class host_thread {
public:
  host_thread(device& owner, std::string_view name);
  host_thread(const host_thread&) = delete;
  host_thread& operator=(const host_thread&) = delete;
  ~host_thread();

  /// Makes the calling thread act as this host thread until the scope ends. Every message handler
  /// that touches a device opens one first.
  class scope {
  public:
    explicit scope(const host_thread& who) noexcept;
    /// As above, and takes over what the sender of the message knew.
    scope(const host_thread& who, const causal_stamp& received);
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope();

  private:
    device* owner_;
    host_thread_id before_;
  };

private:
  device* owner_;
  host_thread_id id_;
};

} // namespace ferry
