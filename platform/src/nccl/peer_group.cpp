// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl/peer_group.hpp"

#include <utility>

namespace ferry::nccl {
namespace {

using clock = std::chrono::steady_clock;

/// How often a rank asks whether another machine has failed.
constexpr auto look_every = std::chrono::milliseconds(100);

} // namespace

peer_group::peer_group(std::shared_ptr<exchange> here, std::shared_ptr<rendezvous> between_machines)
    : here_(std::move(here)), between_machines_(std::move(between_machines)) {}

std::optional<failure> peer_group::failed() const {
  here_->compare_plans();
  return here_->failed();
}

void peer_group::relay() {
  if (between_machines_ == nullptr)
    return;
  if (const auto cause = failed())
    return between_machines_->poison(*cause);
  if (clock::now() < next_look_)
    return;
  next_look_ = clock::now() + look_every;
  if (const auto cause = between_machines_->failed())
    fail(*cause);
}

} // namespace ferry::nccl
