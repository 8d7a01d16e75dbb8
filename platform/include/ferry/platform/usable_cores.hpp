// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <filesystem>

namespace ferry {

/// Returns how many cores this process may keep busy: those it may run on (`taskset`), or fewer
/// where a control group of it has a smaller quota of processor time; a part of a core does not
/// count. At least 1. Reads a few small files of the kernel below `root`, which is `/` but for
/// tests.
[[nodiscard]] std::size_t usable_cores(const std::filesystem::path& root = "/");

} // namespace ferry
