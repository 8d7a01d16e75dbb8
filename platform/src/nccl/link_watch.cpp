// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl/link_watch.hpp"

#include "ferry/platform/log.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace ferry::nccl {
namespace {

using clock = std::chrono::steady_clock;

/// For collectives that others may still wait for.
constexpr auto patience_to_end = std::chrono::seconds(2);
/// For NCCL to abort.
constexpr auto patience_to_abort = std::chrono::seconds(5);

} // namespace

link_watch::link_watch(std::shared_ptr<rank_link> link)
    : link_(std::move(link)), thread_([shared = link_] { shared->watch(); }) {}

link_watch::~link_watch() {
  if (link_->forked()) {
    thread_.detach(); // It is the parent's, and so is all that it has.
    return;
  }
  link_->leave();
  if (!link_->await_finished(clock::now() + patience_to_end))
    link_->give_up();
  if (link_->await_finished(clock::now() + patience_to_abort) || !link_->abandon()) {
    thread_.join();
    return;
  }
  log(log_level::error, "ferry.platform",
      "give up on closing communicator rank=" + std::to_string(link_->rank()));
  thread_.detach();
}

} // namespace ferry::nccl
