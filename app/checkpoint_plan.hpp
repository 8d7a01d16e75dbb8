// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/safetensors_writer.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// A component to be written.
struct planned_component {
  std::string name;
  std::string_view library;    ///< Which saves such components: "diffusers" or "transformers".
  std::string_view class_name; ///< As `model_index.json` has it.
  nlohmann::json config;
  std::vector<tensor_declaration> tensors;
};

/// A pipeline to be written.
struct checkpoint_plan {
  std::string_view class_name;
  nlohmann::json scheduler;
  std::vector<planned_component> components;
  nlohmann::json index_fields = nlohmann::json::object(); ///< More that `model_index.json` has.
};

/// The version of diffusers whose layout is written.
inline constexpr std::string_view diffusers_version = "0.42.1";

/// Returns what a flow-matching scheduler's configuration says.
[[nodiscard]] nlohmann::json flow_match_scheduler_config(double shift, bool dynamic);

/// Returns the bytes of all weights together.
[[nodiscard]] std::uint64_t weight_bytes(const checkpoint_plan& plan);

/// Writes a pipeline directory with seeded random weights, in the layout that diffusers saves.
/// `model_index.json` comes last: until then the directory is no pipeline.
///
/// `progress` is called with the number of bytes written since the last call; what it throws ends
/// the writing.
/// @pre `directory` exists and is empty
/// @throws ferry_error `io_failure`; what was written stays
void write_checkpoint(const std::filesystem::path& directory, const checkpoint_plan& plan,
                      std::uint64_t seed, std::uint64_t most_bytes_per_file,
                      const std::function<void(std::uint64_t)>& progress);

} // namespace ferry
