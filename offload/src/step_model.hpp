// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/offload/schedule_model.hpp"
#include "ferry/offload/trace.hpp"
#include "ferry/offload/trace_analysis.hpp"
#include "fetch_history.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ferry {

/// The schedule model with the times of a recorded step, for asking what something else would make
/// of it.
class step_model {
public:
  /// Takes the last whole step of a rank, all that it ran if there are no marks of steps.
  step_model(const trace& run, std::uint32_t rank, const rank_history& history);

  /// Returns the change that fits a cause and, by the model, helps; empty if there is none.
  [[nodiscard]] std::string advice(wait_cause cause) const;

private:
  struct change {
    nanoseconds step{};
    std::string what;
  };

  [[nodiscard]] change more_slots() const;
  [[nodiscard]] change more_residents() const;
  [[nodiscard]] change shared_pass() const;
  [[nodiscard]] bool helps(const change& made) const noexcept;
  [[nodiscard]] std::string told(const change& made) const;

  std::vector<std::uint32_t> order_; ///< Blocks as they ran.
  std::vector<block_cost> costs_;    ///< Of each.
  schedule_options how_;
  nanoseconds step_{};
  nanoseconds compute_{};
};

} // namespace ferry
