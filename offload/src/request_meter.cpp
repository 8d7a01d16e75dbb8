// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/request_meter.hpp"

namespace ferry {
namespace {

void add(overlap_summary& to, const overlap_summary& more) {
  to.blocks += more.blocks;
  to.compute += more.compute;
  to.transfer += more.transfer;
  to.gather += more.gather;
  to.exposed_wait += more.exposed_wait;
  to.transfer_beside += more.transfer_beside;
  to.gather_beside += more.gather_beside;
}

} // namespace

void request_meter::on_operation(const operation_span& span) {
  const std::lock_guard lock{mutex_};
  if (open_)
    open_->add(span);
}

void request_meter::begin() {
  const std::lock_guard lock{mutex_};
  if (open_ && ended_) {
    ++closed_.requests;
    closed_.last = open_->summary();
    add(closed_.all, *closed_.last);
  }
  open_.emplace();
  ended_ = false;
}

void request_meter::end() {
  const std::lock_guard lock{mutex_};
  ended_ = open_.has_value();
}

request_sums request_meter::sums() const {
  const std::lock_guard lock{mutex_};
  auto now = closed_;
  if (open_ && ended_) {
    ++now.requests;
    now.last = open_->summary();
    add(now.all, *now.last);
  }
  return now;
}

} // namespace ferry
