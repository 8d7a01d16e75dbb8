// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// Opening a pipeline directory; running it is in flux_pipeline.cpp.
#include "models/clip_encoder.hpp"
#include "models/component_config.hpp"
#include "models/component_loading.hpp"
#include "models/flux_pipeline.hpp"
#include "models/flux_transformer.hpp"
#include "models/image_decoder.hpp"
#include "models/t5_encoder.hpp"

#include <array>
#include <optional>

namespace ferry {
namespace {

constexpr std::array<known_component, 9> known_components{{
    {"scheduler", "FlowMatchEulerDiscreteScheduler", true},
    {"text_encoder", "CLIPTextModel", true},
    {"text_encoder_2", "T5EncoderModel", true},
    {"transformer", "FluxTransformer2DModel", true},
    {"vae", "AutoencoderKL", false},
    {"tokenizer", "", false},
    {"tokenizer_2", "", false},
    {"feature_extractor", "", false},
    {"image_encoder", "", false},
}};

} // namespace

result<flux_pipeline> flux_pipeline::load(const std::filesystem::path& directory,
                                          std::optional<dtype> computes) {
  const auto index = read_pipeline_directory(directory);
  if (!index) {
    return tl::unexpected{index.error()};
  }
  std::vector<failure> problems;
  check_classes(*index, "FluxPipeline", known_components, problems);
  if (!problems.empty()) {
    return tl::unexpected{summary(problems)};
  }
  const auto file = [&](std::string_view name) {
    return component_config{directory / name / "config.json", problems};
  };

  flux_pipeline loaded;
  component_config schedule{directory / "scheduler" / "scheduler_config.json", problems};
  loaded.schedule_ = read_flow_match_config(schedule);
  auto clip_file = file("text_encoder");
  const auto clip = read_clip_config(clip_file);
  auto t5_file = file("text_encoder_2");
  const auto t5 = read_t5_config(t5_file, t5_positions::shared);
  auto transformer_file = file("transformer");
  const auto transformer = read_flux_config(transformer_file);
  expect_equal("transformer.pooled_projection_dim", transformer.pooled_width,
               "text_encoder.hidden_size", clip.width, problems);
  expect_equal("transformer.joint_attention_dim", transformer.text_width, "text_encoder_2.d_model",
               t5.width, problems);
  expect_equal("transformer.out_channels", transformer.out_channels, "in_channels",
               transformer.in_channels, problems);
  transformer_file.expect(transformer.in_channels % 4 == 0, "in_channels",
                          "a multiple of 4: a token is two by two latents");
  loaded.limits_ = {.clip_vocabulary = clip.vocabulary,
                    .clip_positions = clip.max_positions,
                    .t5_vocabulary = t5.vocabulary,
                    .latent_channels = transformer.in_channels / 4};
  std::optional<image_decoder_config> decoder;
  if (index->find("vae") != nullptr) {
    auto decoder_file = file("vae");
    decoder = read_image_decoder_config(decoder_file);
    expect_equal("vae.latent_channels", decoder->latent_channels, "transformer.in_channels / 4",
                 loaded.limits_.latent_channels, problems);
    loaded.limits_.pixels_per_latent = decoder->pixels_per_latent();
    loaded.scaling_factor_ = decoder->scaling_factor;
    loaded.shift_factor_ = decoder->shift_factor;
  }
  if (!problems.empty()) {
    return tl::unexpected{summary(problems)};
  }

  loaded.clip_ = load_component<clip_encoder>(directory, "text_encoder", clip, computes, problems);
  loaded.t5_ = load_component<t5_encoder>(directory, "text_encoder_2", t5, computes, problems);
  loaded.transformer_ =
      load_component<flux_transformer>(directory, "transformer", transformer, computes, problems);
  if (decoder) {
    loaded.decoder_ = load_component<image_decoder>(directory, "vae", *decoder, computes, problems);
  }
  if (!problems.empty()) {
    return tl::unexpected{summary(problems)};
  }
  return loaded;
}

} // namespace ferry
