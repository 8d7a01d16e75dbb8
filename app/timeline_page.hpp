// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/trace.hpp>
#include <ferry/offload/trace_analysis.hpp>

#include <string>
#include <string_view>

namespace ferry {

/// Every page begins with this, so that it is known for one before it is overwritten.
inline constexpr std::string_view timeline_page_mark = "<!DOCTYPE html>\n<!-- ferry timeline -->";

/// Returns a page that shows a run: lanes to zoom and pan, late blocks with their causes. It is one
/// file that loads nothing from anywhere, and no name in the trace can run or become markup in it.
[[nodiscard]] std::string timeline_page(const trace& run, const trace_report& report,
                                        const std::string& title);

} // namespace ferry
