// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "blocks.hpp"

#include <utility>

namespace ferry {
namespace {

/// The containers of a DiT's blocks, and who named them.
struct block_source {
  std::vector<std::string> attributes;
  std::string name;
};

block_source source_of(const discovered_component& dit, const offload_plan& plan, findings& notes) {
  if (const auto planned = plan.block_attrs.find(dit.path);
      planned != plan.block_attrs.end() && !planned->second.empty()) {
    return {planned->second, "block_attrs of the offload plan"};
  }
  const auto declared = dit.node->declared_blocks();
  if (!declared) {
    return {};
  }
  const auto type = std::string{dit.node->type_name()};
  if (declared->deprecated_spelling) {
    notes.warn(type + " declares its blocks in a deprecated way; use a list of attributes");
  }
  return {declared->attributes, "the block declaration of " + type};
}

void append(std::vector<stack_block>& to, std::vector<stack_block> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Appends the blocks behind one attribute. Returns false if the attribute does not exist.
bool append_attribute(const discovered_component& dit, const std::string& attribute,
                      const std::string& source, block_stack& stack, findings& notes) {
  const auto path = dit.path + "." + attribute;
  const auto kind = dit.node->attribute(attribute);
  if (kind == attribute_kind::missing) {
    notes.reject(errc::not_found, dit.path,
                 dit.path + " has no attribute " + attribute + ", which " + source +
                     " names; expected a list of blocks");
    return false;
  }
  const auto node = kind == attribute_kind::module ? find_node(dit.node, attribute) : nullptr;
  if (node == nullptr) {
    notes.warn(path + " is no module; it is left out of the blocks");
  } else if (node->is_list()) {
    append(stack.blocks, blocks_of(path, node));
  } else {
    notes.warn(path + " is one module and no list; it is taken as one block");
    stack.blocks.push_back({path, node});
  }
  return true;
}

} // namespace

std::vector<stack_block> blocks_of(const std::string& path, const node_ptr& list) {
  std::vector<stack_block> blocks;
  for (const auto& [name, child] : list->children()) {
    if (child != nullptr && holds_tensors(child, {})) {
      blocks.push_back({path + "." + name, child});
    }
  }
  return blocks;
}

bool is_streamable(const node_ptr& node) {
  return node != nullptr && node->is_list() && blocks_of("", node).size() > 1;
}

block_stack find_dit_blocks(const discovered_component& dit, const offload_plan& plan,
                            findings& notes) {
  const auto source = source_of(dit, plan, notes);
  block_stack stack;
  stack.attrs = source.attributes;
  auto complete = true;
  for (const auto& attribute : source.attributes) {
    complete = append_attribute(dit, attribute, source.name, stack, notes) && complete;
  }
  if (!complete) {
    return {};
  }
  if (stack.blocks.empty()) {
    const auto why = source.attributes.empty()
                         ? "nothing declares them; name their attributes in block_attrs"
                         : source.name + " leads to none";
    notes.object(dit.path, dit.path + " has no blocks to stream: " + why,
                 "it goes to the device whole");
  }
  return stack;
}

std::vector<block_stack> find_encoder_stacks(const discovered_component& encoder,
                                             const offload_plan& plan, bool strict,
                                             findings& notes) {
  const auto planned = plan.encoder_block_attrs.find(encoder.path);
  if (planned == plan.encoder_block_attrs.end() || encoder.node->is_loaded() == false) {
    return {};
  }
  std::vector<block_stack> stacks;
  for (const auto& below : planned->second) {
    const auto path = encoder.path + "." + below;
    const auto node = find_node(encoder.node, below);
    if (is_streamable(node)) {
      stacks.push_back({.attrs = {}, .blocks = blocks_of(path, node)});
      continue;
    }
    const auto why = node == nullptr
                         ? path + " is not found; encoder_block_attrs names it"
                         : path + " is not a streamable list; expected a list of at least 2 blocks";
    if (strict) {
      notes.reject(node == nullptr ? errc::not_found : errc::invalid_pipeline, encoder.path, why);
    } else {
      notes.warn(why + "; it is not streamed");
    }
  }
  return stacks;
}

} // namespace ferry
