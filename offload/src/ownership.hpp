// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/discovery.hpp>
#include <ferry/offload/plan.hpp>

#include "findings.hpp"
#include "subtree.hpp"

namespace ferry {

/// Rejects a block that two components claim, children included, or that one component claims
/// twice.
void check_ownership(const resolved_offload_plan& plan, findings& notes);

/// Rejects tensors inside selected components that their module does not know about: nothing would
/// move them.
void check_registration(const resolved_offload_plan& plan, findings& notes);

/// Objects to modules with tensors that have no role in a pipeline that declares nothing: they
/// would stay behind while their inputs arrive on the device.
void check_classification(const node_ptr& root, const discovered_components& found,
                          findings& notes);

} // namespace ferry
