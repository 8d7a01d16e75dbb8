// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config_legacy.hpp>

namespace ferry {

inline constexpr double bytes_in_gib = 1024.0 * 1024.0 * 1024.0;

/// Refuses options that are out of range by themselves.
[[nodiscard]] result<void> check_values(const legacy_options& options);

/// Refuses options that cannot stand beside a compact configuration.
[[nodiscard]] result<void> check_beside_compact(const legacy_options& options);

/// Refuses what contradicts itself once the strategy and the transfers are known.
[[nodiscard]] result<void> check_combinations(const offload_config& config,
                                              const legacy_options& options);

} // namespace ferry
