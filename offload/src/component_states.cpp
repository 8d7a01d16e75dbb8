// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/component_states.hpp"

#include <ferry/offload/packing.hpp>

#include <algorithm>
#include <set>

namespace ferry {
namespace {

using layouts = std::map<object_id, const packed_layout*>;

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
  std::size_t bytes = 0;
  for (const auto& each : pack(tensors).storages)
    bytes += each.bytes;
  return bytes;
}

void add(const resolved_component& component, const layouts& streamed,
         std::map<std::string, component_state>& states) {
  component_state state{.bytes = bytes_of(*component.node),
                        .selected = component.selected,
                        .on_demand = component.on_demand};
  for (const auto& stack : component.stacks)
    for (const auto& block : stack.blocks) {
      ++state.blocks;
      const auto found = streamed.find(block.node->identity());
      if (found == streamed.end()) {
        ++state.resident_blocks;
        continue;
      }
      state.streamed_bytes += found->second->bytes;
      state.largest_block_bytes = std::max(state.largest_block_bytes, found->second->bytes);
    }
  states.emplace(component.path, state);
  for (const auto& child : component.children)
    add(child, streamed, states);
}

} // namespace

std::map<std::string, component_state> component_states(const resolved_offload_plan& resolved,
                                                        const transfer_plan& transfers) {
  layouts streamed;
  for (const auto& each : transfers.blocks)
    streamed.emplace(each.node, &each.layout);
  std::map<std::string, component_state> states;
  for (const auto* group :
       {&resolved.dits, &resolved.encoders, &resolved.vaes, &resolved.residents})
    for (const auto& component : *group)
      add(component, streamed, states);
  return states;
}

} // namespace ferry
