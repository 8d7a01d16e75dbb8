// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ferry {

/// A tokenised prompt.
struct prompt {
  std::vector<std::int64_t> ids;

  /// 1 for an id that counts, 0 for padding. Empty: all count. What is padded reaches the denoiser
  /// as zeros, so pad to the length that the model was trained with.
  std::vector<std::int64_t> mask;
};

/// What one run of a pipeline is asked for.
struct request {
  prompt positive;
  prompt second;   ///< For a second text encoder. Without ids: as `positive`.
  prompt negative; ///< Not looked at while `guidance` is at most 1.
  std::uint64_t seed = 0;
  std::int64_t steps = 4;
  double guidance = 4.0; ///< At most 1: the denoiser runs once a step, without guidance.
  std::int64_t width = 96;
  std::int64_t height = 64;
  std::int64_t frames = 9;

  /// `[1, channels, frames, rows, columns]`, float32. If defined, it takes the place of `seed`,
  /// `width`, `height` and `frames`.
  at::Tensor initial_latents;
};

/// What a pipeline can be asked for.
struct request_limits {
  std::int64_t vocabulary = 0;
  std::int64_t channels = 0;                  ///< Of a latent.
  std::int64_t max_positions = 0;             ///< Most patches along one axis.
  std::array<std::int64_t, 3> patch{1, 1, 1}; ///< Latent frames, rows, columns in a patch.
  std::int64_t pixels_per_latent = 8;         ///< Along width and height.
  std::int64_t frames_per_latent = 4;         ///< The first frame is a latent frame of its own.
};

/// Longest prompt, in ids.
inline constexpr std::int64_t max_prompt_ids = 512;
inline constexpr std::int64_t max_steps = 1000;

/// Checks every field that a run reads.
/// @returns `invalid_argument` with the field, its value and its limits
[[nodiscard]] result<void> validate(const request& asked, const request_limits& limits);

/// Returns the valid request that asks for least: one step, prompts of one id, one patch.
[[nodiscard]] request smallest_request(const request_limits& limits);

/// Returns the shape of the latents that a valid request works on.
[[nodiscard]] std::vector<std::int64_t> latent_shape(const request& asked,
                                                     const request_limits& limits);

/// Returns the latents to start from: those given, or normal noise as torch's CPU generator draws
/// it from the seed.
[[nodiscard]] at::Tensor starting_latents(const request& asked, const request_limits& limits);

} // namespace ferry
