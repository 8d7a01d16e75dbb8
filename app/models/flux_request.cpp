// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flux_request.hpp"

#include "models/reference_run.hpp"
#include "models/request_checks.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <optional>

namespace ferry {
namespace {

request_problem check_absent(std::string_view field, std::size_t length, std::string_view why) {
  if (length != 0) {
    return says("the length of " + std::string{field}, length, why);
  }
  return std::nullopt;
}

request_problem check_prompts(const request& asked, const flux_limits& limits) {
  constexpr auto no_mask = "0: every id counts in this pipeline";
  if (auto found = check_ids("prompt", asked.positive.ids, limits.clip_vocabulary,
                             std::min(limits.clip_positions, max_prompt_ids))) {
    return *found + ", the limits of text_encoder";
  }
  const auto* name = asked.second.ids.empty() ? "prompt" : "second_prompt";
  if (auto found =
          check_ids(name, second_prompt(asked).ids, limits.t5_vocabulary, max_prompt_ids)) {
    return *found + ", the limits of text_encoder_2";
  }
  if (auto found = check_absent("the mask of prompt_ids", asked.positive.mask.size(), no_mask)) {
    return found;
  }
  if (auto found =
          check_absent("the mask of second_prompt_ids", asked.second.mask.size(), no_mask)) {
    return found;
  }
  return check_absent("negative_prompt_ids", asked.negative.ids.size(),
                      "0: this pipeline takes no negative prompt");
}

request_problem check_size(const request& asked, const flux_limits& limits) {
  const auto size = std::to_string(asked.width) + "x" + std::to_string(asked.height);
  const auto unit = limits.pixels_per_token();
  if (auto found =
          check_multiple("the width of size " + size, asked.width, unit, max_image_tokens)) {
    return found;
  }
  if (auto found =
          check_multiple("the height of size " + size, asked.height, unit, max_image_tokens)) {
    return found;
  }
  if (asked.frames != 1) {
    return says("frames", asked.frames, "1: this pipeline makes an image");
  }
  return std::nullopt;
}

request_problem check_latents(const request& asked, const flux_limits& limits) {
  const auto& latents = asked.initial_latents;
  if (!latents.defined()) {
    return std::nullopt;
  }
  if (latents.scalar_type() != at::kFloat) {
    return says("the type of initial_latents", c10::toString(latents.scalar_type()), "Float");
  }
  const auto [rows, columns] = token_grid(asked, limits);
  const std::array<std::int64_t, 3> shape{1, rows * columns, 4 * limits.latent_channels};
  if (latents.sizes() != at::IntArrayRef{shape}) {
    return says("the shape of initial_latents", latents.sizes(),
                "[1, " + std::to_string(shape[1]) + ", " + std::to_string(shape[2]) +
                    "], a row for each token of the size");
  }
  return std::nullopt;
}

request_problem check(const request& asked, const flux_limits& limits) {
  if (auto found = check_schedule(asked)) {
    return found;
  }
  if (auto found = check_prompts(asked, limits)) {
    return found;
  }
  if (auto found = check_size(asked, limits)) {
    return found;
  }
  return check_latents(asked, limits);
}

bool are_positions(const at::Tensor& ids) {
  return ids.scalar_type() == at::kFloat && ids.dim() == 2 && ids.size(0) > 0 && ids.size(1) == 3 &&
         ids.ge(0).logical_and(ids.lt(max_image_tokens)).all().item<bool>();
}

std::int64_t extent_along(const at::Tensor& positions, std::int64_t axis) {
  return static_cast<std::int64_t>(positions.select(1, axis).max().item<float>()) + 1;
}

} // namespace

result<void> validate(const request& asked, const flux_limits& limits) {
  if (auto found = check(asked, limits)) {
    return tl::unexpected{failure{errc::invalid_argument, std::move(*found)}};
  }
  return {};
}

result<request> read_flux_request(const reference_run& reference, const flux_limits& limits) {
  request asked;
  asked.frames = 1;
  at::Tensor positions;
  std::optional<failure> problem;
  const auto take = [&](auto read, auto& into) {
    if (read) {
      into = std::move(*read);
    } else if (!problem) {
      problem = read.error();
    }
  };
  take(reference.ids("clip_input_ids"), asked.positive.ids);
  take(reference.ids("t5_input_ids"), asked.second.ids);
  take(reference.tensor("initial_latents", "packed float32 latents"), asked.initial_latents);
  take(reference.tensor("image_ids", "a position for each token"), positions);
  take(reference.steps(), asked.steps);
  take(reference.guidance(), asked.guidance);
  if (!problem && !are_positions(positions)) {
    problem = failure{errc::invalid_checkpoint,
                      says("the shape of image_ids", positions.sizes(),
                           "float32 of shape [tokens, 3], each row (0, row, column) of a token")};
  }
  if (problem) {
    return tl::unexpected{std::move(*problem)};
  }
  asked.height = extent_along(positions, 1) * limits.pixels_per_token();
  asked.width = extent_along(positions, 2) * limits.pixels_per_token();
  return asked;
}

const prompt& second_prompt(const request& asked) noexcept {
  return asked.second.ids.empty() ? asked.positive : asked.second;
}

std::array<std::int64_t, 2> token_grid(const request& asked, const flux_limits& limits) {
  return {asked.height / limits.pixels_per_token(), asked.width / limits.pixels_per_token()};
}

at::Tensor pack_latents(const at::Tensor& latents) {
  const auto cut = latents.unflatten(3, {-1, 2}).unflatten(2, {-1, 2});
  return cut.permute({0, 2, 4, 1, 3, 5}).flatten(3).flatten(1, 2);
}

at::Tensor unpack_latents(const at::Tensor& tokens, const std::array<std::int64_t, 2>& grid) {
  const auto [rows, columns] = grid;
  return tokens.unflatten(2, {-1, 2, 2})
      .unflatten(1, {rows, columns})
      .permute({0, 3, 1, 4, 2, 5})
      .reshape({tokens.size(0), tokens.size(2) / 4, 2 * rows, 2 * columns});
}

at::Tensor starting_latents(const request& asked, const flux_limits& limits) {
  if (asked.initial_latents.defined()) {
    return asked.initial_latents;
  }
  const auto [rows, columns] = token_grid(asked, limits);
  auto generator = at::detail::createCPUGenerator(asked.seed);
  return pack_latents(
      at::randn({1, limits.latent_channels, 2 * rows, 2 * columns}, generator, at::kFloat));
}

} // namespace ferry
