// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/config_legacy.hpp"

#include "config_checks.hpp"
#include "ferry/offload/config_compact.hpp"
#include "spelling.hpp"

#include <utility>

namespace ferry {
namespace {

constexpr spelling<host_weight_runtime> runtime_modes[]{
    {host_weight_runtime::disabled, "disabled"},
    {host_weight_runtime::preferred, "preferred"},
    {host_weight_runtime::required, "required"},
};

/// The legacy enable flags, strongest first.
struct enable_flag {
  std::string_view name;
  bool legacy_options::* value;
  offload_strategy strategy;
};

constexpr enable_flag enable_flags[]{
    {"enable_distributed_layerwise_offload", &legacy_options::enable_distributed_layerwise_offload,
     offload_strategy::distributed_layer_wise},
    {"enable_layerwise_offload", &legacy_options::enable_layerwise_offload,
     offload_strategy::layer_wise},
    {"enable_cpu_offload", &legacy_options::enable_cpu_offload, offload_strategy::model_level},
};

offload_config common_part(const legacy_options& options) {
  offload_config config;
  config.use_hsdp = options.parallel_config.use_hsdp;
  config.group_size = group_size(options.parallel_config);
  config.registration_limit_gib = options.dlo_host_registration_limit_gib;
  config.chunk_bytes = static_cast<std::size_t>(options.dlo_chunk_size_mb) << 20;
  if (options.dlo_pin_budget_gb) {
    config.pin_budget_bytes = static_cast<std::size_t>(*options.dlo_pin_budget_gb * bytes_in_gib);
  }
  config.on_pin_failure = *pin_policy_from(options.dlo_pin_failure_policy);
  config.transport = *transport_from(options.dlo_transport_backend);
  return config;
}

offload_config from_compact(const compact_config& compact, const legacy_options& options) {
  auto config = common_part(options);
  config.strategy = compact.strategy();
  config.components = compact.components;
  for (const auto name : all_component_names) {
    config.transfers[name] = compact.transfer_of(name);
  }
  config.resident = compact.resident;
  config.slots = compact.slots;
  config.more_slots = compact.more_slots;
  config.pin_memory = compact.pin_memory.value_or(options.pin_cpu_memory);
  return config;
}

config_resolution from_legacy(const legacy_options& options) {
  config_resolution resolved{.config = common_part(options), .notes = {}};
  auto& config = resolved.config;
  std::string_view winner;
  for (const auto& flag : enable_flags) {
    if (options.*flag.value && winner.empty()) {
      winner = flag.name;
      config.strategy = flag.strategy;
    } else if (options.*flag.value) {
      resolved.notes.push_back(std::string{flag.name} + " is ignored; " + std::string{winner} +
                               " takes priority");
    }
  }
  for (const auto name : all_component_names) {
    config.transfers[name] = weight_transfer::rank_local;
  }
  if (options.dlo_use_allgather) {
    config.transfers[component_name::dit] = weight_transfer::allgather;
  }
  config.resident = {.layers = static_cast<std::size_t>(options.dlo_resident_layers),
                     .which = residency::leading};
  config.pin_memory = options.pin_cpu_memory;
  return resolved;
}

/// Returns the names of the options that were given and that nothing reads under `config`.
std::string unread_options(const offload_config& config, const legacy_options& options) {
  struct reading {
    std::string_view name;
    bool given;
    bool read;
  };
  const legacy_options unset;
  const bool offloads = config.strategy != offload_strategy::none;
  const bool distributed = config.strategy == offload_strategy::distributed_layer_wise;
  const bool gathers = distributed && config.any_allgather();
  const reading readings[]{
      {"dlo_use_allgather", options.dlo_use_allgather != unset.dlo_use_allgather, distributed},
      {"dlo_resident_layers", options.dlo_resident_layers != unset.dlo_resident_layers,
       distributed || config.strategy == offload_strategy::layer_wise},
      {"pin_cpu_memory", options.pin_cpu_memory != unset.pin_cpu_memory, offloads},
      {"dlo_chunk_size_mb", options.dlo_chunk_size_mb != unset.dlo_chunk_size_mb, offloads},
      {"dlo_pin_budget_gb", options.dlo_pin_budget_gb != unset.dlo_pin_budget_gb, offloads},
      {"dlo_pin_failure_policy", options.dlo_pin_failure_policy != unset.dlo_pin_failure_policy,
       offloads},
      {"dlo_transport_backend", options.dlo_transport_backend != unset.dlo_transport_backend,
       gathers},
  };
  std::string names;
  for (const auto& each : readings) {
    if (each.given && !each.read) {
      names += (names.empty() ? "" : ", ") + std::string{each.name};
    }
  }
  return names;
}

result<void> check_no_conflicting_flag(const compact_config& compact,
                                       const legacy_options& options) {
  for (const auto& flag : enable_flags) {
    if (options.*flag.value && flag.strategy != compact.strategy()) {
      return tl::unexpected(failure{
          .code = errc::invalid_config,
          .detail = std::string{flag.name} + " asks for " + std::string{to_string(flag.strategy)} +
                    " and the compact configuration for " +
                    std::string{to_string(compact.strategy())} + "; expected one of them"});
    }
  }
  return {};
}

} // namespace

std::string_view to_string(host_weight_runtime mode) noexcept {
  return spell(runtime_modes, mode);
}

std::optional<host_weight_runtime> host_weight_runtime_from(std::string_view text) noexcept {
  return unspell(runtime_modes, text);
}

int group_size(const parallel_options& parallel) noexcept {
  auto size = parallel.data_parallel_size;
  if (parallel.use_hsdp && parallel.hsdp_shard_size > 0) {
    size = parallel.hsdp_shard_size * parallel.hsdp_replicate_size;
  }
  if (size <= 1 && parallel.sequence_parallel_size > 1) {
    size = parallel.sequence_parallel_size;
  }
  return static_cast<int>(size);
}

result<config_resolution> resolve_config(std::optional<std::string_view> compact_json,
                                         const legacy_options& options) {
  const auto compact = compact_json ? parse_compact_config(*compact_json)
                                    : result<std::optional<compact_config>>{std::nullopt};
  if (!compact) {
    return tl::unexpected(compact.error());
  }
  if (auto valid = check_values(options); !valid) {
    return tl::unexpected(valid.error());
  }
  config_resolution resolved;
  if (*compact) {
    if (auto apart = check_beside_compact(options); !apart) {
      return tl::unexpected(apart.error());
    }
    if (auto agreeing = check_no_conflicting_flag(**compact, options); !agreeing) {
      return tl::unexpected(agreeing.error());
    }
    resolved.config = from_compact(**compact, options);
  } else {
    resolved = from_legacy(options);
  }
  if (auto fits = check_combinations(resolved.config, options); !fits) {
    return tl::unexpected(fits.error());
  }
  if (const auto unread = unread_options(resolved.config, options); !unread.empty()) {
    resolved.notes.push_back(
        unread + " without effect" +
        (resolved.config.strategy == offload_strategy::none
             ? "; nothing is offloaded without enable_cpu_offload, enable_layerwise_offload or "
               "enable_distributed_layerwise_offload"
             : " under " + std::string{to_string(resolved.config.strategy)}));
  }
  if (resolved.config.strategy == offload_strategy::distributed_layer_wise &&
      !resolved.config.any_allgather() && !resolved.config.resident.any()) {
    resolved.notes.emplace_back("distributed layerwise offload runs without collectives; every "
                                "selected component is rank-local");
  }
  return resolved;
}

legacy_options consistent_with(const offload_config& config, legacy_options options) {
  for (const auto& flag : enable_flags) {
    options.*flag.value = flag.strategy == config.strategy;
  }
  options.pin_cpu_memory = config.pin_memory;
  return options;
}

} // namespace ferry
