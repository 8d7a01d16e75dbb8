// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint_plan.hpp"

#include <ferry/offload/checkpoint_writer.hpp>
#include <ferry/platform/error.hpp>

#include "random_weights.hpp"

#include <cerrno>
#include <fstream>
#include <system_error>

namespace ferry {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view scheduler_class = "FlowMatchEulerDiscreteScheduler";

void write_json(const fs::path& path, const json& content) {
  fs::create_directories(path.parent_path());
  auto file = std::ofstream(path, std::ios::binary);
  file << content.dump(2) << '\n';
  file.close();
  if (!file)
    throw ferry_error({.code = errc::io_failure,
                       .detail = "cannot write '" + path.string() +
                                 "': " + std::generic_category().message(errno)});
}

json index_of(const checkpoint_plan& plan) {
  json index = {{"_class_name", plan.class_name},
                {"_diffusers_version", diffusers_version},
                {"scheduler", json::array({"diffusers", scheduler_class})}};
  for (const auto& component : plan.components)
    index[component.name] = json::array({component.library, component.class_name});
  index.update(plan.index_fields);
  return index;
}

} // namespace

json flow_match_scheduler_config(double shift, bool dynamic) {
  return {{"_class_name", scheduler_class},
          {"_diffusers_version", diffusers_version},
          {"base_image_seq_len", 256},
          {"base_shift", 0.5},
          {"invert_sigmas", false},
          {"max_image_seq_len", 4096},
          {"max_shift", 1.15},
          {"num_train_timesteps", 1000},
          {"shift", shift},
          {"shift_terminal", nullptr},
          {"stochastic_sampling", false},
          {"time_shift_type", "exponential"},
          {"use_beta_sigmas", false},
          {"use_dynamic_shifting", dynamic},
          {"use_exponential_sigmas", false},
          {"use_karras_sigmas", false}};
}

std::uint64_t weight_bytes(const checkpoint_plan& plan) {
  std::uint64_t sum = 0;
  for (const auto& component : plan.components)
    for (const auto& tensor : component.tensors)
      sum += tensor.bytes();
  return sum;
}

void write_checkpoint(const fs::path& directory, const checkpoint_plan& plan, std::uint64_t seed,
                      std::uint64_t most_bytes_per_file,
                      const std::function<void(std::uint64_t)>& progress) {
  write_json(directory / "scheduler" / "scheduler_config.json", plan.scheduler);
  std::uint64_t written = 0;
  for (const auto& component : plan.components) {
    const auto place = directory / component.name;
    write_json(place / "config.json", component.config);
    // Each component has a seed of its own, or two denoisers would be one.
    const random_weights weights(seed * 8 + written++);
    const auto* stem = component.library == "transformers" ? "model" : "diffusion_pytorch_model";
    write_component(place, stem, component.tensors, most_bytes_per_file,
                    [&](const auto& tensor, std::uint64_t offset, mutable_bytes chunk) {
                      weights.fill(tensor, offset, chunk);
                      progress(chunk.size());
                    });
  }
  write_json(directory / "model_index.json", index_of(plan));
}

} // namespace ferry
