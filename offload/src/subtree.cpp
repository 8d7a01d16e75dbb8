// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "subtree.hpp"

namespace ferry {
namespace {

std::size_t bytes_of(const tensor_info& tensor) {
  auto bytes = element_size(tensor.type);
  for (const auto extent : tensor.shape) {
    bytes *= static_cast<std::size_t>(extent);
  }
  return bytes;
}

} // namespace

void visit_subtree(const std::string& path, const node_ptr& node, node_ids& visited,
                   const std::function<void(const std::string&, const module_node&)>& visit) {
  if (node == nullptr || !visited.insert(node->identity()).second) {
    return;
  }
  visit(path, *node);
  for (const auto& [name, child] : node->children()) {
    visit_subtree(path.empty() ? name : path + "." + name, child, visited, visit);
  }
}

bool holds_tensors(const node_ptr& node, const node_ids& except) {
  auto found = false;
  auto visited = except;
  visit_subtree("", node, visited, [&found](const std::string&, const module_node& each) {
    found = found || each.holds(tensor_role::parameter) || each.holds(tensor_role::buffer) ||
            each.holds(tensor_role::unregistered);
  });
  return found;
}

std::size_t parameter_bytes(const node_ptr& node, const node_ids& except) {
  std::size_t total = 0;
  std::unordered_set<object_id> counted;
  auto visited = except;
  visit_subtree("", node, visited, [&](const std::string&, const module_node& each) {
    for (const auto& tensor : each.tensors()) {
      if (tensor.role == tensor_role::parameter && counted.insert(tensor.identity).second) {
        total += bytes_of(tensor);
      }
    }
  });
  return total;
}

} // namespace ferry
