// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/module_tree.hpp>

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace ferry {

struct torch_component;

[[nodiscard]] object_id id_of(const void* object) noexcept;

/// A tensor where a module holds it.
struct held_tensor {
  std::string name;
  tensor_role role = tensor_role::parameter;
  bool persistent = true;
  at::Tensor tensor;
};

/// Returns the module's own tensors, registered and declared; undefined ones are left out.
[[nodiscard]] std::vector<held_tensor> own_tensors(const torch::nn::Module& module);

/// Makes the node of a pipeline whose children are `components`.
[[nodiscard]] std::shared_ptr<const module_node>
make_root(std::string type_name, const std::vector<torch_component>& components);

} // namespace ferry
