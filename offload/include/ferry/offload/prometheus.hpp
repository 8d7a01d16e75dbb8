// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/offload_state.hpp>
#include <ferry/offload/request_meter.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace ferry {

/// What one of several ranks in a process knows.
struct rank_metrics {
  std::uint32_t rank = 0;
  offload_state state = {};
  request_sums requests = {};
};

/// Returns what a runtime knows of itself in the text format that Prometheus scrapes, for a serving
/// process to answer with. Every name begins with `ferry_`; docs/tracing.md lists them.
[[nodiscard]] std::string prometheus_text(const offload_state& state, const request_sums& requests);

/// As above, of all ranks of a process: each sample has the label `rank`.
[[nodiscard]] std::string prometheus_text(std::span<const rank_metrics> ranks);

} // namespace ferry
