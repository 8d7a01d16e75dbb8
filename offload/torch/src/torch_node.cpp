// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_node.hpp"

#include <ferry/platform/error.hpp>

#include "ferry/torch/block_list.hpp"
#include "ferry/torch/component_interfaces.hpp"
#include "ferry/torch/mapped_tensor.hpp"
#include "ferry/torch/torch_pipeline.hpp"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>

namespace ferry {
namespace {

/// Returns the type that has the same bytes, for types without a name of their own. Complex numbers
/// are described as pairs.
std::optional<dtype> layout_type(const at::Tensor& tensor) {
  if (auto exact = dtype_of(tensor.scalar_type()))
    return exact;
  switch (tensor.is_complex() ? tensor.element_size() / 2 : tensor.element_size()) {
    case 1:
      return dtype::u8;
    case 2:
      return tensor.is_complex() ? dtype::f16 : dtype::i16;
    case 4:
      return tensor.is_complex() ? dtype::f32 : dtype::i32;
    case 8:
      return tensor.is_complex() ? dtype::f64 : dtype::i64;
    default:
      return std::nullopt;
  }
}

void describe_as_pairs(tensor_info& info) {
  for (auto& stride : info.strides)
    stride *= 2;
  info.storage_offset *= 2;
  info.shape.push_back(2);
  info.strides.push_back(1);
}

tensor_info describe(const torch::nn::Module& module, const held_tensor& held) {
  const auto& tensor = held.tensor;
  const auto type = layout_type(tensor);
  if (!type || tensor.layout() != at::kStrided)
    throw ferry_error(
        {errc::unsupported, "tensor '" + held.name + "' of a " + module.name() +
                                " is of a kind that cannot be moved: " + tensor.toString()});
  tensor_info info{.name = held.name,
                   .role = held.role,
                   .persistent = held.persistent,
                   .type = *type,
                   .shape = tensor.sizes().vec(),
                   .strides = tensor.strides().vec(),
                   .storage_offset = tensor.storage_offset(),
                   .identity = id_of(tensor.unsafeGetTensorImpl()),
                   .owner = id_of(&module),
                   .meta = tensor.is_meta()};
  if (tensor.has_storage() && !info.meta) {
    info.storage = id_of(tensor.storage().unsafeGetStorageImpl());
    info.storage_bytes = tensor.storage().nbytes();
    info.convert = conversion_of(tensor.storage());
  }
  if (tensor.is_complex())
    describe_as_pairs(info);
  return info;
}

/// Reads a module's parameters where they are: `named_parameters` copies all of them.
struct parameters_of : torch::nn::Module {
  static const auto& in(const torch::nn::Module& module) {
    return module.*(&parameters_of::parameters_);
  }
};

class torch_node final : public module_node {
public:
  explicit torch_node(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {}

  object_id identity() const override { return id_of(module_.get()); }
  std::string_view type_name() const override { return module_->name(); }

  std::vector<child> children() const override {
    std::vector<child> all;
    for (const auto& each : module_->named_children())
      if (each.value() != nullptr)
        all.emplace_back(each.key(), std::make_shared<torch_node>(each.value()));
    return all;
  }

  std::vector<tensor_info> tensors() const override {
    std::vector<tensor_info> all;
    for (const auto& held : own_tensors(*module_))
      all.push_back(describe(*module_, held));
    return all;
  }

  bool holds(tensor_role role) const override {
    const auto defined = [](const auto& each) { return each.value().defined(); };
    if (role == tensor_role::parameter)
      return std::ranges::any_of(parameters_of::in(*module_), defined);
    if (role == tensor_role::buffer)
      return std::ranges::any_of(module_->named_buffers(/*recurse=*/false), defined);
    const auto* declares = as<declares_tensors>();
    return declares != nullptr &&
           std::ranges::any_of(declares->unregistered_tensors(),
                               [](const auto& each) { return each.second.defined(); });
  }

  bool is_list() const override {
    return as<ordered_blocks>() != nullptr || as<torch::nn::ModuleListImpl>() != nullptr ||
           as<torch::nn::SequentialImpl>() != nullptr;
  }

  attribute_kind attribute(std::string_view name) const override {
    for (const auto& each : module_->named_children())
      if (each.key() == name)
        return each.value() == nullptr ? attribute_kind::null : attribute_kind::module;
    const auto held = own_tensors(*module_);
    return std::ranges::find(held, name, &held_tensor::name) == held.end() ? attribute_kind::missing
                                                                           : attribute_kind::other;
  }

  std::optional<block_declaration> declared_blocks() const override {
    const auto* declares = as<declares_blocks>();
    return declares == nullptr ? std::nullopt : std::optional(declares->declared_blocks());
  }

  staging_methods staging() const override {
    const bool stages = as<stages_itself>() != nullptr;
    return {.load_to_device = stages, .offload_to_cpu = stages};
  }

  std::optional<bool> is_loaded() const override {
    const auto* declares = as<declares_loaded>();
    return declares == nullptr ? std::nullopt : std::optional(declares->is_loaded());
  }

  void load_to_device() const override { as<stages_itself>()->load_to_device(); }
  void offload_to_cpu() const override { as<stages_itself>()->offload_to_cpu(); }

private:
  template <class Interface>
  Interface* as() const {
    return dynamic_cast<Interface*>(module_.get());
  }

  std::shared_ptr<torch::nn::Module> module_;
};

class root_node final : public module_node {
public:
  root_node(std::string type_name, std::vector<child> components)
      : type_name_(std::move(type_name)), components_(std::move(components)) {}

  object_id identity() const override { return id_of(this); }
  std::string_view type_name() const override { return type_name_; }
  std::vector<child> children() const override { return components_; }
  std::vector<tensor_info> tensors() const override { return {}; }
  bool holds(tensor_role) const override { return false; }
  bool is_list() const override { return false; }
  attribute_kind attribute(std::string_view name) const override {
    return std::ranges::find(components_, name, &child::first) == components_.end()
               ? attribute_kind::missing
               : attribute_kind::module;
  }
  std::optional<block_declaration> declared_blocks() const override { return std::nullopt; }
  staging_methods staging() const override { return {}; }
  std::optional<bool> is_loaded() const override { return std::nullopt; }
  void load_to_device() const override {}
  void offload_to_cpu() const override {}

private:
  std::string type_name_;
  std::vector<child> components_;
};

} // namespace

object_id id_of(const void* object) noexcept {
  return object_id{reinterpret_cast<std::uintptr_t>(object)};
}

std::vector<held_tensor> own_tensors(const torch::nn::Module& module) {
  std::vector<std::string> transient;
  if (const auto* declares = dynamic_cast<const declares_transient_buffers*>(&module))
    transient = declares->transient_buffers();
  std::vector<held_tensor> all;
  const auto& parameters = parameters_of::in(module);
  all.reserve(parameters.size());
  for (const auto& each : parameters)
    all.push_back({each.key(), tensor_role::parameter, true, each.value()});
  for (const auto& each : module.named_buffers(/*recurse=*/false)) {
    const bool persistent = std::ranges::find(transient, each.key()) == transient.end();
    all.push_back({each.key(), tensor_role::buffer, persistent, each.value()});
  }
  if (const auto* declares = dynamic_cast<const declares_tensors*>(&module))
    for (auto& [name, tensor] : declares->unregistered_tensors())
      all.push_back({std::move(name), tensor_role::unregistered, false, std::move(tensor)});
  std::erase_if(all, [](const held_tensor& each) { return !each.tensor.defined(); });
  return all;
}

std::shared_ptr<const module_node> make_root(std::string type_name,
                                             const std::vector<torch_component>& components) {
  std::vector<module_node::child> nodes;
  for (const auto& each : components)
    nodes.emplace_back(each.name, std::make_shared<torch_node>(each.module));
  return std::make_shared<root_node>(std::move(type_name), std::move(nodes));
}

} // namespace ferry
