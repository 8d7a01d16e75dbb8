// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ownership.hpp"

#include <unordered_map>

namespace ferry {
namespace {

template <class Visit>
void each_component(const resolved_offload_plan& plan, const Visit& visit) {
  for (const auto* role : {&plan.dits, &plan.encoders, &plan.vaes, &plan.residents}) {
    for (const auto& component : *role) {
      visit(component);
    }
  }
}

struct claim {
  std::string component;
  std::string block;
};

void claim_blocks(const resolved_component& component, std::unordered_map<object_id, claim>& claims,
                  findings& notes) {
  for (const auto& stack : component.stacks) {
    for (const auto& block : stack.blocks) {
      const auto [earlier, fresh] =
          claims.try_emplace(block.node->identity(), claim{component.path, block.path});
      if (fresh) {
        continue;
      }
      const auto& [owner, path] = earlier->second;
      notes.reject(component.path, owner == component.path
                                       ? component.path + " streams one block twice, as " + path +
                                             " and " + block.path + "; expected every block once"
                                       : block.path + " of " + component.path + " is also " + path +
                                             " of " + owner +
                                             "; expected one owner for every block");
    }
  }
  for (const auto& child : component.children) {
    claim_blocks(child, claims, notes);
  }
}

} // namespace

void check_ownership(const resolved_offload_plan& plan, findings& notes) {
  std::unordered_map<object_id, claim> claims;
  each_component(
      plan, [&](const resolved_component& component) { claim_blocks(component, claims, notes); });
}

void check_registration(const resolved_offload_plan& plan, findings& notes) {
  node_ids visited;
  each_component(plan, [&](const resolved_component& component) {
    if (!component.selected) {
      return;
    }
    visit_subtree(component.path, component.node, visited,
                  [&](const std::string& path, const module_node& node) {
                    if (!node.holds(tensor_role::unregistered)) {
                      return;
                    }
                    for (const auto& tensor : node.tensors()) {
                      if (tensor.role == tensor_role::unregistered) {
                        notes.reject(component.path,
                                     path + "." + tensor.name +
                                         " is a tensor that its module does not register; expected "
                                         "a parameter or a buffer (not persistent if checkpoints "
                                         "lack it)");
                      }
                    }
                  });
  });
}

void check_classification(const node_ptr& root, const discovered_components& found,
                          findings& notes) {
  if (found.declared) {
    return;
  }
  node_ids classified;
  for (const auto* role : {&found.dits, &found.encoders, &found.vaes}) {
    for (const auto& component : *role) {
      visit_subtree("", component.node, classified, [](const std::string&, const module_node&) {});
    }
  }
  std::string unclassified;
  for (const auto& [name, child] : root->children()) {
    if (holds_tensors(child, classified)) {
      unclassified += (unclassified.empty() ? "" : ", ") + name;
    }
  }
  if (!unclassified.empty()) {
    notes.object(unclassified,
                 "the role of " + unclassified +
                     " is unknown; expected the pipeline to declare its components",
                 "left where they are");
  }
}

} // namespace ferry
