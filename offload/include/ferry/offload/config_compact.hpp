// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace ferry {

enum class offload_mode : std::uint8_t { module, layer };

/// The compact configuration as the user wrote it, valid by itself.
struct compact_config {
  offload_mode mode = offload_mode::layer;
  std::set<component_name> components = {};
  std::map<component_name, weight_transfer> transfers = {}; ///< Those written down.
  resident_options resident = {};                           ///< Of the denoisers.
  std::optional<bool> pin_memory = std::nullopt;
  std::optional<std::size_t> slots = std::nullopt;
  bool more_slots = false; ///< `slots` is "auto".

  /// Returns how `name` travels; what is not written down is rank-local.
  [[nodiscard]] weight_transfer transfer_of(component_name name) const noexcept;

  /// Returns the strategy that the mode, the transfers and the resident layers ask for.
  [[nodiscard]] offload_strategy strategy() const noexcept;

  friend bool operator==(const compact_config&, const compact_config&) = default;
};

/// Reads the compact configuration:
///
///     {"mode": "layer", "components": ["dit", "text_encoder"],
///      "layer_options": {"dit": {"weight_transfer": "rank-local", "resident_layers": 2}},
///      "pin_memory": true}
///
/// Returns nothing for `null`. Fails with the first thing wrong, in the order of
/// docs/configuration.md: `invalid_type` if a value has the wrong JSON type, `invalid_config`
/// otherwise. Text that is no JSON, repeats a key or nests deeper than any configuration is
/// `invalid_config` as well.
[[nodiscard]] result<std::optional<compact_config>> parse_compact_config(std::string_view json);

} // namespace ferry
