// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/start_offload.hpp"

#include <utility>

namespace ferry {
namespace {

failure plan_dropped(const std::string& why) {
  return {errc::unsupported,
          why + ", but the loader has left weights to a host weight plan; expected "
                "distributed_layer_wise and a device, or a load without the plan"};
}

/// One try: the pipeline with its state, the backend with its plan.
class attempt_to_start {
public:
  attempt_to_start(loaded_pipeline subject, std::vector<std::string>& warnings)
      : subject_(std::move(subject)), warnings_(&warnings) {
    if (auto taken = subject_.take_state())
      state_.emplace(std::move(*taken));
  }

  [[nodiscard]] result<started_offload> run(const backend_builder& build) {
    auto built = build(state_ ? state_->plan() : std::nullopt);
    if (!built || *built == nullptr) {
      close_ownership();
      if (!built)
        return tl::unexpected(std::move(built.error()));
      return started_offload{subject_.model(), nullptr};
    }
    if (auto enabled = (*built)->enable(subject_.model()); !enabled) {
      const auto cleaned_up = enabled.error().code != errc::incomplete;
      may_retry_ = cleaned_up && state_ && state_->allow_fresh_retry();
      if (auto undone = (*built)->disable(); !undone)
        warnings_->push_back("disable backend reason=" + describe(undone.error()));
      close_ownership();
      return tl::unexpected(std::move(enabled.error()));
    }
    return started_offload{subject_.model(), std::move(*built)};
  }

  /// Returns how to load afresh, if the failure allows it.
  [[nodiscard]] fresh_loader retry() const {
    return may_retry_ ? state_->fresh_model_loader() : fresh_loader{};
  }

private:
  void close_ownership() {
    if (!state_)
      return;
    if (auto closed = state_->close_loader_ownership(); !closed)
      warnings_->push_back("close host weights reason=" + describe(closed.error()));
  }

  loaded_pipeline subject_;
  std::optional<offload_startup_state> state_;
  std::vector<std::string>* warnings_;
  bool may_retry_ = false;
};

} // namespace

result<backend_choice> choose_backend(const offload_config& config, device_presence device,
                                      bool has_plan) {
  if (has_plan && config.strategy != offload_strategy::distributed_layer_wise)
    return tl::unexpected(plan_dropped("strategy is " + std::string{to_string(config.strategy)}));
  if (config.strategy == offload_strategy::none)
    return backend_choice{};
  if (device == device_presence::present)
    return backend_choice{.build = true};
  const std::string why = device == device_presence::unsupported ? "the platform has no offload"
                          : device == device_presence::none      ? "there is no device"
                                                            : "the device cannot be determined";
  if (has_plan)
    return tl::unexpected(plan_dropped(why));
  return backend_choice{.warning = "skip enable reason=" + why};
}

result<started_offload> start_offload(loaded_pipeline subject, const backend_builder& build,
                                      std::vector<std::string>& warnings) {
  fresh_loader load;
  {
    attempt_to_start first{std::move(subject), warnings};
    auto started = first.run(build);
    load = first.retry();
    if (started || !load)
      return started;
    warnings.push_back("load pipeline afresh reason=" + describe(started.error()));
  }
  auto fresh = load();
  if (!fresh)
    return tl::unexpected(std::move(fresh.error()));
  return attempt_to_start{std::move(*fresh), warnings}.run(build);
}

} // namespace ferry
