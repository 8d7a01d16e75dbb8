// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "blocks.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

namespace ferry {
namespace {

/// A child with more parameter bytes than this is not left on the device unasked.
constexpr auto largest_resident_child = std::size_t{1024} << 20;

constexpr std::string_view usual_containers[]{"layers", "blocks", "h", "model.layers"};

node_ids ids_of(const discovered_component& dit, const block_stack& stack) {
  node_ids ids;
  for (const auto& block : stack.blocks) {
    ids.insert(block.node->identity());
  }
  for (const auto& attribute : stack.attrs) {
    if (const auto container = find_node(dit.node, attribute)) {
      ids.insert(container->identity());
    }
  }
  return ids;
}

bool is_dit(const node_ptr& node, const discovered_components& found) {
  return std::ranges::any_of(
      found.dits, [&node](const auto& each) { return each.node->identity() == node->identity(); });
}

std::optional<block_stack> declared_stack(const discovered_component& child,
                                          const std::string& container, findings& notes) {
  const auto node = find_node(child.node, container);
  const auto path = child.path + "." + container;
  if (!is_streamable(node)) {
    notes.warn(path + ", which offload_submodules names, is not a streamable list; expected a "
                      "list of at least 2 blocks");
    return std::nullopt;
  }
  return block_stack{.attrs = {container}, .blocks = blocks_of(path, node)};
}

std::optional<block_stack> usual_stack(const discovered_component& child, const node_ids& streamed,
                                       findings& notes) {
  for (const auto container : usual_containers) {
    const auto node = find_node(child.node, container);
    if (is_streamable(node) && !streamed.contains(node->identity())) {
      const auto name = std::string{container};
      notes.warn("the blocks of a large " + std::string{child.node->type_name()} +
                 " were found under its attribute " + name +
                 "; declare them in offload_submodules");
      return block_stack{.attrs = {name}, .blocks = blocks_of(child.path + "." + name, node)};
    }
  }
  return std::nullopt;
}

} // namespace

std::vector<resolved_component> find_submodules(const discovered_component& dit,
                                                const block_stack& stack, const offload_plan& plan,
                                                const discovered_components& found,
                                                findings& notes) {
  const auto streamed = ids_of(dit, stack);
  std::vector<resolved_component> submodules;
  for (const auto& [name, node] : dit.node->children()) {
    if (node == nullptr || streamed.contains(node->identity())) {
      continue;
    }
    const discovered_component child{dit.path + "." + name, node};
    if (is_dit(node, found)) {
      submodules.push_back({.path = child.path, .node = node});
      continue;
    }
    const auto declared = plan.offload_submodules.find(name);
    const auto is_declared = declared != plan.offload_submodules.end();
    if (!is_declared && parameter_bytes(node, streamed) <= largest_resident_child) {
      continue;
    }
    auto nested = is_declared ? declared_stack(child, declared->second, notes)
                              : usual_stack(child, streamed, notes);
    const auto staging = node->staging();
    if (!nested && !(staging.load_to_device && staging.offload_to_cpu)) {
      notes.reject(child.path,
                   child.path +
                       " has neither blocks to stream nor load_to_device and "
                       "offload_to_cpu; expected one of them for a child that is " +
                       (is_declared ? "declared in offload_submodules" : "larger than 1024 MiB"));
      continue;
    }
    resolved_component resolved{
        .path = child.path, .node = node, .selected = true, .on_demand = !nested.has_value()};
    if (nested) {
      resolved.stacks.push_back(std::move(*nested));
    }
    submodules.push_back(std::move(resolved));
  }
  return submodules;
}

} // namespace ferry
