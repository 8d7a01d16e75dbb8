// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_weight_plan.hpp>
#include <ferry/platform/error.hpp>

#include <functional>
#include <memory>
#include <optional>

namespace ferry {

class loaded_pipeline;
class pipeline;

/// Loads the pipeline once more in the ordinary way, past any host weights. May block.
using fresh_loader = std::function<result<loaded_pipeline>()>;

/// What a loader leaves for the startup of the backend. Whatever it still owns when it is destroyed
/// is closed. Used by one thread at a time.
class offload_startup_state {
public:
  /// Nothing was planned, and there is no second try.
  offload_startup_state() = default;

  /// @throws ferry_error `invalid_argument` unless `allow_fresh_retry` says whether there is a
  /// `fresh` loader
  offload_startup_state(std::optional<host_weight_plan> plan, fresh_loader fresh,
                        bool allow_fresh_retry);
  offload_startup_state(offload_startup_state&&) noexcept = default;
  offload_startup_state& operator=(offload_startup_state&&) = delete;
  ~offload_startup_state();

  [[nodiscard]] const std::optional<host_weight_plan>& plan() const noexcept { return plan_; }
  [[nodiscard]] bool allow_fresh_retry() const noexcept { return static_cast<bool>(fresh_); }
  [[nodiscard]] const fresh_loader& fresh_model_loader() const noexcept { return fresh_; }

  /// Closes the plan's carrier if nobody has taken the lease. Repeating it changes nothing. Fails
  /// as `host_lease::close`.
  result<void> close_loader_ownership();

private:
  std::optional<host_weight_plan> plan_;
  fresh_loader fresh_;
};

/// A pipeline as its loader hands it over, with what that has left for the startup. Movable, so
/// that it can be given away; used by one thread at a time.
class loaded_pipeline {
public:
  explicit loaded_pipeline(std::shared_ptr<pipeline> model);

  [[nodiscard]] const std::shared_ptr<pipeline>& model() const noexcept { return model_; }

  /// Attaches `state`. One that was attached before is closed first.
  void attach(offload_startup_state state);

  /// Takes the state off. Nothing if there is none or it was taken.
  [[nodiscard]] std::optional<offload_startup_state> take_state();

private:
  std::shared_ptr<pipeline> model_;
  std::unique_ptr<offload_startup_state> state_;
};

} // namespace ferry
