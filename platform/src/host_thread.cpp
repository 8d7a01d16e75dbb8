// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/host_thread.hpp"

namespace ferry {

host_thread::host_thread(device& owner, std::string_view name)
    : owner_(&owner), id_(owner.create_host_thread(name)) {}

host_thread::~host_thread() {
  owner_->destroy_host_thread(id_);
}

host_thread::scope::scope(const host_thread& who) noexcept
    : owner_(who.owner_), before_(owner_->enter(who.id_)) {}

host_thread::scope::scope(const host_thread& who, const causal_stamp& received) : scope(who) {
  owner_->observe(received);
}

host_thread::scope::~scope() {
  owner_->enter(before_);
}

} // namespace ferry
