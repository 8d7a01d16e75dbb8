// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/platform/device.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ferry {

/// The contents of one tensor.
struct weight_value {
  std::string name; ///< Dotted, below the component: "blocks.0.norm.weight".
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  const_bytes bytes;                 ///< Row by row without gaps, whatever the tensor's strides.
  std::shared_ptr<const void> owner; ///< Keeps `bytes`.
};

/// New contents for tensors of one component, all or none of them. Names that are tied change
/// together.
struct weight_update {
  std::string component; ///< Its path.
  std::vector<weight_value> values;
};

/// Counts the updates of a component: 0 as it was enabled.
enum class weight_version : std::uint64_t {};

/// Contents of a component at one version.
struct weight_snapshot {
  std::vector<weight_value> values;
  weight_version version{};
};

} // namespace ferry
