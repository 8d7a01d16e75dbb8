// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/trace.hpp>
#include <ferry/offload/trace_analysis.hpp>

#include <string>
#include <utility>
#include <vector>

namespace ferry {

/// Returns what stands against trusting the figures: the run ended early, spans were dropped, no
/// block was streamed. Empty if nothing does.
[[nodiscard]] std::string notes_on(const trace& run);

/// Returns the figures of the run, each with its name. Of the first rank where there are several.
[[nodiscard]] std::vector<std::pair<std::string, std::string>>
summary_lines(const trace& run, const trace_report& report);

/// Returns summary, causes and the `most` longest waits as `ferry trace` prints them.
[[nodiscard]] std::string to_table(const trace& run, const trace_report& report,
                                   const std::string& title, std::size_t most);

/// Returns everything as one JSON object, times in seconds.
[[nodiscard]] std::string to_json(const trace& run, const trace_report& report);

} // namespace ferry
