// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

namespace ferry::bench {

/// Measures from where the weights of a block are there to where compute goes on, of each block
/// that compute waited for. For a model on one stream. Thread-safe.
class gap_watch final : public operation_observer {
public:
  void on_operation(const operation_span& span) override;
  void on_stream(stream_id, std::string_view) override {}

  /// Returns the gaps in microseconds, sorted.
  [[nodiscard]] std::vector<double> gaps() const;

private:
  struct use {
    nanoseconds asked{};
    nanoseconds landed{};
    nanoseconds began{};
  };

  mutable std::mutex mutex_;
  nanoseconds asked_{}; ///< By the last block so far, which does not know its ticket yet.
  std::map<std::uint64_t, use> uses_; ///< By their tickets.
};

} // namespace ferry::bench
