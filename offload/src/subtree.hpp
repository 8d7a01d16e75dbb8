// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/module_tree.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

namespace ferry {

using node_ptr = std::shared_ptr<const module_node>;
using node_ids = std::unordered_set<object_id>;

/// Calls `visit(path, node)` for `node` and everything below it, parents first, each module once
/// and none of `visited`, which it extends.
void visit_subtree(const std::string& path, const node_ptr& node, node_ids& visited,
                   const std::function<void(const std::string&, const module_node&)>& visit);

/// Returns whether any tensor lies at or below `node`, leaving out the modules in `except`.
[[nodiscard]] bool holds_tensors(const node_ptr& node, const node_ids& except);

/// Returns the bytes of all parameters at and below `node`, each parameter once, leaving out the
/// modules in `except`. Works from shapes, so that tensors without memory count.
[[nodiscard]] std::size_t parameter_bytes(const node_ptr& node, const node_ids& except);

} // namespace ferry
