// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/device.hpp"

#include "ferry/platform/error.hpp"

#include <string_view>

namespace ferry {

namespace {

[[noreturn]] void refuse(std::string_view operation, const device& of) {
  throw device_error(errc::unsupported, operation,
                     of.traits().name + " does not compute with pages where they are; copy them");
}

} // namespace

// Operations do not fail by themselves where it is not said otherwise.
void device::drain(event_id event, wait_edge edge) {
  synchronize(event, edge);
}

void device::drain(stream_id stream, wait_edge edge) {
  synchronize(stream, edge);
}

void device::populate(stream_id, const_bytes, operation_tag) {
  refuse("populate", *this);
}

void device::evict(stream_id, const_bytes, operation_tag) {
  refuse("evict", *this);
}

} // namespace ferry
