// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/error.hpp"

#include <cstdio>
#include <cstdlib>

namespace ferry {

std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
      return "invalid_argument";
    case errc::invalid_type:
      return "invalid_type";
    case errc::invalid_config:
      return "invalid_config";
    case errc::invalid_pipeline:
      return "invalid_pipeline";
    case errc::invalid_checkpoint:
      return "invalid_checkpoint";
    case errc::unsupported:
      return "unsupported";
    case errc::not_found:
      return "not_found";
    case errc::out_of_device_memory:
      return "out_of_device_memory";
    case errc::out_of_host_memory:
      return "out_of_host_memory";
    case errc::device_failure:
      return "device_failure";
    case errc::device_poisoned:
      return "device_poisoned";
    case errc::stale_handle:
      return "stale_handle";
    case errc::slot_conflict:
      return "slot_conflict";
    case errc::not_resident:
      return "not_resident";
    case errc::transfer_aborted:
      return "transfer_aborted";
    case errc::cancelled:
      return "cancelled";
    case errc::already_enabled:
      return "already_enabled";
    case errc::not_enabled:
      return "not_enabled";
    case errc::busy:
      return "busy";
    case errc::deadline_exceeded:
      return "deadline_exceeded";
    case errc::incomplete:
      return "incomplete";
    case errc::io_failure:
      return "io_failure";
    case errc::internal:
      return "internal";
  }
  return "unknown";
}

std::string describe(const failure& f) {
  auto text = std::string(to_string(f.code)) + ": " + f.detail;
  if (!f.block.empty())
    text += " (block " + f.block + ")";
  if (f.rank)
    text += " (rank " + std::to_string(*f.rank) + ")";
  if (f.vendor_code)
    text += " (device runtime code " + std::to_string(*f.vendor_code) + ")";
  return text;
}

ferry_error::ferry_error(failure reason)
    : std::runtime_error(describe(reason)), reason_(std::move(reason)) {}

device_error::device_error(errc code, std::string_view operation, std::string_view reason,
                           std::optional<int> vendor_code)
    : ferry_error({.code = code,
                   .detail = std::string(operation) + ": " + std::string(reason),
                   .vendor_code = vendor_code}) {}

void assertion_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "ferry: %s:%d: broken invariant: %s\n", file, line, expression);
  std::abort();
}

} // namespace ferry
