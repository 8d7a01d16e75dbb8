// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/transfer_plan.hpp"

#include <ferry/platform/memory.hpp>

#include "group_plan.hpp"
#include "storage_use.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace ferry {

namespace {

using node_set = std::unordered_set<object_id>;

/// Tensors that go together, before it is known which of them are shared.
struct unit {
  std::string path;
  std::vector<std::shared_ptr<const module_node>> nodes;
  std::size_t component = 0; ///< Whose resident unit takes what the unit shares with others.
  bool placed = true;
  std::vector<tensor_use> tensors;
};

struct stack_units {
  std::string path;
  component_name component = component_name::dit;
  std::vector<std::size_t> blocks; ///< Into `draft::blocks`.
};

struct draft {
  std::vector<unit> residents; ///< One for each component, then what is brought in on demand.
  std::vector<unit> blocks;
  std::vector<unit> groups;
  std::vector<group_draft> group_drafts; ///< Of each of `groups`; their layouts come last.
  std::vector<stack_units> stacks;
  node_set elsewhere; ///< Modules that a walk from above leaves to a unit of their own.
};

std::vector<const resolved_component*> components_of(const resolved_offload_plan& plan) {
  std::vector<const resolved_component*> all;
  for (const auto* role : {&plan.encoders, &plan.dits, &plan.vaes, &plan.residents})
    for (const auto& component : *role)
      all.push_back(&component);
  return all;
}

std::vector<const block_stack*> stacks_of(const resolved_component& component) {
  std::vector<const block_stack*> all;
  for (const auto& stack : component.stacks)
    all.push_back(&stack);
  for (const auto& child : component.children)
    for (const auto* stack : stacks_of(child))
      all.push_back(stack);
  return all;
}

std::string stack_path(const resolved_component& component, const block_stack& stack) {
  const auto& block = stack.blocks.front().path;
  const auto list = block.substr(0, block.rfind('.'));
  return list.starts_with(component.path) ? list : component.path + "." + list;
}

void add_children(const resolved_component& component, std::size_t index, draft& made) {
  for (const auto& child : component.children) {
    const auto node = child.node->identity();
    if (child.on_demand || !child.selected)
      made.elsewhere.insert(node);
    if (child.on_demand)
      made.residents.push_back({child.path, {child.node}, index, false, {}});
    add_children(child, index, made);
  }
}

void add_group(group_draft plan, std::size_t index, draft& made) {
  auto nodes = plan.resident ? decltype(plan.entries){} : plan.entries;
  made.groups.push_back({plan.path, std::move(nodes), index, true, {}});
  made.group_drafts.push_back(std::move(plan));
}

/// Makes one group of the resident blocks of a component's stacks.
void add_resident_blocks(const resolved_component& component, std::size_t index, draft& made) {
  group_draft plan{.path = component.path};
  for (const auto* stack : stacks_of(component))
    for (const auto& block : stack->blocks)
      if (block.resident && made.elsewhere.insert(block.node->identity()).second)
        plan.entries.push_back(block.node);
  if (!plan.entries.empty())
    add_group(std::move(plan), index, made);
}

void add_stacks(const resolved_component& component, std::size_t index, component_name name,
                draft& made) {
  const auto stacks = stacks_of(component);
  for (const auto* stack : stacks) {
    stack_units streamed{.path = {}, .component = name, .blocks = {}};
    for (const auto& block : stack->blocks) {
      const auto node = block.node->identity();
      if (block.resident || !made.elsewhere.insert(node).second)
        continue;
      streamed.blocks.push_back(made.blocks.size());
      made.blocks.push_back({block.path, {block.node}, index, true, {}});
    }
    if (streamed.blocks.empty())
      continue;
    streamed.path = stacks.size() == 1 ? component.path : stack_path(component, *stack);
    made.stacks.push_back(std::move(streamed));
  }
}

/// Collects the registered tensors at and under `node`.
void collect(const module_node& node, const node_set& elsewhere, node_set& visited,
             std::vector<tensor_use>& into) {
  if (!visited.insert(node.identity()).second)
    return;
  for (const auto& tensor : node.tensors())
    if (tensor.role != tensor_role::unregistered)
      into.push_back(use_of(tensor));
  for (const auto& [name, child] : node.children())
    if (child && !elsewhere.contains(child->identity()))
      collect(*child, elsewhere, visited, into);
}

draft gather(const resolved_offload_plan& resolved) {
  draft made;
  const auto components = components_of(resolved);
  const auto swaps = resolved.strategy == offload_strategy::model_level;
  const auto encoders = resolved.encoders.size();
  const auto sides = swaps ? encoders + resolved.dits.size() : 0;
  for (std::size_t i = 0; i < components.size(); ++i) {
    const auto& each = *components[i];
    const auto grouped = i < sides && each.selected;
    auto nodes = grouped ? decltype(unit::nodes){} : decltype(unit::nodes){each.node};
    made.residents.push_back({each.path, std::move(nodes), i, !each.on_demand, {}});
    if (i < sides)
      add_group({.path = each.path,
                 .entries = {each.node},
                 .side = i < encoders ? group_side::encoder : group_side::dit,
                 .computes = std::max<std::size_t>(each.blocks_inside, 1),
                 .resident = !each.selected},
                i, made);
  }
  for (std::size_t i = 0; i < components.size(); ++i) {
    add_resident_blocks(*components[i], i, made);
    add_stacks(*components[i], i, i < encoders ? component_name::text_encoder : component_name::dit,
               made);
    add_children(*components[i], i, made);
  }
  for (const auto* component : components)
    made.elsewhere.insert(component->node->identity());
  for (auto* units : {&made.residents, &made.blocks, &made.groups})
    for (auto& each : *units) {
      node_set visited;
      for (const auto& node : each.nodes)
        collect(*node, made.elsewhere, visited, each.tensors);
    }
  return made;
}

/// Uses of one storage that overlap.
struct overlap {
  static constexpr std::size_t none = ~std::size_t{0};

  std::size_t first_unit = none;
  std::size_t home = none; ///< The resident unit that takes the storage if it is shared.
  bool shared = false;
};

/// Returns the storages that more than one unit uses.
std::unordered_set<object_id> storages_of_several(const std::vector<unit*>& units) {
  std::size_t count = 0;
  for (const auto* each : units)
    count += each->tensors.size();
  std::vector<std::pair<object_id, std::size_t>> users;
  users.reserve(count);
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const auto& tensor : units[u]->tensors)
      if (tensor.begin != tensor.end)
        users.emplace_back(tensor.storage, u);
  std::ranges::sort(users);

  std::unordered_set<object_id> several;
  for (std::size_t i = 1; i < users.size(); ++i)
    if (users[i].first == users[i - 1].first && users[i].second != users[i - 1].second)
      several.insert(users[i].first);
  return several;
}

/// Moves what several units use to one resident unit.
void share_overlaps(draft& made) {
  std::vector<unit*> units;
  for (auto* role : {&made.residents, &made.blocks, &made.groups})
    for (auto& each : *role)
      units.push_back(&each);

  const auto several = storages_of_several(units);
  const auto may_be_shared = [&](const tensor_use& tensor) {
    return tensor.begin != tensor.end && several.contains(tensor.storage);
  };
  std::vector<storage_use> uses;
  std::vector<std::size_t> user; // Of each use, into `units`.
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const auto& tensor : units[u]->tensors)
      if (may_be_shared(tensor)) {
        uses.push_back({tensor.storage, tensor.begin, tensor.end});
        user.push_back(u);
      }
  const auto groups = overlap_groups(uses);

  std::vector<overlap> overlaps(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    auto& found = overlaps[groups[i]];
    const auto u = user[i];
    if (found.first_unit == overlap::none)
      found.first_unit = u;
    found.shared = found.shared || found.first_unit != u;
    if (found.home == overlap::none && units[u]->placed)
      found.home = u < made.residents.size() ? u : units[u]->component;
  }

  std::vector<std::vector<tensor_use>> kept(units.size());
  std::size_t use = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const auto own = std::exchange(units[u]->tensors, {});
    kept[u].reserve(own.size());
    for (const auto& tensor : own) {
      auto home = u;
      if (may_be_shared(tensor)) {
        const auto& found = overlaps[groups[use++]];
        if (found.shared && found.home != overlap::none)
          home = found.home;
      }
      if (units[u]->placed)
        kept[home].push_back(tensor);
    }
  }
  for (std::size_t u = 0; u < units.size(); ++u)
    units[u]->tensors = std::move(kept[u]);
}

} // namespace

transfer_plan plan_transfers(const resolved_offload_plan& resolved) {
  auto made = gather(resolved);
  share_overlaps(made);

  transfer_plan plan;
  for (const auto& stack : made.stacks) {
    planned_ring ring{stack.path, {}, stack.component};
    for (const auto index : stack.blocks) {
      const auto& block = made.blocks[index];
      auto layout = pack(block.tensors);
      if (layout.bytes == 0)
        continue;
      const block_id id{static_cast<std::uint32_t>(plan.blocks.size())};
      plan.slot_bytes = std::max(plan.slot_bytes, layout.bytes);
      plan.blocks.push_back({id, block.path, block.nodes.front()->identity(), std::move(layout)});
      ring.blocks.push_back(id);
    }
    if (!ring.blocks.empty())
      plan.rings.push_back(std::move(ring));
  }
  for (const auto& resident : made.residents) {
    auto layout = pack(resident.tensors);
    if (layout.bytes == 0)
      continue;
    plan.resident_bytes += layout.bytes;
    plan.residents.push_back({resident.path, std::move(layout)});
  }
  for (std::size_t i = 0; i < made.groups.size(); ++i)
    made.group_drafts[i].layout = pack(made.groups[i].tensors);
  plan.groups = plan_groups(std::move(made.group_drafts));
  plan.group_bytes = group_region(plan.groups);
  return plan;
}

} // namespace ferry
