// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/group_gate.hpp>
#include <ferry/torch/hooks.hpp>

#include <memory>

namespace ferry {

/// Has a group on the device during each call of one of its modules.
class group_hook final : public hook {
public:
  static constexpr const char* name = "sequential_offload";

  group_hook(group_id group, std::shared_ptr<group_gate> gate);

  void pre_forward(const hook_call& call, tensor_refs arguments) override;
  void post_forward(const hook_call& call, tensor_refs outputs) override;
  void abandon(const hook_call& call) noexcept override;

private:
  group_id group_;
  std::shared_ptr<group_gate> gate_;
};

} // namespace ferry
