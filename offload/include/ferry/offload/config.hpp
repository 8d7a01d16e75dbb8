// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ferry {

enum class offload_strategy { none, model_level, layer_wise, distributed_layer_wise };

/// Component names of the public grammar.
enum class component_name { dit, text_encoder, vae };

enum class weight_transfer { rank_local, allgather };

[[nodiscard]] std::string_view to_string(offload_strategy strategy) noexcept;
[[nodiscard]] std::string_view to_string(component_name name) noexcept;
[[nodiscard]] std::string_view to_string(weight_transfer transfer) noexcept;

/// A configuration after validation: what the resolver and the backends work from. Immutable by
/// convention: it is built once by `resolve_config` and passed by const reference.
struct offload_config {
  offload_strategy strategy = offload_strategy::none;
  /// The explicit selection. Empty optional: legacy flags, which select the denoisers only but
  /// behave differently in places (contract: "compatibility").
  std::optional<std::set<component_name>> components;
  std::map<component_name, weight_transfer> transfers; ///< One entry for every component name.
  std::size_t resident_layers = 0;
  bool pin_memory = true;
  bool use_hsdp = false;
  int group_size = 1; ///< Ranks that share weights; a fact of the topology.
  double registration_limit_gib = 0.0;
  std::size_t chunk_bytes = std::size_t{64} << 20;
  std::optional<std::size_t> pin_budget_bytes;

  [[nodiscard]] bool is_explicit() const noexcept { return components.has_value(); }
  [[nodiscard]] bool offloads(component_name name) const noexcept;
  [[nodiscard]] bool uses_allgather(component_name name) const;
  /// Returns whether any selected component is gathered.
  [[nodiscard]] bool any_allgather() const noexcept;
};

} // namespace ferry
