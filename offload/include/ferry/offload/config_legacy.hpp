// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

enum class host_weight_runtime : std::uint8_t { disabled, preferred, required };

[[nodiscard]] std::string_view to_string(host_weight_runtime mode) noexcept;
[[nodiscard]] std::optional<host_weight_runtime>
host_weight_runtime_from(std::string_view text) noexcept;

/// How the ranks of a run are arranged.
struct parallel_options {
  std::int64_t data_parallel_size = 1;
  std::int64_t sequence_parallel_size = 1;
  std::int64_t tensor_parallel_size = 1; ///< Never part of the group size.
  bool use_hsdp = false;
  std::int64_t hsdp_shard_size = -1; ///< -1: unset.
  std::int64_t hsdp_replicate_size = 1;

  friend bool operator==(const parallel_options&, const parallel_options&) = default;
};

/// Every option beside the compact configuration, under its known name and with its known default.
struct legacy_options {
  bool enable_cpu_offload = false;
  bool enable_layerwise_offload = false;
  bool enable_distributed_layerwise_offload = false;
  bool dlo_use_allgather = true;
  std::int64_t dlo_resident_layers = 0;
  bool pin_cpu_memory = true;
  host_weight_runtime host_weight_runtime_mode = host_weight_runtime::disabled;
  std::optional<std::string> host_weight_runtime_root = std::nullopt;
  double dlo_host_registration_limit_gib = 0.0;
  std::optional<std::string> cache_backend = "none";
  bool enable_prompt_embed_cache = false;
  parallel_options parallel_config = {};
  std::int64_t dlo_chunk_size_mb = 64;
  std::optional<double> dlo_pin_budget_gb = std::nullopt; ///< In GiB; nothing: no limit.
  std::string dlo_pin_failure_policy = "fail";
  std::string dlo_transport_backend = "auto";

  friend bool operator==(const legacy_options&, const legacy_options&) = default;
};

/// A configuration, and what its user may want to know about how it came about.
struct config_resolution {
  offload_config config = {};
  std::vector<std::string> notes = {};
};

/// Returns how many ranks share weights: data parallel, or the HSDP mesh where it is on, or
/// sequence parallel where that leaves one.
/// @pre the sizes are valid
[[nodiscard]] int group_size(const parallel_options& parallel) noexcept;

/// Decides what to offload and how from the compact configuration, if `compact_json` is given and
/// not `null`, and the options beside it. The only place where the two meet: everything after it
/// knows `offload_config` alone.
///
/// Fails with the first contradiction, as `invalid_type` or `invalid_config`.
[[nodiscard]] result<config_resolution> resolve_config(std::optional<std::string_view> compact_json,
                                                       const legacy_options& options);

/// Returns `options` with the enable flags and the pin flag saying what `config` resolved to, for
/// readers that know only those.
[[nodiscard]] legacy_options consistent_with(const offload_config& config, legacy_options options);

} // namespace ferry
