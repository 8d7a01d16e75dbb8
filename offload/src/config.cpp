// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/config.hpp"

#include "spelling.hpp"

#include <algorithm>

namespace ferry {
namespace {

constexpr spelling<offload_strategy> strategies[]{
    {offload_strategy::none, "none"},
    {offload_strategy::model_level, "model_level"},
    {offload_strategy::layer_wise, "layer_wise"},
    {offload_strategy::distributed_layer_wise, "distributed_layer_wise"},
};

constexpr spelling<component_name> component_names[]{
    {component_name::dit, "dit"},
    {component_name::text_encoder, "text_encoder"},
    {component_name::vae, "vae"},
};

constexpr spelling<weight_transfer> transfers[]{
    {weight_transfer::rank_local, "rank-local"},
    {weight_transfer::allgather, "allgather"},
};

constexpr spelling<pin_failure_policy> policies[]{
    {pin_failure_policy::fail, "fail"},
    {pin_failure_policy::whole_block_fallback, "whole_block_fallback"},
};

constexpr spelling<chunk_transport> transports[]{
    {chunk_transport::automatic, "auto"},
    {chunk_transport::reference, "reference"},
    {chunk_transport::group_scatter_ag, "group_scatter_ag"},
};

constexpr spelling<residency> residencies[]{
    {residency::spread, "spread"},
    {residency::leading, "leading"},
    {residency::strided, "strided"},
};

} // namespace

std::string_view to_string(offload_strategy strategy) noexcept {
  return spell(strategies, strategy);
}
std::string_view to_string(component_name name) noexcept {
  return spell(component_names, name);
}
std::string_view to_string(weight_transfer transfer) noexcept {
  return spell(transfers, transfer);
}
std::string_view to_string(pin_failure_policy policy) noexcept {
  return spell(policies, policy);
}
std::string_view to_string(chunk_transport transport) noexcept {
  return spell(transports, transport);
}
std::string_view to_string(residency which) noexcept {
  return spell(residencies, which);
}

std::optional<offload_strategy> strategy_from(std::string_view text) noexcept {
  return unspell(strategies, text);
}
std::optional<component_name> component_from(std::string_view text) noexcept {
  return unspell(component_names, text);
}
std::optional<weight_transfer> transfer_from(std::string_view text) noexcept {
  return unspell(transfers, text);
}
std::optional<pin_failure_policy> pin_policy_from(std::string_view text) noexcept {
  return unspell(policies, text);
}
std::optional<chunk_transport> transport_from(std::string_view text) noexcept {
  return unspell(transports, text);
}
std::optional<residency> residency_from(std::string_view text) noexcept {
  return unspell(residencies, text);
}

bool resident_options::any() const noexcept {
  return layers > 0 || bytes.value_or(0) > 0 || !blocks.empty();
}

bool offload_config::offloads(component_name name) const noexcept {
  return components.has_value() ? components->contains(name) : name == component_name::dit;
}

bool offload_config::uses_allgather(component_name name) const noexcept {
  const auto found = transfers.find(name);
  return found != transfers.end() && found->second == weight_transfer::allgather;
}

result<weight_transfer> offload_config::transfer_for(component_name name) const {
  if (!offloads(name)) {
    return tl::unexpected(
        failure{.code = errc::invalid_argument,
                .detail = std::string{to_string(name)} + " is not selected; add it to components"});
  }
  return uses_allgather(name) ? weight_transfer::allgather : weight_transfer::rank_local;
}

bool offload_config::any_allgather() const noexcept {
  return std::ranges::any_of(all_component_names, [this](component_name name) {
    return offloads(name) && uses_allgather(name);
  });
}

} // namespace ferry
