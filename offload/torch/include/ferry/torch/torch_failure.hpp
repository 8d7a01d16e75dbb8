// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <exception>

namespace ferry {

/// Turns what a torch operation threw into a failure: `not_resident` with the block's name for a
/// parked block, `out_of_host_memory`, `unsupported`, otherwise `internal` with the first line.
/// A `ferry_error` keeps its reason.
[[nodiscard]] failure failure_of(const std::exception& error);

} // namespace ferry
