// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/weight_update.hpp>
#include <ferry/platform/error.hpp>

#include <string>
#include <vector>

namespace ferry {

/// Where the weights of a pipeline are read and replaced by name, wherever they lie.
class weight_store {
public:
  weight_store() = default;
  weight_store(const weight_store&) = delete;
  weight_store& operator=(const weight_store&) = delete;
  virtual ~weight_store() = default;

  /// Replaces all that the update names, or nothing if it fails. What is wrong with a name, type or
  /// shape is found before anything changes: `not_found`, `invalid_argument`, `unsupported`. The
  /// values' owners are kept as long as they are needed.
  [[nodiscard]] virtual result<weight_version> update_weights(weight_update update) = 0;

  /// Returns copies of the tensors `names` of `component`, of all its tensors for no names. Fails
  /// with `not_found` or `unsupported`.
  [[nodiscard]] virtual result<weight_snapshot> read_weights(std::string component,
                                                             std::vector<std::string> names) = 0;
};

} // namespace ferry
