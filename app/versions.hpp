// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace ferry {

/// Returns the versions of Ferry and of what it was built with, one a line.
[[nodiscard]] std::string versions();

} // namespace ferry
