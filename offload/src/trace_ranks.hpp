// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/trace.hpp>

#include <cstdint>
#include <set>

namespace ferry {

/// Returns the ranks of which a trace has anything.
[[nodiscard]] std::set<std::uint32_t> ranks_of(const trace& run);

} // namespace ferry
