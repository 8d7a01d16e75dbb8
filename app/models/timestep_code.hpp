// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ferry {

/// Returns the cosines, then the sines, of `timestep` at geometrically falling frequencies,
/// `[1, frequencies]`, float32.
/// @pre `frequencies` is even
[[nodiscard]] at::Tensor timestep_code(double timestep, std::int64_t frequencies, at::Device where);

} // namespace ferry
