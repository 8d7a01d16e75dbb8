// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/overlap.hpp>
#include <ferry/platform/device.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

namespace ferry::bench {

/// Remembers when each block use ended on a device, in order. Complete once everything has ended
/// and it is detached; a simulated device has to be drained before that, because it schedules
/// operations when somebody waits for them.
class block_ends final : public operation_observer {
public:
  void on_operation(const operation_span& span) override {
    if (span.kind == operation_kind::mark && std::string_view(span.tag.what) == mark_end)
      seconds_.push_back(std::chrono::duration<double>(span.end).count());
  }
  void on_stream(stream_id, std::string_view) override {}

  /// Returns when the use counted by `n`, from zero, ended. @pre there were more than `n`
  [[nodiscard]] double operator[](std::size_t n) const { return seconds_.at(n); }

private:
  std::vector<double> seconds_;
};

} // namespace ferry::bench
