// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/component_loading.hpp"

#include <ferry/offload/checkpoint.hpp>
#include <ferry/torch/mapped_tensor.hpp>

#include <algorithm>

namespace ferry {
namespace {

std::string known_classes(std::string_view pipeline_class, std::span<const known_component> known) {
  std::string names{pipeline_class};
  std::string_view last;
  for (const auto& component : known) {
    if (!component.class_name.empty() && component.class_name != last) {
      names.append(", ").append(component.class_name);
      last = component.class_name;
    }
  }
  return names;
}

bool knows(std::span<const known_component> known, const declared_component& declared) {
  return std::ranges::any_of(known, [&](const known_component& candidate) {
    return candidate.name == declared.name &&
           (candidate.class_name.empty() || candidate.class_name == declared.class_name);
  });
}

/// Returns the type that a weight has for the model. Others than floating-point numbers stay what
/// they are, and what is needed exactly is never narrowed.
dtype computed_type(dtype stored, std::optional<dtype> computes, precision wanted) {
  const auto converts = stored == dtype::bf16 || stored == dtype::f16 || stored == dtype::f32;
  if (!computes || !converts) {
    return stored;
  }
  const auto narrows = element_size(*computes) < element_size(stored);
  return narrows && wanted == precision::exact ? stored : *computes;
}

} // namespace

void check_classes(const pipeline_directory& index, std::string_view pipeline_class,
                   std::span<const known_component> known, std::vector<failure>& problems) {
  const auto unknown = [&](const std::string& what, const std::string& class_name) {
    problems.push_back({errc::unsupported,
                        "model_index.json: " + what + " is of the unknown class '" + class_name +
                            "'; known are " + known_classes(pipeline_class, known)});
  };
  if (index.class_name != pipeline_class) {
    unknown("the pipeline", index.class_name);
    return;
  }
  for (const auto& declared : index.components) {
    if (!knows(known, declared)) {
      unknown(declared.name, declared.class_name);
    }
  }
  for (const auto& expected : known) {
    if (expected.required && index.find(expected.name) == nullptr) {
      problems.push_back({errc::invalid_checkpoint,
                          "model_index.json: " + std::string{expected.name} +
                              " is missing; expected a " + std::string{expected.class_name}});
    }
  }
}

void expect_equal(std::string_view what, std::int64_t value, std::string_view other,
                  std::int64_t expected, std::vector<failure>& problems) {
  if (value != expected) {
    problems.push_back({errc::invalid_checkpoint,
                        std::string{what} + " is " + std::to_string(value) + "; expected " +
                            std::to_string(expected) + ", the " + std::string{other}});
  }
}

void with_weights(const std::filesystem::path& directory, const std::string& component,
                  std::optional<dtype> computes, std::vector<failure>& problems,
                  const std::function<void(const weights& source)>& take) {
  const auto checkpoint = component_checkpoint::open(directory);
  if (!checkpoint) {
    problems.push_back(checkpoint.error());
    return;
  }
  const tensor_lookup find = [&](const std::string& tensor, precision wanted) {
    const auto* stored = (*checkpoint)->find(tensor);
    if (stored == nullptr) {
      return at::Tensor{};
    }
    return converted_tensor_over(*checkpoint, stored->bytes, stored->type,
                                 computed_type(stored->type, computes, wanted), stored->shape,
                                 component + "." + tensor);
  };
  take(weights{component, find, problems});
}

failure summary(const std::vector<failure>& problems) {
  auto first = problems.front();
  if (problems.size() > 1) {
    first.detail += " (and " + std::to_string(problems.size() - 1) + " more)";
  }
  return first;
}

} // namespace ferry
