// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

namespace ferry {

/// Returns the version of the libtorch that this was built with.
[[nodiscard]] std::string_view torch_version() noexcept;

} // namespace ferry
