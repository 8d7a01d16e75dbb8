// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/component_states.hpp"

#include <ferry/offload/packing.hpp>

#include <algorithm>
#include <set>

namespace ferry {
namespace {

/// What the plan moves, by module and by component.
struct moved_bytes {
  std::map<object_id, const packed_layout*> blocks;
  std::map<std::string, std::size_t> residents;
  std::map<std::string, std::size_t> groups;
};

std::size_t bytes_of(const packed_layout& layout) {
  std::size_t bytes = 0;
  for (const auto& each : layout.storages)
    bytes += each.bytes;
  return bytes;
}

void gather(const module_node& from, std::set<object_id>& seen, std::vector<tensor_info>& tensors) {
  if (!seen.insert(from.identity()).second)
    return;
  for (auto& each : from.tensors())
    tensors.push_back(std::move(each));
  for (const auto& [name, below] : from.children())
    gather(*below, seen, tensors);
}

std::size_t bytes_of(const module_node& node) {
  std::set<object_id> seen;
  std::vector<tensor_info> tensors;
  gather(node, seen, tensors);
  return bytes_of(pack(tensors));
}

component_state add(const resolved_component& component, const moved_bytes& moved,
                    std::map<std::string, component_state>& states) {
  component_state state{.selected = component.selected, .on_demand = component.on_demand};
  for (const auto& stack : component.stacks)
    for (const auto& block : stack.blocks) {
      ++state.blocks;
      const auto found = moved.blocks.find(block.node->identity());
      if (found == moved.blocks.end()) {
        ++state.resident_blocks;
        continue;
      }
      state.bytes += bytes_of(*found->second);
      state.streamed_bytes += found->second->bytes;
      state.largest_block_bytes = std::max(state.largest_block_bytes, found->second->bytes);
    }
  if (const auto resident = moved.residents.find(component.path); resident != moved.residents.end())
    state.bytes += resident->second;
  if (const auto group = moved.groups.find(component.path); group != moved.groups.end())
    state.bytes += group->second;
  for (const auto& child : component.children)
    if (const auto below = add(child, moved, states); child.selected)
      state.bytes += below.bytes;
  // The plan does not tell what a component brings in by itself.
  if (component.on_demand)
    state.bytes = bytes_of(*component.node);
  states.emplace(component.path, state);
  return state;
}

component_units add(const resolved_component& component, const transfer_plan& transfers,
                    const std::map<object_id, std::size_t>& blocks,
                    std::map<std::string, component_units>& units) {
  component_units own;
  for (const auto& stack : component.stacks)
    for (const auto& block : stack.blocks)
      if (const auto found = blocks.find(block.node->identity()); found != blocks.end())
        own.blocks.push_back(found->second);
  for (std::size_t i = 0; i != transfers.residents.size(); ++i)
    if (transfers.residents[i].path == component.path)
      own.residents.push_back(i);
  for (std::size_t i = 0; i != transfers.groups.size(); ++i)
    if (transfers.groups[i].path == component.path && transfers.groups[i].layout.bytes != 0)
      own.groups.push_back(i);
  for (const auto& child : component.children)
    if (const auto below = add(child, transfers, blocks, units); child.selected)
      own.blocks.insert(own.blocks.end(), below.blocks.begin(), below.blocks.end());
  units.emplace(component.path, own);
  return own;
}

} // namespace

std::map<std::string, component_state> component_states(const resolved_offload_plan& resolved,
                                                        const transfer_plan& transfers) {
  moved_bytes moved;
  for (const auto& each : transfers.blocks)
    moved.blocks.emplace(each.node, &each.layout);
  for (const auto& each : transfers.residents)
    moved.residents[each.path] += bytes_of(each.layout);
  for (const auto& each : transfers.groups)
    moved.groups[each.path] += bytes_of(each.layout);
  std::map<std::string, component_state> states;
  for (const auto* group :
       {&resolved.dits, &resolved.encoders, &resolved.vaes, &resolved.residents})
    for (const auto& component : *group)
      add(component, moved, states);
  return states;
}

std::map<std::string, component_units> units_of_components(const resolved_offload_plan& resolved,
                                                           const transfer_plan& transfers) {
  std::map<object_id, std::size_t> blocks;
  for (std::size_t i = 0; i != transfers.blocks.size(); ++i)
    blocks.emplace(transfers.blocks[i].node, i);
  std::map<std::string, component_units> units;
  for (const auto* group :
       {&resolved.dits, &resolved.encoders, &resolved.vaes, &resolved.residents})
    for (const auto& component : *group)
      add(component, transfers, blocks, units);
  return units;
}

} // namespace ferry
