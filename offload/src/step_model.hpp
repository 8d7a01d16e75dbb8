// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/offload/schedule_model.hpp"
#include "ferry/offload/trace.hpp"
#include "ferry/offload/trace_analysis.hpp"
#include "fetch_history.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ferry {

/// The schedule model with the times of a recorded step, for asking what something else would make
/// of it.
class step_model {
public:
  /// Takes the last whole step of a rank, all that it ran if there are no marks of steps.
  step_model(const trace& run, std::uint32_t rank, const rank_history& history);

  /// Returns whether the step uses the block. Those that it does not are of other components than
  /// denoisers.
  [[nodiscard]] bool streams(std::uint32_t block) const;

  /// Returns the change that fits a cause and, by the model, helps; something that a configuration
  /// allows where the model knows none.
  /// @param in_step for a block that the step uses
  [[nodiscard]] std::string advice(wait_cause cause, bool in_step) const;

private:
  struct change {
    nanoseconds step{};
    std::string what;
  };

  [[nodiscard]] std::string keep_it(bool in_step) const;
  [[nodiscard]] change more_slots() const;
  [[nodiscard]] change more_residents() const;
  [[nodiscard]] nanoseconds step_with(std::size_t residents) const;
  [[nodiscard]] bool gathers() const;
  [[nodiscard]] change shared_pass() const;
  [[nodiscard]] bool helps(const change& made) const noexcept;
  [[nodiscard]] std::string told(const change& made) const;

  std::vector<std::uint32_t> order_; ///< Blocks as they ran.
  std::set<std::uint32_t> blocks_;
  std::vector<block_cost> costs_;  ///< Of each.
  std::vector<std::size_t> bytes_; ///< Of each, as they came.
  schedule_options how_;
  nanoseconds step_{};
  nanoseconds compute_{};
};

} // namespace ferry
