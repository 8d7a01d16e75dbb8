// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// A component that `model_index.json` declares.
struct declared_component {
  std::string name;                ///< Also the name of its directory.
  std::string library;             ///< "diffusers", "transformers".
  std::string class_name;          ///< "WanTransformer3DModel".
  std::filesystem::path directory; ///< Exists.
};

/// A pipeline on disk in the layout that diffusers saves: `model_index.json` and one directory a
/// component. A plain value; it holds no file open.
struct pipeline_directory {
  std::filesystem::path root;
  std::string class_name;                     ///< "WanPipeline".
  std::vector<declared_component> components; ///< Sorted by name. Without those declared as null.
  std::optional<double> boundary_ratio;       ///< In [0, 1] where the pipeline has one.

  /// Returns the component called `name`, or null.
  [[nodiscard]] const declared_component* find(std::string_view name) const noexcept;
};

/// Reads `model_index.json` of the directory `root` and checks that each component it declares has
/// a directory of its own in it.
///
/// Fields other than `_class_name`, `boundary_ratio` and components are passed over.
/// @return `invalid_checkpoint` with the path, the field, its value and what was expected
[[nodiscard]] result<pipeline_directory> read_pipeline_directory(const std::filesystem::path& root);

} // namespace ferry
