// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// Opening a pipeline directory; running it is in wan_pipeline.cpp.
#include <ferry/offload/checkpoint.hpp>
#include <ferry/offload/pipeline_directory.hpp>
#include <ferry/torch/mapped_tensor.hpp>

#include "models/component_config.hpp"
#include "models/umt5_encoder.hpp"
#include "models/wan_pipeline.hpp"
#include "models/wan_transformer.hpp"
#include "models/weights.hpp"

#include <algorithm>
#include <array>

namespace ferry {
namespace {

struct known_component {
  std::string_view name;
  std::string_view class_name; ///< Empty: not read, so any will do.
  bool required;
};

constexpr std::array<known_component, 6> known_components{{
    {"scheduler", "FlowMatchEulerDiscreteScheduler", true},
    {"text_encoder", "UMT5EncoderModel", true},
    {"transformer", "WanTransformer3DModel", true},
    {"transformer_2", "WanTransformer3DModel", false},
    {"vae", "AutoencoderKLWan", false},
    {"tokenizer", "", false},
}};

constexpr std::string_view pipeline_class = "WanPipeline";

std::string known_classes() {
  std::string names{pipeline_class};
  std::string_view last;
  for (const auto& component : known_components) {
    if (!component.class_name.empty() && component.class_name != last) {
      names.append(", ").append(component.class_name);
      last = component.class_name;
    }
  }
  return names;
}

failure unknown_class(const std::string& what, const std::string& class_name) {
  return {errc::unsupported, "model_index.json: " + what + " is of the unknown class '" +
                                 class_name + "'; known are " + known_classes()};
}

void check_classes(const pipeline_directory& index, std::vector<failure>& problems) {
  if (index.class_name != pipeline_class) {
    problems.push_back(unknown_class("the pipeline", index.class_name));
    return;
  }
  for (const auto& declared : index.components) {
    const bool known = std::ranges::any_of(known_components, [&](const known_component& candidate) {
      return candidate.name == declared.name &&
             (candidate.class_name.empty() || candidate.class_name == declared.class_name);
    });
    if (!known) {
      problems.push_back(unknown_class(declared.name, declared.class_name));
    }
  }
  for (const auto& expected : known_components) {
    if (expected.required && index.find(expected.name) == nullptr) {
      problems.push_back(
          failure{errc::invalid_checkpoint, "model_index.json: " + std::string{expected.name} +
                                                " is missing; expected a " +
                                                std::string{expected.class_name}});
    }
  }
}

void expect_equal(std::string_view what, std::int64_t value, std::string_view other,
                  std::int64_t expected, std::vector<failure>& problems) {
  if (value != expected) {
    problems.push_back(failure{errc::invalid_checkpoint,
                               std::string{what} + " is " + std::to_string(value) + "; expected " +
                                   std::to_string(expected) + ", the " + std::string{other}});
  }
}

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

/// Makes the module of one component from its weights in `directory`.
template <class Module, class Config>
std::shared_ptr<Module> build(const std::filesystem::path& directory, const std::string& name,
                              const Config& config, std::vector<failure>& problems) {
  const auto checkpoint = component_checkpoint::open(directory / name);
  if (!checkpoint) {
    problems.push_back(checkpoint.error());
    return nullptr;
  }
  const tensor_lookup find = [&](const std::string& tensor) {
    const auto* stored = (*checkpoint)->find(tensor);
    return stored == nullptr ? at::Tensor{}
                             : tensor_over(*checkpoint, stored->bytes, stored->type, stored->shape);
  };
  return std::make_shared<Module>(weights{name, find, problems}, config);
}

failure summary(const std::vector<failure>& problems) {
  auto first = problems.front();
  if (problems.size() > 1) {
    first.detail += " (and " + std::to_string(problems.size() - 1) + " more)";
  }
  return first;
}

} // namespace

result<wan_pipeline> wan_pipeline::load(const std::filesystem::path& directory) {
  const auto index = read_pipeline_directory(directory);
  if (!index) {
    return tl::unexpected{index.error()};
  }
  std::vector<failure> problems;
  check_classes(*index, problems);
  if (!problems.empty()) {
    return tl::unexpected{summary(problems)};
  }

  wan_pipeline loaded;
  component_config schedule{directory / "scheduler" / "scheduler_config.json", problems};
  loaded.schedule_ = read_flow_match_config(schedule);
  component_config encoder_file{directory / "text_encoder" / "config.json", problems};
  const auto encoder = read_umt5_config(encoder_file);
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
  if (index->find("vae") != nullptr) {
    component_config file{directory / "vae" / "config.json", problems};
    limits.pixels_per_latent = file.integer("scale_factor_spatial", 1, 64, 8);
    limits.frames_per_latent = file.integer("scale_factor_temporal", 1, 64, 4);
  }
  if (!problems.empty()) {
    return tl::unexpected{summary(problems)};
  }

  loaded.encoder_ = build<umt5_encoder>(directory, "text_encoder", encoder, problems);
  loaded.transformer_ = build<wan_transformer>(directory, "transformer", first, problems);
  if (second) {
    loaded.transformer_2_ = build<wan_transformer>(directory, "transformer_2", *second, problems);
  }
  if (!problems.empty()) {
    return tl::unexpected{summary(problems)};
  }
  return loaded;
}

} // namespace ferry
