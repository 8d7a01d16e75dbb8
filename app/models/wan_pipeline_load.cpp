// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// Opening a pipeline directory; running it is in wan_pipeline.cpp.
#include <ferry/offload/pipeline_directory.hpp>

#include "models/component_config.hpp"
#include "models/component_loading.hpp"
#include "models/t5_encoder.hpp"
#include "models/wan_decoder.hpp"
#include "models/wan_pipeline.hpp"
#include "models/wan_transformer.hpp"

#include <algorithm>
#include <array>

namespace ferry {
namespace {

constexpr std::array known_components{
    known_component{"scheduler", "FlowMatchEulerDiscreteScheduler", true},
    known_component{"text_encoder", "UMT5EncoderModel", true},
    known_component{"transformer", "WanTransformer3DModel", true},
    known_component{"transformer_2", "WanTransformer3DModel", false},
    known_component{"vae", "AutoencoderKLWan", false},
    known_component{"tokenizer", "", false},
};

void check_denoiser(const std::string& name, const wan_config& config, const wan_config& first,
                    std::int64_t text_width, std::vector<failure>& problems) {
  expect_equal(name + ".text_dim", config.text_width, "text_encoder.d_model", text_width, problems);
  expect_equal(name + ".out_channels", config.out_channels, "in_channels", config.in_channels,
               problems);
  expect_equal(name + ".in_channels", config.in_channels, "transformer.in_channels",
               first.in_channels, problems);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    expect_equal(name + ".patch_size[" + std::to_string(axis) + "]", config.patch[axis],
                 "transformer.patch_size", first.patch[axis], problems);
  }
}

} // namespace

result<wan_pipeline> wan_pipeline::load(const std::filesystem::path& directory,
                                        std::optional<dtype> computes) {
  const auto index = read_pipeline_directory(directory);
  if (!index) {
    return tl::unexpected{index.error()};
  }
  std::vector<failure> problems;
  check_classes(*index, "WanPipeline", known_components, problems);
  if (!problems.empty()) {
    return tl::unexpected{summary(problems)};
  }

  wan_pipeline loaded;
  component_config schedule{directory / "scheduler" / "scheduler_config.json", problems};
  loaded.schedule_ = read_flow_match_config(schedule);
  schedule.expect_off("use_dynamic_shifting");
  component_config encoder_file{directory / "text_encoder" / "config.json", problems};
  const auto encoder = read_t5_config(encoder_file, t5_positions::per_block);
  component_config first_file{directory / "transformer" / "config.json", problems};
  const auto first = read_wan_config(first_file);
  check_denoiser("transformer", first, first, encoder.width, problems);
  auto& limits = loaded.limits_;
  limits = {.vocabulary = encoder.vocabulary,
            .channels = first.in_channels,
            .max_positions = first.max_positions,
            .patch = first.patch};

  std::optional<wan_config> second;
  if (index->find("transformer_2") != nullptr) {
    component_config file{directory / "transformer_2" / "config.json", problems};
    second = read_wan_config(file);
    check_denoiser("transformer_2", *second, first, encoder.width, problems);
    limits.max_positions = std::min(limits.max_positions, second->max_positions);
    if (!index->boundary_ratio) {
      problems.push_back(failure{errc::invalid_checkpoint,
                                 "model_index.json: boundary_ratio is missing; expected the share "
                                 "of the noise at which transformer_2 takes over"});
    }
    loaded.boundary_ =
        index->boundary_ratio.value_or(0) * static_cast<double>(loaded.schedule_.train_timesteps);
  }
  std::optional<wan_decoder_config> decoder;
  if (index->find("vae") != nullptr) {
    component_config file{directory / "vae" / "config.json", problems};
    decoder = read_wan_decoder_config(file);
    expect_equal("vae.z_dim", decoder->channels, "transformer.in_channels", first.in_channels,
                 problems);
    limits.pixels_per_latent = decoder->pixels_per_latent();
    limits.frames_per_latent = decoder->frames_per_latent();
  }
  if (!problems.empty()) {
    return tl::unexpected{summary(problems)};
  }

  loaded.encoder_ =
      load_component<t5_encoder>(directory, "text_encoder", encoder, computes, problems);
  loaded.transformer_ =
      load_component<wan_transformer>(directory, "transformer", first, computes, problems);
  if (second) {
    loaded.transformer_2_ =
        load_component<wan_transformer>(directory, "transformer_2", *second, computes, problems);
  }
  if (decoder) {
    loaded.decoder_ = load_component<wan_decoder>(directory, "vae", *decoder, computes, problems);
  }
  if (!problems.empty()) {
    return tl::unexpected{summary(problems)};
  }
  return loaded;
}

} // namespace ferry
