// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/discovery.hpp>
#include <ferry/offload/plan.hpp>

#include "findings.hpp"
#include "subtree.hpp"

#include <string>
#include <vector>

namespace ferry {

/// Returns the blocks of the list `list`, which was found under `path`. Elements without any tensor
/// are stand-ins for blocks that run on another rank; they are left out.
[[nodiscard]] std::vector<stack_block> blocks_of(const std::string& path, const node_ptr& list);

/// Returns whether `node` is a list that can be streamed: two blocks or more.
[[nodiscard]] bool is_streamable(const node_ptr& node);

/// Finds the blocks of a selected DiT where its plan or its class says they are. The stack is empty
/// if there are none, which `notes` then explains.
[[nodiscard]] block_stack find_dit_blocks(const discovered_component& dit, const offload_plan& plan,
                                          findings& notes);

/// Finds one stack for each block list that the plan declares for `encoder`. Lists that cannot be
/// streamed are rejected if `strict`, otherwise left out with a warning.
[[nodiscard]] std::vector<block_stack> find_encoder_stacks(const discovered_component& encoder,
                                                           const offload_plan& plan, bool strict,
                                                           findings& notes);

/// Finds what else of a distributed DiT has to be brought in and out: direct children that are
/// declared, or too large to stay on the device, or denoisers themselves.
[[nodiscard]] std::vector<resolved_component>
find_submodules(const discovered_component& dit, const block_stack& stack, const offload_plan& plan,
                const discovered_components& found, findings& notes);

} // namespace ferry
