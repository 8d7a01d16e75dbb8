// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/pipeline.hpp>

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace torch::nn {
class Module;
}

namespace ferry {

class hook_registry;

struct torch_component {
  std::string name; ///< One segment of a path: no dots.
  std::shared_ptr<torch::nn::Module> module;
};

/// What the author of a pipeline says about it.
struct torch_pipeline_description {
  std::string type_name;
  std::vector<torch_component> components;
  std::optional<component_roles> roles = std::nullopt;
  std::optional<offload_plan> plan = std::nullopt;
  std::shared_ptr<model_offload> custom_model_offload = nullptr;
  /// Where blocks run, whatever holds their weights meanwhile: the CPU, or a GPU with its number.
  at::Device compute_device{at::kCPU};
};

/// A pipeline whose components are `torch::nn::Module`s. Keeps the modules alive.
///
/// Modules are known by identity, tensors by their `TensorImpl`, storages by their `StorageImpl`.
/// A module may tell more about itself through `component_interfaces.hpp`. Lists are `block_list`,
/// `ModuleList` and `Sequential`.
///
/// Used by one thread at a time. Calls of the modules are the caller's and need no lock, as long as
/// no unit is made and no hook is installed or removed meanwhile.
class torch_pipeline final : public pipeline {
public:
  /// @throws ferry_error `invalid_pipeline` for a name that is empty, has a dot or comes twice, and
  /// for a component without a module
  explicit torch_pipeline(torch_pipeline_description description);
  ~torch_pipeline() override;

  [[nodiscard]] std::string_view type_name() const override;
  [[nodiscard]] std::shared_ptr<const module_node> root() const override;
  [[nodiscard]] std::optional<component_roles> declared_components() const override;
  [[nodiscard]] std::optional<offload_plan> declared_plan() const override;
  [[nodiscard]] model_offload* custom_model_offload() const override;

  /// Returns where the component computes. Never inferred from where its weights are.
  /// @throws ferry_error `not_found`
  [[nodiscard]] at::Device compute_device(std::string_view component) const;

  /// Returns the floating-point type of most of the component's elements, parked or not; float32
  /// for a component that has none.
  /// @throws ferry_error `not_found`
  [[nodiscard]] at::ScalarType compute_dtype(std::string_view component) const;

  /// Makes a module hookable that neither derives from `hookable` nor is `hooked`, and whose caller
  /// goes through `call_through` or `hook_scope` with this registry. For a hookable module: its
  /// own.
  [[nodiscard]] hook_registry& hooks_of(const std::shared_ptr<torch::nn::Module>& module);

  /// Refuses any but the compute device; for the CPU, any that does not compute on the host.
  [[nodiscard]] result<void> check_device(const device_traits& target) const override;

  /// @throws ferry_error `not_found` if the pipeline has no such tensor, `unsupported` for one
  /// whose memory is not a plain storage on the CPU
  [[nodiscard]] std::unique_ptr<weight_unit> make_unit(std::string path,
                                                       packed_layout layout) override;

  /// The hook is called "layerwise_offload". Calling a block while it runs already is an error.
  /// @pre `unit` comes from `make_unit` of this pipeline
  /// @throws ferry_error also `not_found`, and `unsupported` if the module has no registry
  void install_block_hook(object_id block, block_id id, weight_unit& unit,
                          std::shared_ptr<block_gate> gate) override;
  void remove_block_hook(object_id block) override;

  /// The hook is called "sequential_offload". An entry point may call others of its module.
  /// @throws ferry_error also `not_found`, and `unsupported` if the module has no registry
  void install_group_hook(object_id module, group_id group,
                          std::shared_ptr<group_gate> gate) override;
  void remove_group_hook(object_id module) override;

private:
  class index;
  struct adopted_module;

  [[nodiscard]] const torch_component& component(std::string_view name) const;
  [[nodiscard]] hook_registry* registry_of(const torch::nn::Module& module) const;
  void remove_hook(object_id module, const char* name);

  torch_pipeline_description description_;
  std::unique_ptr<index> index_;
  std::shared_ptr<const module_node> root_;
  std::unordered_map<const torch::nn::Module*, std::unique_ptr<adopted_module>> adopted_;
};

} // namespace ferry
