// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/module_tree.hpp"

#include <algorithm>

namespace ferry {

std::shared_ptr<const module_node> find_node(const std::shared_ptr<const module_node>& from,
                                             std::string_view path) {
  auto here = from;
  while (here != nullptr) {
    const auto dot = path.find('.');
    const auto name = path.substr(0, dot);
    const auto children = here->children();
    const auto found = std::find_if(children.begin(), children.end(),
                                    [name](const auto& each) { return each.first == name; });
    here = found == children.end() ? nullptr : found->second;
    if (dot == std::string_view::npos) {
      break;
    }
    path.remove_prefix(dot + 1);
  }
  return here;
}

} // namespace ferry
