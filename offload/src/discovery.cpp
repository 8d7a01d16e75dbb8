// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/discovery.hpp"

#include "ferry/offload/pipeline.hpp"
#include "subtree.hpp"

#include <algorithm>
#include <string_view>

namespace ferry {
namespace {

const component_roles& well_known_names() {
  static const component_roles names{.dits = {"transformer", "transformer_2", "dit", "sr_dit",
                                              "language_model", "transformer_blocks", "model"},
                                     .encoders = {"text_encoder", "text_encoder_2",
                                                  "text_encoder_3", "image_encoder",
                                                  "vision_encoder", "mllm"},
                                     .vaes = {"vae", "audio_vae", "sound_tokenizer"},
                                     .residents = {}};
  return names;
}

/// Where a dotted path leads, and why it leads nowhere.
struct walked {
  node_ptr node;
  attribute_kind last = attribute_kind::module;
};

walked walk(node_ptr here, std::string_view path) {
  while (true) {
    const auto dot = path.find('.');
    const auto name = path.substr(0, dot);
    if (const auto kind = here->attribute(name); kind != attribute_kind::module) {
      return {nullptr, kind};
    }
    here = find_node(here, name);
    if (here == nullptr || dot == std::string_view::npos) {
      return {here, here == nullptr ? attribute_kind::missing : attribute_kind::module};
    }
    path.remove_prefix(dot + 1);
  }
}

std::vector<discovered_component> find_role(const pipeline& subject,
                                            const std::vector<std::string>& paths,
                                            discovered_components& all) {
  std::vector<discovered_component> role;
  for (const auto& path : paths) {
    const auto [node, kind] = walk(subject.root(), path);
    if (node == nullptr) {
      if (all.declared || kind == attribute_kind::other) {
        all.warnings.push_back(path + " is " +
                               (kind == attribute_kind::other  ? "not a module"
                                : kind == attribute_kind::null ? "null"
                                                               : "missing") +
                               "; it is left out of the components of " +
                               std::string{subject.type_name()});
      }
      continue;
    }
    const auto known = std::ranges::any_of(
        role, [&](const auto& each) { return each.node->identity() == node->identity(); });
    if (!known) {
      role.push_back({path, node});
    }
  }
  return role;
}

bool contains(const node_ptr& outer, const node_ptr& inner) {
  node_ids visited;
  visit_subtree("", outer, visited, [](const std::string&, const module_node&) {});
  return outer->identity() != inner->identity() && visited.contains(inner->identity());
}

} // namespace

discovered_components discover(const pipeline& subject) {
  const auto declared = subject.declared_components();
  const auto& paths = declared ? *declared : well_known_names();
  discovered_components found;
  found.declared = declared.has_value();
  found.dits = find_role(subject, paths.dits, found);
  found.encoders = find_role(subject, paths.encoders, found);
  found.vaes = find_role(subject, paths.vaes, found);
  found.residents = find_role(subject, paths.residents, found);
  if (!found.declared && !(found.dits.empty() && found.encoders.empty() && found.vaes.empty())) {
    found.warnings.push_back(std::string{subject.type_name()} +
                             " does not declare its components; they were found by their names");
  }
  return found;
}

std::vector<discovered_component> outermost_dits(const discovered_components& found) {
  std::vector<discovered_component> outermost;
  for (const auto& dit : found.dits) {
    const auto inside = std::ranges::any_of(
        found.dits, [&dit](const auto& other) { return contains(other.node, dit.node); });
    if (!inside) {
      outermost.push_back(dit);
    }
  }
  return outermost;
}

} // namespace ferry
