// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/trace.hpp>
#include <ferry/platform/device.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>

namespace ferry {

/// What a thread recorded.
struct trace_record {
  struct message {
    std::uint64_t actor;
    const char* name; ///< Of the actor.
    message_span span;
  };

  std::uint64_t order = 0; ///< Among all records of the log.
  std::variant<operation_span, message> what;
};

/// The records of one thread on their way to whoever writes them. One thread puts, one takes.
class record_ring {
public:
  explicit record_ring(std::size_t size)
      : size_(size), records_(std::make_unique<trace_record[]>(size)) {}

  [[nodiscard]] bool full() const noexcept {
    return put_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_acquire) == size_;
  }

  /// @pre not full
  void put(trace_record record) noexcept {
    const auto at = put_.load(std::memory_order_relaxed);
    records_[at % size_] = record;
    put_.store(at + 1, std::memory_order_release);
  }

  template <class Take>
  void take_all(Take&& take) {
    auto at = taken_.load(std::memory_order_relaxed);
    for (const auto end = put_.load(std::memory_order_acquire); at != end; ++at)
      take(records_[at % size_]);
    taken_.store(at, std::memory_order_release);
  }

  /// The thread that puts is gone.
  void abandon() noexcept { abandoned_.store(true, std::memory_order_release); }
  [[nodiscard]] bool abandoned() const noexcept {
    return abandoned_.load(std::memory_order_acquire);
  }

private:
  std::size_t size_;
  std::unique_ptr<trace_record[]> records_;
  alignas(64) std::atomic<std::uint64_t> put_{0};
  alignas(64) std::atomic<std::uint64_t> taken_{0};
  std::atomic<bool> abandoned_{false};
};

} // namespace ferry
