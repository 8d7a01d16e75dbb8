// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/startup_state.hpp"

#include <utility>

namespace ferry {

offload_startup_state::offload_startup_state(std::optional<host_weight_plan> plan,
                                             fresh_loader fresh, bool allow_fresh_retry)
    : plan_(std::move(plan)), fresh_(std::move(fresh)) {
  if (allow_fresh_retry != static_cast<bool>(fresh_))
    throw ferry_error{
        {errc::invalid_argument, std::string{"allow_fresh_retry is "} +
                                     (allow_fresh_retry ? "true without" : "false with") +
                                     " a fresh model loader; expected both or neither"}};
}

offload_startup_state::~offload_startup_state() {
  static_cast<void>(close_loader_ownership());
}

result<void> offload_startup_state::close_loader_ownership() {
  if (!plan_ || plan_->carrier == nullptr)
    return {};
  return plan_->carrier->close();
}

loaded_pipeline::loaded_pipeline(std::shared_ptr<pipeline> model) : model_(std::move(model)) {
  FERRY_ASSERT(model_ != nullptr);
}

void loaded_pipeline::attach(offload_startup_state state) {
  state_ = nullptr;
  state_ = std::make_unique<offload_startup_state>(std::move(state));
}

std::optional<offload_startup_state> loaded_pipeline::take_state() {
  if (state_ == nullptr)
    return std::nullopt;
  return std::move(*std::exchange(state_, nullptr));
}

} // namespace ferry
