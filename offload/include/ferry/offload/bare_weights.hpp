// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_master.hpp>
#include <ferry/offload/transfer_plan.hpp>

#include <memory>
#include <vector>

namespace ferry {

/// Weights without modules: the plan, and where the bytes of each unit are. For whoever has bytes
/// to stream but no pipeline, such as a benchmark.
struct bare_weights {
  transfer_plan plan;
  std::vector<std::shared_ptr<const host_master>> blocks;    ///< By `block_id`.
  std::vector<std::shared_ptr<const host_master>> residents; ///< As `plan.residents`.
};

} // namespace ferry
