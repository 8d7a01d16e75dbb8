// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/load_model.hpp"

#include <ferry/offload/pipeline_directory.hpp>

#include "models/flux_pipeline.hpp"
#include "models/wan_pipeline.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace ferry {
namespace {

using loaded_model = result<std::unique_ptr<diffusion_model>>;

template <class Model>
loaded_model load_as(const std::filesystem::path& directory, std::optional<dtype> computes) {
  auto model = Model::load(directory, computes);
  if (!model) {
    return tl::unexpected{std::move(model.error())};
  }
  return std::make_unique<Model>(std::move(*model));
}

struct family {
  std::string_view class_name;
  loaded_model (*load)(const std::filesystem::path& directory, std::optional<dtype> computes);
};

constexpr std::array families{
    family{"FluxPipeline", load_as<flux_pipeline>},
    family{"WanPipeline", load_as<wan_pipeline>},
};

failure unknown_class(const std::string& class_name) {
  std::string known;
  for (const auto& candidate : families) {
    known.append(known.empty() ? "" : ", ").append(candidate.class_name);
  }
  return {errc::unsupported, "model_index.json: the pipeline is of the unknown class '" +
                                 class_name + "'; known are " + known};
}

} // namespace

result<std::unique_ptr<diffusion_model>> load_model(const std::filesystem::path& directory,
                                                    std::optional<dtype> computes) {
  const auto index = read_pipeline_directory(directory);
  if (!index) {
    return tl::unexpected{index.error()};
  }
  for (const auto& candidate : families) {
    if (candidate.class_name == index->class_name) {
      return candidate.load(directory, computes);
    }
  }
  return tl::unexpected{unknown_class(index->class_name)};
}

} // namespace ferry
