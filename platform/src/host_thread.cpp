// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/host_thread.hpp"

#include "ferry/platform/work_clock.hpp"

namespace ferry {
namespace {

void note(device& owner) noexcept {
  if (auto* const clock = work_clock::current())
    clock->note(owner.now());
}

} // namespace

host_thread::host_thread(device& owner, std::string_view name)
    : owner_(&owner), id_(owner.create_host_thread(name)) {}

host_thread::~host_thread() {
  owner_->destroy_host_thread(id_);
}

host_thread::scope::scope(const host_thread& who) noexcept
    : owner_(who.owner_), before_(owner_->enter(who.id_)) {
  note(*owner_);
}

host_thread::scope::scope(const host_thread& who, const causal_stamp& received) : scope(who) {
  owner_->observe(received);
  if (auto* const clock = work_clock::current())
    clock->correct(owner_->now());
}

host_thread::scope::~scope() {
  note(*owner_);
  owner_->enter(before_);
}

} // namespace ferry
