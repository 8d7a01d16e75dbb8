// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

enum class offload_strategy : std::uint8_t {
  none,
  model_level,
  layer_wise,
  distributed_layer_wise
};

/// Component names of the public grammar.
enum class component_name : std::uint8_t { dit, text_encoder, vae };

enum class weight_transfer : std::uint8_t { rank_local, allgather };

/// What happens when the pinned memory of a chunked transfer is not to be had.
enum class pin_failure_policy : std::uint8_t { fail, whole_block_fallback };

/// Which blocks of a denoiser stay on the device, of those that there is room for.
enum class residency : std::uint8_t {
  spread,  ///< Those whose absence from the link makes a step shortest, see `choose_residents`.
  leading, ///< The first ones.
  strided, ///< Every n-th.
};

/// How the chunks of a gathered block travel between ranks.
enum class chunk_transport : std::uint8_t { automatic, reference, group_scatter_ag };

inline constexpr std::array all_component_names{component_name::dit, component_name::text_encoder,
                                                component_name::vae};

/// Return the spelling that users write and reports print.
[[nodiscard]] std::string_view to_string(offload_strategy strategy) noexcept;
[[nodiscard]] std::string_view to_string(component_name name) noexcept;
[[nodiscard]] std::string_view to_string(weight_transfer transfer) noexcept;
[[nodiscard]] std::string_view to_string(pin_failure_policy policy) noexcept;
[[nodiscard]] std::string_view to_string(chunk_transport transport) noexcept;
[[nodiscard]] std::string_view to_string(residency which) noexcept;

/// Read such a spelling; matching is exact.
[[nodiscard]] std::optional<offload_strategy> strategy_from(std::string_view text) noexcept;
[[nodiscard]] std::optional<component_name> component_from(std::string_view text) noexcept;
[[nodiscard]] std::optional<weight_transfer> transfer_from(std::string_view text) noexcept;
[[nodiscard]] std::optional<pin_failure_policy> pin_policy_from(std::string_view text) noexcept;
[[nodiscard]] std::optional<chunk_transport> transport_from(std::string_view text) noexcept;
[[nodiscard]] std::optional<residency> residency_from(std::string_view text) noexcept;

/// How many blocks of each denoiser stay on the device during a request: by number, by their bytes,
/// or exactly those. At most one of the three.
struct resident_options {
  std::size_t layers = 0;
  std::optional<std::size_t> bytes = std::nullopt; ///< At most.
  std::vector<std::size_t> blocks = {};            ///< Their numbers in the stack, ascending.
  residency which = residency::spread;             ///< Unless they are given.

  [[nodiscard]] bool any() const noexcept;

  friend bool operator==(const resident_options&, const resident_options&) = default;
};

/// A configuration after validation: what the resolver and the backends work from. Immutable by
/// convention: it is built once by `resolve_config` and passed by const reference.
struct offload_config {
  offload_strategy strategy = offload_strategy::none;
  /// The explicit selection. Empty optional: legacy flags, which select the denoisers only but
  /// behave differently in places (contract: "compatibility").
  std::optional<std::set<component_name>> components = std::nullopt;
  std::map<component_name, weight_transfer> transfers = {}; ///< One entry for every component name.
  resident_options resident = {};
  std::optional<std::size_t> slots = std::nullopt; ///< At least 1. Nothing: what the runtime takes.
  bool more_slots = false; ///< By need, see `runtime_options::most_slots`; not with ranks.
  bool pin_memory = true;
  /// Weights in pages of files stay there and are staged, where they would be copied to pinned
  /// memory as a whole.
  bool keep_mapped = false;
  bool use_hsdp = false;
  int group_size = 1;                  ///< Ranks that share weights; a fact of the topology.
  double registration_limit_gib = 0.0; ///< 0: no ceiling beyond what the system allows.
  std::size_t chunk_bytes = std::size_t{64} << 20;
  std::optional<std::size_t> pin_budget_bytes = std::nullopt; ///< Nothing: no limit.
  pin_failure_policy on_pin_failure = pin_failure_policy::fail;
  chunk_transport transport = chunk_transport::automatic;

  [[nodiscard]] bool is_explicit() const noexcept { return components.has_value(); }

  /// Returns whether the selection covers `name`. Legacy flags cover the denoisers.
  [[nodiscard]] bool offloads(component_name name) const noexcept;

  /// Returns whether `name` is gathered if it is offloaded at all.
  [[nodiscard]] bool uses_allgather(component_name name) const noexcept;

  /// Returns how the weights of a selected component travel; `invalid_argument` for an unselected
  /// one.
  [[nodiscard]] result<weight_transfer> transfer_for(component_name name) const;

  /// Returns whether any selected component is gathered.
  [[nodiscard]] bool any_allgather() const noexcept;

  friend bool operator==(const offload_config&, const offload_config&) = default;
};

/// Returns `config` as one line of JSON, so that it can cross a process boundary.
[[nodiscard]] std::string to_json(const offload_config& config);

/// Reads what `to_json` wrote. `invalid_type` or `invalid_config` names the member at fault; every
/// member must be there, and `transfers` must contain every component name and no other.
[[nodiscard]] result<offload_config> offload_config_from_json(std::string_view json);

} // namespace ferry
