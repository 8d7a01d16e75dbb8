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

void device::populate(stream_id, const_bytes, operation_tag) {
  refuse("populate", *this);
}

void device::evict(stream_id, const_bytes, operation_tag) {
  refuse("evict", *this);
}

} // namespace ferry
