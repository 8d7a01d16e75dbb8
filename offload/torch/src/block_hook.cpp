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
  const auto bytes = gate_->acquire(id_);
  FERRY_ASSERT(bytes.size() >= unit_.layout().bytes);
  unit_.bind(bytes.data());
  running_ = true;
}

void block_hook::post_forward(const hook_call&, tensor_refs) {
  leave();
}

void block_hook::abandon(const hook_call&) noexcept {
  leave();
}

void block_hook::leave() {
  unit_.park();
  gate_->release(id_);
  running_ = false;
}

} // namespace ferry
