// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

namespace ferry {

/// Says in which members a rank's JSON object is another than that of rank 0, with both values:
/// `transfers.dit "allgather" (rank 0: "rank_local"), steps[20] 8 (rank 0: nothing)`. The first
/// five, and how many more; of long lists the elements. Empty: in none. What is no JSON is one
/// value.
[[nodiscard]] std::string member_differences(std::string_view own, std::string_view of_rank_0);

} // namespace ferry
