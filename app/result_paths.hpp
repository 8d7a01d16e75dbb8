// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include "run_options.hpp"

namespace ferry {

/// Looks, before an hour of work depends on it, whether every result can be written where it is to
/// go, and that it takes the place of no other result and of nothing that the run reads. Makes the
/// directory of `--output`.
/// @return `invalid_argument` with the option and the path
[[nodiscard]] result<void> check_result_paths(const run_options& options);

} // namespace ferry
