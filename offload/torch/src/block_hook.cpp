// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "block_hook.hpp"

#include <ferry/platform/error.hpp>

#include "storage_unit.hpp"

#include <string>
#include <utility>

namespace ferry {

block_hook::block_hook(block_id id, storage_unit& unit, std::shared_ptr<block_gate> gate)
    : id_(id), unit_(unit), gate_(std::move(gate)) {}

void block_hook::pre_forward(const hook_call& call, tensor_refs) {
  if (running_)
    throw ferry_error({.code = errc::slot_conflict,
                       .detail = "block '" + unit_.path() + "' is called ('" +
                                 std::string(call.method) +
                                 "') while it runs: call what it needs of itself directly",
                       .block = unit_.path()});
  if (!held_)
    bring_in();
  else if (used_)
    gate_->again(id_);
  used_ = true;
  running_ = true;
}

void block_hook::post_forward(const hook_call&, tensor_refs) {
  running_ = false;
  if (!held_)
    leave();
}

void block_hook::abandon(const hook_call& call) noexcept {
  post_forward(call, {});
}

void block_hook::hold(const torch::nn::Module&) {
  if (held_ || running_)
    throw ferry_error({.code = errc::slot_conflict,
                       .detail = "block '" + unit_.path() + "' is held while it is " +
                                 (running_ ? "running" : "held already") +
                                 ": hold it around all calls that are to share its weights",
                       .block = unit_.path()});
  bring_in();
  held_ = true;
}

void block_hook::let_go(const torch::nn::Module&) noexcept {
  held_ = false;
  leave();
}

void block_hook::bring_in() {
  const auto bytes = gate_->acquire(id_);
  FERRY_ASSERT(bytes.empty() || bytes.size() >= unit_.layout().bytes);
  if (bytes.empty())
    unit_.bind_originals();
  else
    unit_.bind(bytes.data());
  used_ = false;
}

void block_hook::leave() {
  unit_.park();
  gate_->release(id_);
}

} // namespace ferry
