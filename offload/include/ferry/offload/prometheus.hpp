// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/offload_state.hpp>
#include <ferry/offload/request_meter.hpp>

#include <string>

namespace ferry {

/// Returns what a runtime knows of itself in the text format that Prometheus scrapes, for a serving
/// process to answer with. Every name begins with `ferry_`; docs/tracing.md lists them.
[[nodiscard]] std::string prometheus_text(const offload_state& state, const request_sums& requests);

} // namespace ferry
