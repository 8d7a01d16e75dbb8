// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/block_gate.hpp>
#include <ferry/torch/hooks.hpp>

#include <memory>

namespace ferry {

class storage_unit;

/// Brings one block's weights in around each of its calls, or once around several.
class block_hook final : public hook {
public:
  static constexpr const char* name = "layerwise_offload";

  block_hook(block_id id, storage_unit& unit, std::shared_ptr<block_gate> gate);

  /// @throws ferry_error `slot_conflict` if the block is running already
  void pre_forward(const hook_call& call, tensor_refs arguments) override;
  void post_forward(const hook_call& call, tensor_refs outputs) override;
  void abandon(const hook_call& call) noexcept override;

  /// @throws ferry_error `slot_conflict` if the block is held already
  void hold(const torch::nn::Module& module) override;
  void let_go(const torch::nn::Module& module) noexcept override;

private:
  void bring_in();
  void leave();

  block_id id_;
  storage_unit& unit_;
  std::shared_ptr<block_gate> gate_;
  bool running_ = false;
  bool held_ = false;
  bool used_ = false; ///< By a call since it came.
};

} // namespace ferry
