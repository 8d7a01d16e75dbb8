// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/torch/torch_pipeline.hpp"

#include <ferry/platform/error.hpp>

#include "block_hook.hpp"
#include "ferry/torch/hookable.hpp"
#include "group_hook.hpp"
#include "storage_unit.hpp"
#include "torch_node.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace ferry {
namespace {

using module_ptr = std::shared_ptr<torch::nn::Module>;

template <class Visit>
void visit_modules(const module_ptr& from, std::unordered_set<const torch::nn::Module*>& seen,
                   const Visit& visit) {
  if (from == nullptr || !seen.insert(from.get()).second)
    return;
  visit(from);
  for (const auto& each : from->named_children())
    visit_modules(each.value(), seen, visit);
}

/// The tensors of one module. Found fast in the order in which the module holds them.
class own_of {
public:
  own_of() = default;
  own_of(object_id module, std::vector<held_tensor> tensors)
      : module_(module), tensors_(std::move(tensors)) {}

  [[nodiscard]] object_id module() const noexcept { return module_; }

  /// Returns null if the module does not hold it.
  [[nodiscard]] c10::intrusive_ptr<c10::TensorImpl> find(object_id tensor) {
    for (std::size_t tried = 0; tried != tensors_.size(); ++tried) {
      const auto& each = tensors_[next_].tensor;
      next_ = (next_ + 1) % tensors_.size();
      if (id_of(each.unsafeGetTensorImpl()) == tensor)
        return each.getIntrusivePtr();
    }
    return {};
  }

private:
  object_id module_{};
  std::vector<held_tensor> tensors_;
  std::size_t next_ = 0;
};

void require_valid(const torch_pipeline_description& description) {
  std::set<std::string_view> names;
  for (const auto& each : description.components) {
    const bool usable = !each.name.empty() && each.name.find('.') == std::string::npos;
    if (!usable || !names.insert(each.name).second)
      throw ferry_error({errc::invalid_pipeline,
                         "component name '" + each.name + "' of " + description.type_name +
                             " has to be one segment of a path, and unique"});
    if (each.module == nullptr)
      throw ferry_error({errc::invalid_pipeline, "component '" + each.name + "' of " +
                                                     description.type_name + " has no module"});
  }
}

std::string unhookable_message(const std::string& module) {
  return module + " cannot be hooked: derive it from ferry::hookable, make it a ferry::hooked, or "
                  "call it through torch_pipeline::hooks_of";
}

} // namespace

/// Finds modules by identity. Keeps none of them alive: an identity is good only while its object
/// lives, and is looked up anew when the modules have changed since.
class torch_pipeline::index {
public:
  explicit index(const std::vector<torch_component>& components) : components_(components) {}

  module_ptr module(object_id id) {
    if (auto living = find(id))
      return living;
    rebuild();
    return find(id);
  }

private:
  [[nodiscard]] module_ptr find(object_id id) const {
    const auto found = modules_.find(id);
    return found == modules_.end() ? nullptr : found->second.lock();
  }

  void rebuild() {
    modules_.clear();
    std::unordered_set<const torch::nn::Module*> seen;
    for (const auto& component : components_)
      visit_modules(component.module, seen,
                    [&](const module_ptr& each) { modules_.emplace(id_of(each.get()), each); });
  }

  const std::vector<torch_component>& components_;
  std::unordered_map<object_id, std::weak_ptr<torch::nn::Module>> modules_;
};

struct torch_pipeline::adopted_module {
  module_ptr module; ///< Keeps the address from being used for another.
  hook_registry hooks;
};

torch_pipeline::torch_pipeline(torch_pipeline_description description)
    : description_(std::move(description)) {
  require_valid(description_);
  index_ = std::make_unique<index>(description_.components);
  root_ = make_root(description_.type_name, description_.components);
}

torch_pipeline::~torch_pipeline() = default;

std::string_view torch_pipeline::type_name() const {
  return description_.type_name;
}

std::shared_ptr<const module_node> torch_pipeline::root() const {
  return root_;
}

std::optional<component_roles> torch_pipeline::declared_components() const {
  return description_.roles;
}

std::optional<offload_plan> torch_pipeline::declared_plan() const {
  return description_.plan;
}

model_offload* torch_pipeline::custom_model_offload() const {
  return description_.custom_model_offload.get();
}

const torch_component& torch_pipeline::component(std::string_view name) const {
  const auto found = std::ranges::find(description_.components, name, &torch_component::name);
  if (found == description_.components.end())
    throw ferry_error({errc::not_found,
                       description_.type_name + " has no component '" + std::string(name) + "'"});
  return *found;
}

at::Device torch_pipeline::compute_device(std::string_view name) const {
  static_cast<void>(component(name));
  return description_.compute_device;
}

at::ScalarType torch_pipeline::compute_dtype(std::string_view name) const {
  std::map<at::ScalarType, std::int64_t> elements;
  std::unordered_set<const torch::nn::Module*> seen;
  visit_modules(component(name).module, seen, [&](const module_ptr& each) {
    for (const auto& held : own_tensors(*each))
      if (held.tensor.is_floating_point())
        elements[held.tensor.scalar_type()] += held.tensor.numel();
  });
  const auto most =
      std::ranges::max_element(elements, {}, [](const auto& each) { return each.second; });
  return most == elements.end() ? at::kFloat : most->first;
}

hook_registry* torch_pipeline::registry_of(const torch::nn::Module& module) const {
  if (const auto* own = dynamic_cast<const hookable*>(&module))
    return &own->hooks();
  const auto found = adopted_.find(&module);
  return found == adopted_.end() ? nullptr : &found->second->hooks;
}

hook_registry& torch_pipeline::hooks_of(const std::shared_ptr<torch::nn::Module>& module) {
  if (auto* known = registry_of(*module))
    return *known;
  auto adopted = std::make_unique<adopted_module>(adopted_module{module, {}});
  return adopted_.emplace(module.get(), std::move(adopted)).first->second->hooks;
}

result<void> torch_pipeline::check_device(const device_traits& target) const {
  const auto own = description_.compute_device;
  if (own.is_cpu() ? target.computes_on_host : own.str() == target.name)
    return {};
  return tl::unexpected(failure{
      errc::invalid_pipeline, description_.type_name + " computes on " + own.str() +
                                  ", and the device of the runtime is " + target.name +
                                  "; expected the same one as compute_device of its description"});
}

std::unique_ptr<weight_unit> torch_pipeline::make_unit(std::string path, packed_layout layout) {
  std::vector<storage_unit::tensor_impl> tensors;
  tensors.reserve(layout.tensors.size());
  own_of holder;
  for (const auto& each : layout.tensors) {
    if (each.owner != holder.module()) {
      const auto module = index_->module(each.owner);
      holder = {each.owner, module ? own_tensors(*module) : std::vector<held_tensor>{}};
    }
    auto tensor = holder.find(each.identity);
    if (tensor == nullptr)
      throw ferry_error({errc::not_found, "a tensor of '" + path + "' is not in " +
                                              description_.type_name +
                                              " any more: resolve the pipeline again"});
    const bool plain = tensor->has_storage() && tensor->device_type() == at::kCPU;
    if (each.storage != packed_tensor::no_storage && !plain)
      throw ferry_error({errc::unsupported, "a tensor of '" + path + "' is on " +
                                                tensor->device().str() +
                                                ": bring the weights to host memory first"});
    tensors.push_back(std::move(tensor));
  }
  return std::make_unique<storage_unit>(std::move(path), std::move(layout), std::move(tensors),
                                        description_.compute_device);
}

void torch_pipeline::install_block_hook(object_id block, block_id id, weight_unit& unit,
                                        std::shared_ptr<block_gate> gate) {
  auto& own_unit = dynamic_cast<storage_unit&>(unit);
  const auto module = index_->module(block);
  if (module == nullptr)
    throw ferry_error({.code = errc::not_found,
                       .detail = "block '" + own_unit.path() + "' is not in " +
                                 description_.type_name + " any more: resolve the pipeline again",
                       .block = own_unit.path()});
  auto* registry = registry_of(*module);
  if (registry == nullptr)
    throw ferry_error(
        {.code = errc::unsupported,
         .detail = unhookable_message("block '" + own_unit.path() + "' (" + module->name() + ")"),
         .block = own_unit.path()});
  if (registry->find(block_hook::name) != nullptr)
    throw ferry_error({.code = errc::already_enabled,
                       .detail = "block '" + own_unit.path() + "' is streamed by another backend",
                       .block = own_unit.path()});
  registry->add(*module, block_hook::name,
                std::make_shared<block_hook>(id, own_unit, std::move(gate)));
}

void torch_pipeline::remove_block_hook(object_id block) {
  remove_hook(block, block_hook::name);
}

void torch_pipeline::install_group_hook(object_id module, group_id group,
                                        std::shared_ptr<group_gate> gate) {
  const auto entered = index_->module(module);
  if (entered == nullptr)
    throw ferry_error({errc::not_found, "a module that was to be hooked is not in " +
                                            description_.type_name +
                                            " any more: resolve the pipeline again"});
  auto* registry = registry_of(*entered);
  if (registry == nullptr)
    throw ferry_error({errc::unsupported, unhookable_message(entered->name())});
  if (registry->find(group_hook::name) != nullptr)
    throw ferry_error(
        {errc::already_enabled, "the module " + entered->name() + " is staged by another backend"});
  registry->add(*entered, group_hook::name, std::make_shared<group_hook>(group, std::move(gate)));
}

void torch_pipeline::remove_group_hook(object_id module) {
  remove_hook(module, group_hook::name);
}

void torch_pipeline::remove_hook(object_id module, const char* name) {
  const auto hooked = index_->module(module);
  if (hooked == nullptr)
    return;
  if (auto* registry = registry_of(*hooked))
    registry->remove(name);
}

} // namespace ferry
