// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/actors/runtime_backend.hpp"

#include <ferry/offload/loader_transforms.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/log.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ferry {
namespace {

result<std::shared_ptr<host_lease>> take_lease(const std::optional<host_weight_plan>& of) {
  if (!of || of->backing != host_weight_backing::host_weight_runtime)
    return nullptr;
  const auto& plan = *of;
  if (plan.carrier == nullptr)
    return tl::unexpected(failure{errc::invalid_pipeline,
                                  "the host weight plan is backed by host_weight_runtime and has "
                                  "no carrier; expected one with the lease"});
  auto lease = plan.carrier->take();
  if (!lease)
    return tl::unexpected(std::move(lease.error()));
  if ((*lease)->closed())
    return tl::unexpected(
        failure{errc::stale_handle, "the lease of the host weights is closed; load them again"});
  return std::shared_ptr<host_lease>{std::move(*lease)};
}

bool is_bound(const std::shared_ptr<const module_node>& root, const std::string& name) {
  const auto dot = name.rfind('.');
  const auto node = dot == std::string::npos ? root : find_node(root, name.substr(0, dot));
  if (node == nullptr)
    return false;
  const auto own = dot == std::string::npos ? name : name.substr(dot + 1);
  const auto tensors = node->tensors();
  const auto found = std::ranges::find(tensors, own, &tensor_info::name);
  return found != tensors.end() && !found->meta;
}

/// Names the first five.
std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& each : std::span(names).first(std::min<std::size_t>(names.size(), 5)))
    text += (text.empty() ? "'" : ", '") + each + "'";
  return text + (names.size() > 5 ? " and " + std::to_string(names.size() - 5) + " more" : "");
}

/// Checks that the loader has bound what a plan leaves in files.
result<void> check_bindings(const pipeline& model, const host_weight_plan& plan) {
  std::vector<std::string> unbound;
  for (const auto& [name, binding] : plan.bindings)
    if (!is_bound(model.root(), name))
      unbound.push_back(name);
  if (!unbound.empty())
    return tl::unexpected(failure{
        errc::invalid_pipeline, "the host weight plan names " + join(unbound) +
                                    "; expected tensors of the pipeline that the loader has bound "
                                    "to the mapped checkpoint"});
  return {};
}

class runtime_backend final : public offload_backend {
public:
  runtime_backend(runtime& through, offload_config config, std::optional<host_weight_plan> plan)
      : through_(&through), config_(std::move(config)), plan_(std::move(plan)),
        transforms_(std::make_shared<loader_transforms>(plan_.value_or(host_weight_plan{}))) {}

  result<void> enable(const std::shared_ptr<pipeline>& model) override {
    const auto before = through_->state();
    if (!before)
      return tl::unexpected(before.error());
    if (before->enabled)
      return tl::unexpected(failure{errc::already_enabled,
                                    "the runtime offloads another pipeline; disable that first"});
    ours_ = true;
    if (plan_ && plan_->backing == host_weight_backing::checkpoint_mmap)
      if (auto bound = check_bindings(*model, *plan_); !bound)
        return bound;
    auto lease = take_lease(plan_);
    if (!lease)
      return tl::unexpected(std::move(lease.error()));
    auto config = config_;
    config.keep_mapped = config_.keep_mapped || plan_.has_value();
    if (auto enabled = through_->enable(model, config, std::move(*lease), transforms_); !enabled)
      return enabled;
    return check_plan_is_used();
  }

  result<void> disable() override {
    if (!ours_)
      return {};
    auto disabled = through_->disable();
    if (!disabled && disabled.error().code != errc::not_enabled)
      return disabled;
    ours_ = false;
    plan_.reset(); // It served this enable.
    return {};
  }

private:
  [[nodiscard]] result<void> check_plan_is_used() const {
    if (!plan_)
      return {};
    const auto state = through_->state();
    if (!state)
      return tl::unexpected(state.error());
    for (const auto& prefix : plan_->source_prefixes)
      if (!state->components.contains(prefix.substr(0, prefix.rfind('.'))))
        return tl::unexpected(failure{
            errc::invalid_pipeline,
            "nothing below '" + prefix +
                "' is offloaded, but the loader has left its weights to a host weight plan; "
                "expected a denoiser of that path, or a load without the plan"});
    return {};
  }

  runtime* through_;
  offload_config config_;
  std::optional<host_weight_plan> plan_;
  std::shared_ptr<loader_transforms> transforms_; ///< As far as they are still to be done.
  bool ours_ = false;                             ///< What the runtime offloads, if it does.
};

} // namespace

backend_builder runtime_backends(runtime& through, offload_config config, device_presence device) {
  return [&through, config = std::move(config), device](
             std::optional<host_weight_plan> plan) -> result<std::unique_ptr<offload_backend>> {
    auto chosen = choose_backend(config, device, plan.has_value());
    if (!chosen)
      return tl::unexpected(std::move(chosen.error()));
    if (!chosen->warning.empty())
      log(log_level::warn, "ferry.actors", chosen->warning);
    if (!chosen->build)
      return nullptr;
    return std::make_unique<runtime_backend>(through, config, std::move(plan));
  };
}

} // namespace ferry
