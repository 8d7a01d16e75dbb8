// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

namespace ferry {

/// Refuses a copy whose sides do not fit, and one that `traits` rule out.
/// @throws device_error `invalid_argument`, `unsupported`
void require_copyable(const copy_operation& operation, const device_traits& traits);

} // namespace ferry
