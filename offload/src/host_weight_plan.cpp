// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/host_weight_plan.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace ferry {
namespace {

constexpr std::size_t named_tensors = 5; ///< So many of those missing are named.

tl::unexpected<no_host_weights> fall_back(weight_fallback reason, std::string detail) {
  return tl::unexpected(no_host_weights{reason, std::move(detail)});
}

/// A tensor that has to come from somewhere, under every name it goes by.
struct wanted_tensor {
  tensor_info info;
  std::vector<std::string> names;
};

using wanted_tensors = std::map<object_id, wanted_tensor>;

void collect(const std::string& path, const module_node& node, std::set<object_id>& above,
             wanted_tensors& found) {
  if (!above.insert(node.identity()).second)
    return;
  for (const auto& tensor : node.tensors()) {
    const auto stored = tensor.role == tensor_role::parameter ||
                        (tensor.role == tensor_role::buffer && tensor.persistent);
    if (!stored)
      continue;
    auto& wanted = found[tensor.identity];
    wanted.info = tensor;
    wanted.names.push_back(path + "." + tensor.name);
  }
  for (const auto& [name, child] : node.children())
    collect(path + "." + name, *child, above, found);
  above.erase(node.identity());
}

std::string list(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto each : shape)
    text += (text.empty() ? "" : ",") + std::to_string(each);
  return "[" + text + "]";
}

/// The entries of all sources by the runtime name they belong to.
class entries {
public:
  struct entry {
    weight_binding binding;
    const stored_tensor* stored = nullptr;
  };

  std::optional<no_host_weights> add(const weight_source& source) {
    auto opened = source.open();
    if (!opened)
      return no_host_weights{weight_fallback::missing_source, opened.error().detail};
    checkpoints_.push_back(*opened);
    const auto before = by_name_.size();
    for (const auto& file : (*opened)->files())
      for (const auto& tensor : file->tensors())
        if (auto refused = add(source, *file, tensor))
          return refused;
    if (by_name_.size() == before)
      return no_host_weights{weight_fallback::no_entries, (*opened)->directory().string() +
                                                              " has no tensor for '" +
                                                              source.prefix + "'"};
    return std::nullopt;
  }

  /// Returns the entry under any of `names`, and that name.
  [[nodiscard]] std::pair<const std::string*, const entry*>
  find(const std::vector<std::string>& names) const {
    for (const auto& name : names)
      if (const auto found = by_name_.find(name); found != by_name_.end())
        return {&found->first, &found->second};
    return {};
  }

private:
  std::optional<no_host_weights> add(const weight_source& source, const safetensors_file& file,
                                     const stored_tensor& tensor) {
    weight_adapter::entry adapted{.tensor = tensor.name};
    if (source.adapter != nullptr) {
      auto known = source.adapter->adapt(tensor.name);
      if (!known)
        return std::nullopt;
      adapted = std::move(*known);
    }
    const auto name = source.prefix + adapted.tensor;
    const auto [place, added] =
        by_name_.try_emplace(name, entry{{tensor.name, file.path(), adapted.transform}, &tensor});
    if (!added)
      return no_host_weights{weight_fallback::duplicate_entry,
                             "tensor '" + name + "' has two entries, '" +
                                 place->second.binding.key + "' in " +
                                 place->second.binding.file.string() + " and '" + tensor.name +
                                 "' in " + file.path().string() + "; expected one"};
    return std::nullopt;
  }

  std::vector<std::shared_ptr<const component_checkpoint>> checkpoints_;
  std::map<std::string, entry> by_name_;
};

std::optional<no_host_weights> check_layout(const weight_layout& layout) {
  using enum weight_fallback;
  if (layout.tensor_parallel_size != 1)
    return no_host_weights{tensor_parallel, "tensor_parallel_size is " +
                                                std::to_string(layout.tensor_parallel_size) +
                                                "; expected 1"};
  if (layout.use_hsdp)
    return no_host_weights{hsdp, "use_hsdp is true; its shards are made while loading"};
  if (layout.online_quantization)
    return no_host_weights{online_quantization, "the weights are quantized while loading"};
  if (layout.int8_conv_rot)
    return no_host_weights{int8_conv_rot, "the INT8 ConvRot layout is made while loading"};
  return std::nullopt;
}

std::optional<no_host_weights> check_form(const std::string& name, const tensor_info& wanted,
                                          const entries::entry& from) {
  const auto& stored = *from.stored;
  if (stored.shape == wanted.shape && stored.type == wanted.type)
    return std::nullopt;
  return no_host_weights{weight_fallback::metadata_mismatch,
                         "tensor '" + name + "' is " + std::string{to_string(stored.type)} +
                             list(stored.shape) + " in the checkpoint; the model expects " +
                             std::string{to_string(wanted.type)} + list(wanted.shape)};
}

/// Returns the sources of `dit`; there has to be one that is of nothing else.
std::vector<const weight_source*> sources_of(const std::string& dit,
                                             std::span<const weight_source> sources) {
  std::vector<const weight_source*> own;
  for (const auto& each : sources)
    if (each.prefix == dit + ".")
      own.push_back(&each);
  return own;
}

/// Binds every tensor of one DiT into `plan`.
std::optional<no_host_weights> bind_all(const wanted_tensors& wanted, const entries& from,
                                        host_weight_plan& plan) {
  std::vector<std::string> missing;
  for (const auto& [identity, tensor] : wanted) {
    const auto [name, entry] = from.find(tensor.names);
    if (entry == nullptr) {
      missing.push_back(tensor.names.front());
      continue;
    }
    if (auto wrong = check_form(*name, tensor.info, *entry))
      return wrong;
    plan.bindings.emplace(*name, entry->binding);
  }
  if (missing.empty())
    return std::nullopt;
  std::ranges::sort(missing);
  std::string names;
  for (std::size_t i = 0; i != std::min(missing.size(), named_tensors); ++i)
    names += (i == 0 ? "" : ", ") + missing[i];
  return no_host_weights{weight_fallback::missing_tensors,
                         "the checkpoint lacks " + std::to_string(missing.size()) +
                             " tensors of the model: " + names +
                             (missing.size() > named_tensors ? ", ..." : "")};
}

} // namespace

std::string_view to_string(host_weight_backing backing) noexcept {
  switch (backing) {
    case host_weight_backing::checkpoint_mmap:
      return "checkpoint_mmap";
    case host_weight_backing::host_weight_runtime:
      return "host_weight_runtime";
  }
  return "unknown";
}

std::string_view to_string(weight_fallback reason) noexcept {
  switch (reason) {
    case weight_fallback::tensor_parallel:
      return "tensor parallel";
    case weight_fallback::hsdp:
      return "hsdp";
    case weight_fallback::online_quantization:
      return "online quantization";
    case weight_fallback::int8_conv_rot:
      return "int8 conv rot";
    case weight_fallback::no_dedicated_source:
      return "no dedicated source";
    case weight_fallback::no_entries:
      return "no entries";
    case weight_fallback::missing_source:
      return "missing source";
    case weight_fallback::missing_tensors:
      return "missing tensors";
    case weight_fallback::duplicate_entry:
      return "duplicate entry";
    case weight_fallback::custom_loader:
      return "custom loader";
    case weight_fallback::metadata_mismatch:
      return "metadata mismatch";
  }
  return "unknown";
}

host_weight_planning plan_host_weights(const std::shared_ptr<const module_node>& root,
                                       std::span<const std::string> dits,
                                       std::span<const weight_source> sources,
                                       const weight_layout& layout) {
  if (auto against = check_layout(layout))
    return tl::unexpected(std::move(*against));
  for (const auto& dit : dits) {
    const auto own = sources_of(dit, sources);
    if (own.empty())
      return fall_back(weight_fallback::no_dedicated_source,
                       "'" + dit + "' has no dedicated source; expected one with the prefix '" +
                           dit + ".'");
    for (const auto* each : own)
      if (each->custom_loader && each->adapter == nullptr)
        return fall_back(weight_fallback::custom_loader,
                         "'" + dit +
                             "' has a weight loader of its own; expected an adapter that "
                             "says what it makes of each entry");
  }

  host_weight_plan plan;
  for (const auto& dit : dits) {
    entries from;
    for (const auto* each : sources_of(dit, sources))
      if (auto refused = from.add(*each))
        return tl::unexpected(std::move(*refused));
    const auto node = find_node(root, dit);
    if (node == nullptr)
      return fall_back(weight_fallback::missing_tensors, "the pipeline has no '" + dit + "'");
    wanted_tensors wanted;
    std::set<object_id> above;
    collect(dit, *node, above, wanted);
    if (auto refused = bind_all(wanted, from, plan))
      return tl::unexpected(std::move(*refused));
    plan.source_prefixes.push_back(dit + ".");
  }
  return plan;
}

} // namespace ferry
