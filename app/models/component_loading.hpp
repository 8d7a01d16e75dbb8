// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/pipeline_directory.hpp>
#include <ferry/platform/error.hpp>

#include "models/weights.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

// What opening a pipeline directory has in common for all families. Whatever is wrong becomes a
// problem, so that one look finds all of it.

/// A component that a family's pipelines have.
struct known_component {
  std::string_view name;
  std::string_view class_name; ///< Empty: not read, so any will do.
  bool required;
};

/// Checks that `index` declares a pipeline of class `pipeline_class` with every required component
/// and no other than those known.
void check_classes(const pipeline_directory& index, std::string_view pipeline_class,
                   std::span<const known_component> known, std::vector<failure>& problems);

/// Checks that the field `what`, whose value is `value`, agrees with another field.
void expect_equal(std::string_view what, std::int64_t value, std::string_view other,
                  std::int64_t expected, std::vector<failure>& problems);

/// Calls `take` with the weights of the component saved in `directory`. Tensors keep its files
/// mapped. They have the type `computes`, and memory then once they are offloaded or made resident;
/// nothing: the type that they are stored in.
void with_weights(const std::filesystem::path& directory, const std::string& component,
                  std::optional<dtype> computes, std::vector<failure>& problems,
                  const std::function<void(const weights& source)>& take);

/// Makes the module of one component from its weights in the directory of the pipeline. Null if
/// they cannot be opened.
template <class Module, class Config>
std::shared_ptr<Module>
load_component(const std::filesystem::path& pipeline, const std::string& name, const Config& config,
               std::optional<dtype> computes, std::vector<failure>& problems) {
  std::shared_ptr<Module> module;
  with_weights(pipeline / name, name, computes, problems,
               [&](const weights& source) { module = std::make_shared<Module>(source, config); });
  return module;
}

/// Returns the first of `problems` with the number of the others. @pre there is one
[[nodiscard]] failure summary(const std::vector<failure>& problems);

} // namespace ferry
