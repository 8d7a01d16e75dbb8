// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ferry {

/// Returns the turns of each pair of channels at `positions` along one axis, `[positions, channels
/// / 2]`, complex.
/// @param positions one-dimensional
/// @pre `channels` is even
[[nodiscard]] at::Tensor axis_turns(const at::Tensor& positions, std::int64_t channels);

/// Turns each pair of neighbouring channels. Computed in float32, returned in the dtype of `heads`.
/// @param heads `[batch, tokens, heads, head_width]`
/// @param turns `[1, tokens, 1, head_width / 2]`, complex
[[nodiscard]] at::Tensor rotate(const at::Tensor& heads, const at::Tensor& turns);

} // namespace ferry
