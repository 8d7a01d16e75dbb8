// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "group_hook.hpp"

#include <utility>

namespace ferry {

group_hook::group_hook(group_id group, std::shared_ptr<group_gate> gate)
    : group_(group), gate_(std::move(gate)) {}

void group_hook::pre_forward(const hook_call&, tensor_refs) {
  gate_->enter(group_);
}

void group_hook::post_forward(const hook_call&, tensor_refs) {
  gate_->leave(group_);
}

void group_hook::abandon(const hook_call&) noexcept {
  gate_->leave(group_);
}

} // namespace ferry
