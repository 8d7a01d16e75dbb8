// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flux_config.hpp"

#include <numeric>
#include <string>

namespace ferry {

flux_config read_flux_config(component_config& file) {
  constexpr std::int64_t largest = std::int64_t{1} << 20;
  flux_config config;
  file.expect_integer("patch_size", 1);
  config.in_channels = file.integer("in_channels", 1, 4096);
  config.out_channels = file.integer("out_channels", 1, 4096, config.in_channels);
  config.heads = file.integer("num_attention_heads", 1, 4096);
  config.head_width = file.even("attention_head_dim", 2, 4096);
  config.double_blocks = file.integer("num_layers", 1, 4096);
  config.single_blocks = file.integer("num_single_layers", 1, 4096);
  config.text_width = file.integer("joint_attention_dim", 1, largest);
  config.pooled_width = file.integer("pooled_projection_dim", 1, largest);
  config.guidance = file.boolean("guidance_embeds", false);
  config.rotary_channels = file.three("axes_dims_rope", 2, 4096);
  const auto& axes = config.rotary_channels;
  const bool even = axes[0] % 2 == 0 && axes[1] % 2 == 0 && axes[2] % 2 == 0;
  file.expect(
      even && std::accumulate(axes.begin(), axes.end(), std::int64_t{0}) == config.head_width,
      "axes_dims_rope",
      "even numbers that add up to attention_head_dim, " + std::to_string(config.head_width));
  return config;
}

} // namespace ferry
