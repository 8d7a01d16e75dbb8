// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include "models/request.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace ferry {

class reference_run;

/// What a pipeline of the FLUX family can be asked for.
struct flux_limits {
  std::int64_t clip_vocabulary = 0;
  std::int64_t clip_positions = 0; ///< Most ids that the first encoder takes.
  std::int64_t t5_vocabulary = 0;
  std::int64_t latent_channels = 0;
  std::int64_t pixels_per_latent = 8; ///< Along width and height.

  /// Returns how many pixels a token stands for, along width and height: two latents.
  [[nodiscard]] std::int64_t pixels_per_token() const noexcept { return 2 * pixels_per_latent; }
};

/// Most tokens along one axis of an image.
inline constexpr std::int64_t max_image_tokens = 512;

/// Checks every field of a request to a FLUX pipeline. There is no negative prompt, no mask and one
/// frame. `initial_latents` are `[1, tokens, 4 * latent_channels]`, packed, and take the place of
/// `seed` alone: width and height say how they lie.
/// @returns `invalid_argument` with the field, its value and its limits
[[nodiscard]] result<void> validate(const request& asked, const flux_limits& limits);

/// Returns the request that a reference file describes: `clip_input_ids`, `t5_input_ids`,
/// `initial_latents`, `image_ids`, which say how they lie, and `steps` and `guidance_scale` in its
/// metadata.
/// @returns `invalid_checkpoint` with what is missing or malformed
[[nodiscard]] result<request> read_flux_request(const reference_run& reference,
                                                const flux_limits& limits);

/// Returns the ids for the second encoder of a request.
[[nodiscard]] const prompt& second_prompt(const request& asked) noexcept;

/// Returns rows and columns of tokens in a valid request's image.
[[nodiscard]] std::array<std::int64_t, 2> token_grid(const request& asked,
                                                     const flux_limits& limits);

/// Makes a token of each two by two latents.
/// @param latents `[1, channels, 2 * rows, 2 * columns]`
/// @returns `[1, rows * columns, 4 * channels]`
[[nodiscard]] at::Tensor pack_latents(const at::Tensor& latents);

/// Takes `pack_latents` back.
[[nodiscard]] at::Tensor unpack_latents(const at::Tensor& tokens,
                                        const std::array<std::int64_t, 2>& grid);

/// Returns the packed latents to start from: those given, or normal noise as torch's CPU generator
/// draws it from the seed before it is packed.
[[nodiscard]] at::Tensor starting_latents(const request& asked, const flux_limits& limits);

} // namespace ferry
