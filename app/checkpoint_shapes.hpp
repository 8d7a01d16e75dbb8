// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include "checkpoint_options.hpp"
#include "flux_checkpoint.hpp"
#include "wan_checkpoint.hpp"

namespace ferry {

/// Return the size asked for, or `invalid_argument` with the option, its value and what was
/// expected. What is not given comes from the preset.
/// @pre `options.family` is theirs
[[nodiscard]] result<wan_shape> wan_shape_of(const checkpoint_options& options);
[[nodiscard]] result<flux_shape> flux_shape_of(const checkpoint_options& options);

} // namespace ferry
