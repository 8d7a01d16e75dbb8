// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <tl/expected.hpp>

#include <string>
#include <string_view>

namespace ferry {

/// Opens the library `name`: the one that this process has already, otherwise the first in `dirs`,
/// which are separated by colons, otherwise the one that the dynamic linker finds. It is never
/// closed. Returns its handle for `dlsym`, or why there is none and where it was looked for.
[[nodiscard]] tl::expected<void*, std::string> open_shared_library(const std::string& name,
                                                                   std::string_view dirs);

} // namespace ferry
