// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/module_tree.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ferry {

/// The components of a pipeline by role, as dotted paths in declaration order.
struct component_roles {
  std::vector<std::string> dits = {};
  std::vector<std::string> encoders = {};
  std::vector<std::string> vaes = {};
  std::vector<std::string> residents = {};
};

/// What a pipeline's author declares about offloading it. Only the resolver reads it.
struct offload_plan {
  /// DiT path to its block containers, in execution order. Several containers form one ring.
  std::map<std::string, std::vector<std::string>> block_attrs = {};
  /// Encoder path to dotted paths of its block lists; one ring each.
  std::map<std::string, std::vector<std::string>> encoder_block_attrs = {};
  /// Encoder path to its public category, of which there is one: "text_encoder".
  std::map<std::string, std::string> encoder_component_types = {};
  /// Encoders whose loaded weights are the same bytes on all ranks.
  std::set<std::string> encoder_dlo_weight_replication = {};
  /// Direct child of a DiT to the block container inside that child.
  std::map<std::string, std::string> offload_submodules = {};
  /// Components whose residency the pipeline manages itself.
  std::set<std::string> on_demand_component_paths = {};
  /// DiTs that may keep resident blocks.
  std::set<std::string> resident_dit_paths = {};
};

/// One block with the path it was found under.
struct stack_block {
  std::string path = {};
  std::shared_ptr<const module_node> node = {};
  bool resident = false; ///< Moved with others as a group, not streamed.
};

/// An ordered list of blocks that are streamed together.
struct block_stack {
  std::vector<std::string> attrs = {}; ///< The containers of a DiT's stack; empty for encoders.
  std::vector<stack_block> blocks = {};

  [[nodiscard]] std::size_t residents() const noexcept;
};

struct resolved_component {
  std::string path = {};
  std::shared_ptr<const module_node> node = {};
  bool selected = false;
  bool on_demand = false;
  std::vector<block_stack> stacks = {};
  std::vector<resolved_component> children = {};
  std::size_t blocks_inside = 0; ///< Of a DiT that is moved as a whole; they are no stack then.
};

/// What the resolver found; all that a backend reads. Immutable.
struct resolved_offload_plan {
  offload_strategy strategy = offload_strategy::none;
  std::vector<resolved_component> dits = {};
  std::vector<resolved_component> encoders = {};
  std::vector<resolved_component> vaes = {};
  std::vector<resolved_component> residents = {};
  std::optional<std::string> skip_reason; ///< Set: enabling is a no-op, for this reason.
  std::vector<std::string> warnings = {}; ///< What was found odd but usable, in order.
};

} // namespace ferry
