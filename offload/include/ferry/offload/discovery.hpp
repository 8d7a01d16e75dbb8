// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/module_tree.hpp>

#include <memory>
#include <string>
#include <vector>

namespace ferry {

class pipeline;

struct discovered_component {
  std::string path;
  std::shared_ptr<const module_node> node;
};

/// The components that a pipeline has here and now, by role. A module appears once in a role, under
/// the first name it was found by.
struct discovered_components {
  std::vector<discovered_component> dits;
  std::vector<discovered_component> encoders;
  std::vector<discovered_component> vaes;
  std::vector<discovered_component> residents;
  bool declared = false;             ///< False: found by well-known attribute names.
  std::vector<std::string> warnings; ///< One a declared path that leads nowhere.
};

/// Finds the components that `subject` declares; of a pipeline that declares none, those with
/// well-known names. Pure.
[[nodiscard]] discovered_components discover(const pipeline& subject);

/// Returns the DiTs that lie inside no other DiT, in order.
[[nodiscard]] std::vector<discovered_component> outermost_dits(const discovered_components& found);

} // namespace ferry
