// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/failing_device.hpp"

#include <ferry/platform/error.hpp>

#include <string>

namespace ferry::test {

void failing_device::enter_call(std::string_view operation) {
  const auto number = calls_.fetch_add(1);
  if (number == failing_)
    throw device_error(errc::device_failure, operation,
                       "injected failure of call " + std::to_string(number));
}

bool failing_device::cancel_failure() noexcept {
  return failing_.exchange(never) < calls_;
}

mutable_bytes failing_device::allocate(memory_kind kind, std::size_t bytes) {
  enter_call("allocate");
  return inner_->allocate(kind, bytes);
}

void failing_device::release(memory_kind kind, mutable_bytes block) noexcept {
  inner_->release(kind, block);
}

void failing_device::register_pages(const_bytes pages) {
  enter_call("register_pages");
  inner_->register_pages(pages);
}

void failing_device::unregister_pages(const_bytes pages) {
  enter_call("unregister_pages");
  inner_->unregister_pages(pages);
}

bool failing_device::pages_registered(const_bytes range) {
  enter_call("pages_registered");
  return inner_->pages_registered(range);
}

stream_id failing_device::create_stream(std::string_view name) {
  enter_call("create_stream");
  return inner_->create_stream(name);
}

event_id failing_device::create_event() {
  enter_call("create_event");
  return inner_->create_event();
}

void failing_device::copy(stream_id stream, const copy_operation& operation) {
  enter_call("copy");
  inner_->copy(stream, operation);
}

void failing_device::populate(stream_id stream, const_bytes pages, operation_tag tag) {
  enter_call("populate");
  inner_->populate(stream, pages, tag);
}

void failing_device::evict(stream_id stream, const_bytes pages, operation_tag tag) {
  enter_call("evict");
  inner_->evict(stream, pages, tag);
}

void failing_device::compute(stream_id stream, const compute_operation& operation) {
  enter_call("compute");
  inner_->compute(stream, operation);
}

void failing_device::discard(stream_id stream, mutable_bytes range, operation_tag tag) {
  inner_->discard(stream, range, tag);
}

void failing_device::record(stream_id stream, event_id event) {
  enter_call("record");
  inner_->record(stream, event);
}

void failing_device::wait(stream_id stream, event_id event, wait_edge edge) {
  enter_call("wait");
  inner_->wait(stream, event, edge);
}

bool failing_device::ready(event_id event) {
  enter_call("ready");
  return inner_->ready(event);
}

void failing_device::synchronize(event_id event, wait_edge edge) {
  enter_call("synchronize");
  inner_->synchronize(event, edge);
}

void failing_device::synchronize(stream_id stream, wait_edge edge) {
  enter_call("synchronize");
  inner_->synchronize(stream, edge);
}

void failing_device::drain(event_id event, wait_edge edge) {
  enter_call("drain");
  inner_->drain(event, edge);
}

void failing_device::drain(stream_id stream, wait_edge edge) {
  enter_call("drain");
  inner_->drain(stream, edge);
}

void failing_device::host_write(mutable_bytes range, operation_tag tag) {
  inner_->host_write(range, tag);
}

host_thread_id failing_device::create_host_thread(std::string_view name) {
  return inner_->create_host_thread(name);
}

void failing_device::destroy_host_thread(host_thread_id thread) noexcept {
  inner_->destroy_host_thread(thread);
}

} // namespace ferry::test
