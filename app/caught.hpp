// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

namespace ferry {

/// Returns what the exception that is being handled says, in one line: libtorch appends where its
/// errors came from.
/// @pre called from a handler of `std::exception`
[[nodiscard]] failure caught();

} // namespace ferry
