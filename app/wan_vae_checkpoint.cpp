// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "wan_vae_checkpoint.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace ferry {

namespace {

using nlohmann::json;

constexpr std::int64_t latent_channels = 16;
constexpr std::int64_t colours = 3;

/// Whether time is halved behind a stage of the encoder.
constexpr std::array<bool, 3> halves_time{false, true, true};

/// Mean and deviation of each channel of a latent, of the trained autoencoder.
constexpr std::array<double, latent_channels> latents_mean{
    -0.7571, -0.7089, -0.9113, 0.1075,  -0.1745, 0.9653,  -0.1517, 1.5508,
    0.4134,  -0.0715, 0.5517,  -0.3632, -0.1922, -0.9497, 0.2503,  -0.2921};
constexpr std::array<double, latent_channels> latents_deviation{
    2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
    3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.916};

/// Collects the tensors of an autoencoder, in the order in which they run.
class vae_tensors {
public:
  vae_tensors(const wan_vae_shape& shape, dtype type) : shape_(shape), type_(type) {}

  void add_encoder() {
    auto inputs = shape_.width;
    conv3d("encoder.conv_in", colours, inputs);
    std::size_t block = 0;
    for (std::size_t stage = 0; stage < shape_.multipliers.size(); ++stage) {
      const auto width = width_of(stage);
      for (std::int64_t i = 0; i < shape_.residual_blocks; ++i) {
        residual("encoder.down_blocks." + std::to_string(block++), inputs, width);
        inputs = width;
      }
      if (stage < halves_time.size()) {
        const auto path = "encoder.down_blocks." + std::to_string(block++);
        conv(path + ".resample.1", {width, width, 3, 3});
        if (halves_time[stage])
          conv(path + ".time_conv", {width, width, 3, 1, 1});
      }
    }
    middle("encoder.mid_block", inputs);
    norm("encoder.norm_out", inputs);
    conv3d("encoder.conv_out", inputs, 2 * latent_channels);
    conv("quant_conv", {2 * latent_channels, 2 * latent_channels, 1, 1, 1});
  }

  void add_decoder() {
    conv("post_quant_conv", {latent_channels, latent_channels, 1, 1, 1});
    auto inputs = width_of(shape_.multipliers.size() - 1);
    conv3d("decoder.conv_in", latent_channels, inputs);
    middle("decoder.mid_block", inputs);
    for (std::size_t i = 0; i < shape_.multipliers.size(); ++i) {
      const auto stage = shape_.multipliers.size() - 1 - i;
      const auto path = "decoder.up_blocks." + std::to_string(i);
      const auto width = width_of(stage);
      for (std::int64_t block = 0; block <= shape_.residual_blocks; ++block) {
        residual(path + ".resnets." + std::to_string(block), inputs, width);
        inputs = width;
      }
      if (stage > 0) {
        conv(path + ".upsamplers.0.resample.1", {width / 2, width, 3, 3});
        if (halves_time[stage - 1])
          conv(path + ".upsamplers.0.time_conv", {2 * width, width, 3, 1, 1});
        inputs = width / 2;
      }
    }
    norm("decoder.norm_out", inputs);
    conv3d("decoder.conv_out", inputs, colours);
  }

  [[nodiscard]] std::vector<tensor_declaration> take() { return std::move(tensors_); }

private:
  [[nodiscard]] std::int64_t width_of(std::size_t stage) const {
    return shape_.width * shape_.multipliers[stage];
  }

  void add(const std::string& name, std::vector<std::int64_t> shape) {
    tensors_.push_back({.name = name, .type = type_, .shape = std::move(shape)});
  }

  void conv(const std::string& path, std::vector<std::int64_t> shape) {
    const auto outputs = shape[0];
    add(path + ".weight", std::move(shape));
    add(path + ".bias", {outputs});
  }

  void conv3d(const std::string& path, std::int64_t in, std::int64_t out) {
    conv(path, {out, in, 3, 3, 3});
  }

  void norm(const std::string& path, std::int64_t width) { add(path + ".gamma", {width, 1, 1, 1}); }

  void residual(const std::string& path, std::int64_t in, std::int64_t out) {
    norm(path + ".norm1", in);
    conv3d(path + ".conv1", in, out);
    norm(path + ".norm2", out);
    conv3d(path + ".conv2", out, out);
    if (in != out)
      conv(path + ".conv_shortcut", {out, in, 1, 1, 1});
  }

  void middle(const std::string& path, std::int64_t width) {
    residual(path + ".resnets.0", width, width);
    add(path + ".attentions.0.norm.gamma", {width, 1, 1});
    conv(path + ".attentions.0.to_qkv", {3 * width, width, 1, 1});
    conv(path + ".attentions.0.proj", {width, width, 1, 1});
    residual(path + ".resnets.1", width, width);
  }

  wan_vae_shape shape_;
  dtype type_;
  std::vector<tensor_declaration> tensors_;
};

} // namespace

std::vector<tensor_declaration> wan_vae_tensors(const wan_vae_shape& shape, dtype type) {
  vae_tensors tensors(shape, type);
  if (shape.width > 0) {
    tensors.add_encoder();
    tensors.add_decoder();
  }
  return tensors.take();
}

json wan_vae_config(const wan_vae_shape& shape) {
  return {{"_class_name", "AutoencoderKLWan"},
          {"_diffusers_version", "0.42.1"},
          {"attn_scales", json::array()},
          {"base_dim", shape.width},
          {"decoder_base_dim", nullptr},
          {"dim_mult", shape.multipliers},
          {"dropout", 0.0},
          {"in_channels", colours},
          {"is_residual", false},
          {"latents_mean", latents_mean},
          {"latents_std", latents_deviation},
          {"num_res_blocks", shape.residual_blocks},
          {"out_channels", colours},
          {"patch_size", nullptr},
          {"scale_factor_spatial", 8},
          {"scale_factor_temporal", 4},
          {"temperal_downsample", halves_time},
          {"z_dim", latent_channels}};
}

} // namespace ferry
