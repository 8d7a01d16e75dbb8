// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/stream.hpp"

#include "ferry/platform/error.hpp"

namespace ferry {

stream::stream(device& owner, std::string_view name)
    : owner_(&owner), id_(owner.create_stream(name)) {}

stream::~stream() {
  owner_->destroy_stream(id_);
}

void stream::copy(const copy_operation& operation) {
  owner_->copy(id_, operation);
}

void stream::populate(const_bytes pages, operation_tag tag) {
  owner_->populate(id_, pages, tag);
}

void stream::evict(const_bytes pages, operation_tag tag) {
  owner_->evict(id_, pages, tag);
}

void stream::compute(const compute_operation& operation) {
  owner_->compute(id_, operation);
}

void stream::discard(mutable_bytes range, operation_tag tag) {
  owner_->discard(id_, range, tag);
}

void stream::mark(operation_tag tag) {
  owner_->mark(id_, tag);
}

void stream::record(event& e) {
  owner_->record(id_, e.id());
}

void stream::wait(const event& e, wait_edge edge) {
  owner_->wait(id_, e.id(), edge);
}

void stream::synchronize(wait_edge edge) {
  owner_->synchronize(id_, edge);
}

void stream::drain(wait_edge edge) {
  owner_->drain(id_, edge);
}

void stream::settle() {
  owner_->settle(id_);
}

} // namespace ferry
