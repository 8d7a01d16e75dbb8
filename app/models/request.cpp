// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/request.hpp"

#include "models/request_checks.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <string>

namespace ferry {
namespace {

request_problem check_prompt(const std::string& name, const prompt& text, std::int64_t vocabulary) {
  if (const auto found = check_ids(name, text.ids, vocabulary, max_prompt_ids)) {
    return found;
  }
  if (text.mask.empty()) {
    return std::nullopt;
  }
  if (text.mask.size() != text.ids.size()) {
    return says("the length of the mask of " + name + "_ids", text.mask.size(),
                "one entry an id, " + std::to_string(text.ids.size()));
  }
  std::int64_t counting = 0;
  for (const auto entry : text.mask) {
    if (const auto found = check_range("an entry of the mask of " + name + "_ids", entry, 0, 1)) {
      return found;
    }
    counting += entry;
  }
  return check_range("the number of ids that the mask of " + name + "_ids lets through", counting,
                     1, static_cast<std::int64_t>(text.ids.size()));
}

request_problem check_size(const request& asked, const request_limits& limits) {
  const auto size = std::to_string(asked.width) + "x" + std::to_string(asked.height);
  if (const auto found =
          check_multiple("the width of size " + size, asked.width,
                         limits.pixels_per_latent * limits.patch[2], limits.max_positions)) {
    return found;
  }
  if (const auto found =
          check_multiple("the height of size " + size, asked.height,
                         limits.pixels_per_latent * limits.patch[1], limits.max_positions)) {
    return found;
  }
  const auto per_latent = limits.frames_per_latent;
  const auto most_latents = limits.max_positions * limits.patch[0];
  const auto most = (most_latents - 1) * per_latent + 1;
  const bool whole = asked.frames >= 1 && asked.frames <= most &&
                     (asked.frames - 1) % per_latent == 0 &&
                     ((asked.frames - 1) / per_latent + 1) % limits.patch[0] == 0;
  if (!whole) {
    auto expected = std::to_string(per_latent) + "k+1, at most " + std::to_string(most);
    if (limits.patch[0] > 1) {
      expected += ", with k+1 a multiple of " + std::to_string(limits.patch[0]);
    }
    return says("frames", asked.frames, expected);
  }
  return std::nullopt;
}

request_problem check_latents(const at::Tensor& latents, const request_limits& limits) {
  const auto shape = latents.sizes();
  if (latents.scalar_type() != at::kFloat) {
    return says("the type of initial_latents", c10::toString(latents.scalar_type()), "Float");
  }
  const bool whole = shape.size() == 5 && shape[0] == 1 && shape[1] == limits.channels;
  if (!whole) {
    return says("the shape of initial_latents", shape,
                "[1, " + std::to_string(limits.channels) + ", frames, rows, columns]");
  }
  if (const auto found = check_multiple("the frames of initial_latents", shape[2], limits.patch[0],
                                        limits.max_positions)) {
    return found;
  }
  if (const auto found = check_multiple("the rows of initial_latents", shape[3], limits.patch[1],
                                        limits.max_positions)) {
    return found;
  }
  return check_multiple("the columns of initial_latents", shape[4], limits.patch[2],
                        limits.max_positions);
}

request_problem check(const request& asked, const request_limits& limits) {
  if (const auto found = check_schedule(asked)) {
    return found;
  }
  if (const auto found = check_prompt("prompt", asked.positive, limits.vocabulary)) {
    return found;
  }
  if (!asked.second.ids.empty()) {
    return says("the number of second_prompt_ids", asked.second.ids.size(),
                "none: this pipeline has one text encoder");
  }
  if (asked.guidance > 1) {
    if (const auto found = check_prompt("negative_prompt", asked.negative, limits.vocabulary)) {
      return found;
    }
  }
  return asked.initial_latents.defined() ? check_latents(asked.initial_latents, limits)
                                         : check_size(asked, limits);
}

} // namespace

result<void> validate(const request& asked, const request_limits& limits) {
  if (auto found = check(asked, limits)) {
    return tl::unexpected{failure{errc::invalid_argument, std::move(*found)}};
  }
  return {};
}

request smallest_request(const request_limits& limits) {
  request smallest;
  smallest.positive.ids = {0};
  smallest.negative.ids = {0};
  smallest.steps = 1;
  smallest.width = limits.pixels_per_latent * limits.patch[2];
  smallest.height = limits.pixels_per_latent * limits.patch[1];
  smallest.frames = (limits.patch[0] - 1) * limits.frames_per_latent + 1;
  return smallest;
}

std::vector<std::int64_t> latent_shape(const request& asked, const request_limits& limits) {
  if (asked.initial_latents.defined()) {
    return asked.initial_latents.sizes().vec();
  }
  return {1, limits.channels, (asked.frames - 1) / limits.frames_per_latent + 1,
          asked.height / limits.pixels_per_latent, asked.width / limits.pixels_per_latent};
}

at::Tensor starting_latents(const request& asked, const request_limits& limits) {
  if (asked.initial_latents.defined()) {
    return asked.initial_latents;
  }
  auto generator = at::detail::createCPUGenerator(asked.seed);
  return at::randn(latent_shape(asked, limits), generator, at::kFloat);
}

} // namespace ferry
