// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "config_checks.hpp"

#include "strict_json.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace ferry {
namespace {

using nlohmann::json;

constexpr std::int64_t largest_group = 1 << 20;
constexpr std::int64_t largest_chunk_mb = std::int64_t{1} << 40;
constexpr double largest_budget_gb = static_cast<double>(std::int64_t{1} << 33);

result<void> refuse(std::string detail) {
  return tl::unexpected(failure{.code = errc::invalid_config, .detail = std::move(detail)});
}

result<void> refuse(std::string_view what, const json& value, std::string_view expected) {
  return refuse(unexpected_value(what, value, expected));
}

std::string text_of(double number) {
  return std::isfinite(number) ? shown(number) : std::to_string(number);
}

result<void> check_parallel(const parallel_options& parallel) {
  const std::pair<std::string_view, std::int64_t> sizes[]{
      {"data_parallel_size", parallel.data_parallel_size},
      {"sequence_parallel_size", parallel.sequence_parallel_size},
      {"tensor_parallel_size", parallel.tensor_parallel_size},
      {"hsdp_replicate_size", parallel.hsdp_replicate_size},
  };
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > largest_group) {
      return refuse(name, size, "an integer from 1 to " + std::to_string(largest_group));
    }
  }
  const auto shard = parallel.hsdp_shard_size;
  if (shard != -1 && (shard < 1 || shard > largest_group / parallel.hsdp_replicate_size)) {
    return refuse("hsdp_shard_size", shard,
                  "-1 for unset, or an integer >= 1 that makes at most " +
                      std::to_string(largest_group) + " ranks with hsdp_replicate_size");
  }
  return {};
}

result<void> check_chunks(const legacy_options& options) {
  if (options.dlo_chunk_size_mb <= 0 || options.dlo_chunk_size_mb > largest_chunk_mb) {
    return refuse("dlo_chunk_size_mb", options.dlo_chunk_size_mb, "an integer > 0 of MiB");
  }
  if (options.dlo_pin_budget_gb &&
      !(*options.dlo_pin_budget_gb >= 0 && *options.dlo_pin_budget_gb <= largest_budget_gb)) {
    return refuse("dlo_pin_budget_gb is " + text_of(*options.dlo_pin_budget_gb) +
                  "; expected a finite number >= 0 of GiB");
  }
  if (!pin_policy_from(options.dlo_pin_failure_policy)) {
    return refuse("dlo_pin_failure_policy", options.dlo_pin_failure_policy,
                  "fail or whole_block_fallback");
  }
  if (options.dlo_transport_backend == "group_persistent") {
    return refuse("dlo_transport_backend", options.dlo_transport_backend,
                  "auto, reference or group_scatter_ag; group_persistent needs an NPU");
  }
  if (!transport_from(options.dlo_transport_backend)) {
    return refuse("dlo_transport_backend", options.dlo_transport_backend,
                  "auto, reference or group_scatter_ag");
  }
  return {};
}

std::string without_allgather(const offload_config& config) {
  return config.is_explicit() ? "weight_transfer rank-local" : "dlo_use_allgather false";
}

result<void> check_rank_local_decisions(const offload_config& config,
                                        const legacy_options& options) {
  const auto ranks = options.parallel_config.data_parallel_size;
  const auto& cache = options.cache_backend;
  if (ranks > 1 && config.any_allgather() && cache && *cache != "none") {
    return refuse("cache_backend is " + shown(*cache) + " with allgather and data_parallel_size " +
                  std::to_string(ranks) +
                  ": cache decisions of one rank would skip collectives the others wait for; "
                  "expected cache_backend none, or " +
                  without_allgather(config));
  }
  if (ranks > 1 && options.enable_prompt_embed_cache &&
      config.offloads(component_name::text_encoder) &&
      config.uses_allgather(component_name::text_encoder)) {
    return refuse("enable_prompt_embed_cache is true with text_encoder.weight_transfer allgather "
                  "and data_parallel_size " +
                  std::to_string(ranks) +
                  ": a cache hit on one rank would skip the encoder's collective; expected no "
                  "prompt cache, or text_encoder.weight_transfer rank-local");
  }
  return {};
}

result<void> check_registration(const offload_config& config, const legacy_options& options) {
  if (options.dlo_host_registration_limit_gib <= 0) {
    return {};
  }
  const auto lacks = [&](std::string_view precondition) {
    return refuse("dlo_host_registration_limit_gib", options.dlo_host_registration_limit_gib,
                  "0 unless " + std::string{precondition});
  };
  if (config.strategy != offload_strategy::distributed_layer_wise) {
    return lacks("enable_distributed_layerwise_offload is set");
  }
  if (config.uses_allgather(component_name::dit)) {
    return lacks("dlo_use_allgather is false");
  }
  if (options.host_weight_runtime_mode == host_weight_runtime::disabled) {
    return lacks("host_weight_runtime_mode is preferred or required");
  }
  return {};
}

} // namespace

result<void> check_values(const legacy_options& options) {
  if (options.dlo_resident_layers < 0) {
    return refuse("dlo_resident_layers", options.dlo_resident_layers, "a non-negative integer");
  }
  const auto limit = options.dlo_host_registration_limit_gib;
  if (!std::isfinite(limit) || limit < 0) {
    return refuse("dlo_host_registration_limit_gib is " + text_of(limit) +
                  "; expected a finite number >= 0 of GiB");
  }
  const auto& root = options.host_weight_runtime_root;
  const auto blank = !root || root->find_first_not_of(" \t\r\n\v\f") == std::string::npos;
  if (options.host_weight_runtime_mode != host_weight_runtime::disabled && blank) {
    return refuse("host_weight_runtime_root is blank with host_weight_runtime_mode " +
                  std::string{to_string(options.host_weight_runtime_mode)} +
                  "; expected a directory");
  }
  if (auto chunks = check_chunks(options); !chunks) {
    return chunks;
  }
  return check_parallel(options.parallel_config);
}

result<void> check_beside_compact(const legacy_options& options) {
  if (options.host_weight_runtime_mode != host_weight_runtime::disabled) {
    return refuse(
        "host_weight_runtime_mode is " + std::string{to_string(options.host_weight_runtime_mode)} +
        " beside a compact configuration; the two are separate for now, expected disabled");
  }
  std::string conflicting;
  const auto add_if = [&conflicting](bool conflicts, std::string_view name) {
    if (conflicts) {
      conflicting += (conflicting.empty() ? "" : ", ") + std::string{name};
    }
  };
  add_if(!options.dlo_use_allgather, "dlo_use_allgather");
  add_if(options.dlo_resident_layers != 0, "dlo_resident_layers");
  add_if(options.dlo_host_registration_limit_gib > 0, "dlo_host_registration_limit_gib");
  if (!conflicting.empty()) {
    return refuse(conflicting + " given beside a compact configuration; expected the same wish in "
                                "layer_options");
  }
  return {};
}

result<void> check_combinations(const offload_config& config, const legacy_options& options) {
  if (config.strategy == offload_strategy::distributed_layer_wise) {
    if (config.resident.layers > 0 && config.uses_allgather(component_name::dit)) {
      return refuse("dlo_resident_layers is " + std::to_string(config.resident.layers) +
                    " with dlo_use_allgather true; expected 0, or dlo_use_allgather false");
    }
    if (config.use_hsdp && config.any_allgather()) {
      return refuse(
          "use_hsdp is true with allgather: the weights would be sharded twice; expected " +
          without_allgather(config) + ", or use_hsdp false");
    }
    if (config.any_allgather() && !config.pin_memory &&
        config.on_pin_failure == pin_failure_policy::fail) {
      return refuse("pin_memory is false with allgather and dlo_pin_failure_policy fail; expected "
                    "pin_memory true, or dlo_pin_failure_policy whole_block_fallback");
    }
    if (auto cached = check_rank_local_decisions(config, options); !cached) {
      return cached;
    }
  }
  return check_registration(config, options);
}

} // namespace ferry
