// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "flux_vae_checkpoint.hpp"

#include "checkpoint_plan.hpp"
#include "tensor_list.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace ferry {

namespace {

using nlohmann::json;

constexpr std::int64_t colors = 3;

void add_residual(tensor_list& tensors, const std::string& path, std::int64_t in,
                  std::int64_t out) {
  tensors.norm(path + ".norm1", in);
  tensors.conv2d(path + ".conv1", in, out, 3);
  tensors.norm(path + ".norm2", out);
  tensors.conv2d(path + ".conv2", out, out, 3);
  if (in != out)
    tensors.conv2d(path + ".conv_shortcut", in, out, 1);
}

void add_middle(tensor_list& tensors, const std::string& path, std::int64_t width) {
  add_residual(tensors, path + ".resnets.0", width, width);
  tensors.norm(path + ".attentions.0.group_norm", width);
  for (const auto* layer : {"to_q", "to_k", "to_v", "to_out.0"})
    tensors.linear(path + ".attentions.0." + layer, width, width);
  add_residual(tensors, path + ".resnets.1", width, width);
}

/// Adds a stage's residual blocks and returns the width after them.
std::int64_t add_stage(tensor_list& tensors, const std::string& path, std::int64_t blocks,
                       std::int64_t in, std::int64_t out) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    add_residual(tensors, path + ".resnets." + std::to_string(i), in, out);
    in = out;
  }
  return out;
}

void add_encoder(tensor_list& tensors, const flux_vae_shape& shape) {
  const auto stages = shape.multipliers.size();
  auto width = shape.width * shape.multipliers.front();
  tensors.conv2d("encoder.conv_in", colors, width, 3);
  for (std::size_t i = 0; i < stages; ++i) {
    const auto path = "encoder.down_blocks." + std::to_string(i);
    width =
        add_stage(tensors, path, shape.residual_blocks, width, shape.width * shape.multipliers[i]);
    if (i + 1 < stages)
      tensors.conv2d(path + ".downsamplers.0.conv", width, width, 3);
  }
  add_middle(tensors, "encoder.mid_block", width);
  tensors.norm("encoder.conv_norm_out", width);
  tensors.conv2d("encoder.conv_out", width, 2 * shape.latent_channels, 3);
}

void add_decoder(tensor_list& tensors, const flux_vae_shape& shape) {
  const auto stages = shape.multipliers.size();
  auto width = shape.width * shape.multipliers.back();
  tensors.conv2d("decoder.conv_in", shape.latent_channels, width, 3);
  add_middle(tensors, "decoder.mid_block", width);
  for (std::size_t i = 0; i < stages; ++i) {
    const auto path = "decoder.up_blocks." + std::to_string(i);
    width = add_stage(tensors, path, shape.residual_blocks + 1, width,
                      shape.width * shape.multipliers[stages - 1 - i]);
    if (i + 1 < stages)
      tensors.conv2d(path + ".upsamplers.0.conv", width, width, 3);
  }
  tensors.norm("decoder.conv_norm_out", width);
  tensors.conv2d("decoder.conv_out", width, colors, 3);
}

} // namespace

std::vector<tensor_declaration> flux_vae_tensors(const flux_vae_shape& shape, dtype type) {
  tensor_list tensors(type);
  if (shape.width > 0) {
    add_encoder(tensors, shape);
    add_decoder(tensors, shape);
  }
  return tensors.take();
}

json flux_vae_config(const flux_vae_shape& shape) {
  const auto stages = shape.multipliers.size();
  auto widths = shape.multipliers;
  for (auto& width : widths)
    width *= shape.width;
  return {{"_class_name", "AutoencoderKL"},
          {"_diffusers_version", diffusers_version},
          {"act_fn", "silu"},
          {"block_out_channels", widths},
          {"down_block_types", std::vector<std::string>(stages, "DownEncoderBlock2D")},
          {"force_upcast", true},
          {"in_channels", colors},
          {"latent_channels", shape.latent_channels},
          {"latents_mean", nullptr},
          {"latents_std", nullptr},
          {"layers_per_block", shape.residual_blocks},
          {"mid_block_add_attention", true},
          {"norm_num_groups", shape.groups},
          {"out_channels", colors},
          {"sample_size", 1024},
          {"scaling_factor", 0.3611},
          {"shift_factor", 0.1159},
          {"up_block_types", std::vector<std::string>(stages, "UpDecoderBlock2D")},
          {"use_post_quant_conv", false},
          {"use_quant_conv", false}};
}

} // namespace ferry
