// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/event.hpp"

namespace ferry {

event::event(device& owner) : owner_(&owner), id_(owner.create_event()) {}

event::~event() {
  owner_->destroy_event(id_);
}

bool event::ready() const {
  return owner_->ready(id_);
}

void event::synchronize(wait_edge edge) const {
  owner_->synchronize(id_, edge);
}

void event::drain(wait_edge edge) const {
  owner_->drain(id_, edge);
}

} // namespace ferry
