// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "nccl/nccl_api.hpp"

#include <mutex>
#include <optional>
#include <utility>

namespace ferry::nccl {

/// A communicator of NCCL's until somebody takes it, to close it: NCCL frees it then, whatever
/// other threads are about to do. Thread-safe.
class live_comm {
public:
  explicit live_comm(ncclComm_t comm) noexcept : comm_(comm) {}

  /// Makes one call, which must not block, while nobody else makes any. Nothing, once it is taken.
  template <class Call>
  [[nodiscard]] std::optional<ncclResult_t> call(const Call& make) {
    const auto lock = std::scoped_lock(mutex_);
    return comm_ == nullptr ? std::nullopt : std::optional<ncclResult_t>(make(comm_));
  }

  /// Returns null if it was taken before.
  [[nodiscard]] ncclComm_t take() noexcept {
    const auto lock = std::scoped_lock(mutex_);
    return std::exchange(comm_, nullptr);
  }

private:
  std::mutex mutex_;
  ncclComm_t comm_;
};

} // namespace ferry::nccl
