// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/offload/schedule_model.hpp"
#include "ferry/offload/trace_analysis.hpp"
#include "fetch_history.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

namespace ferry {

/// The schedule model with the times of a recorded step, for asking what something else would make
/// of it.
class step_model {
public:
  /// Takes what a rank ran in a stretch of time, one of `ranks`.
  step_model(const rank_history& history, const rank_history::stretch& step, std::size_t ranks);

  /// Returns the change that fits a cause and, by the model, helps; something that a configuration
  /// allows where the model is not asked.
  [[nodiscard]] std::string advice(wait_cause cause) const;

private:
  struct change {
    nanoseconds step{};
    std::string what;
  };

  void take(const rank_history& history, const rank_history::stretch& step);
  [[nodiscard]] std::string first_that_helps(std::initializer_list<change> changes) const;
  [[nodiscard]] change more_slots() const;
  [[nodiscard]] change more_residents() const;
  [[nodiscard]] nanoseconds step_with(std::size_t residents) const;
  [[nodiscard]] bool gathers() const;
  [[nodiscard]] change rank_local() const;
  [[nodiscard]] change shared_pass() const;
  [[nodiscard]] bool helps(const change& made) const noexcept;
  [[nodiscard]] std::string told(const change& made) const;

  std::vector<std::uint32_t> order_; ///< Blocks as they ran, and `no_block` for what else did.
  std::set<std::uint32_t> blocks_;
  std::vector<block_cost> costs_;  ///< Of each.
  std::vector<std::size_t> bytes_; ///< Of each, as they came.
  std::size_t ranks_;
  schedule_options how_;
  nanoseconds step_{};
  nanoseconds compute_{};
};

} // namespace ferry
