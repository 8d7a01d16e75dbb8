// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/torch/torch_failure.hpp"

#include "storage_unit.hpp"

#include <c10/util/Exception.h>

#include <string>
#include <string_view>

namespace ferry {
namespace {

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

/// Returns the path in the message of a parked unit, empty for any other message.
std::string_view parked_path(std::string_view line) {
  const auto form = parked_message("*");
  const auto prefix = std::string_view(form).substr(0, form.find('*'));
  const auto suffix = std::string_view(form).substr(form.find('*') + 1);
  const auto end = line.find(suffix);
  if (!line.starts_with(prefix) || end == std::string_view::npos)
    return {};
  return line.substr(prefix.size(), end - prefix.size());
}

} // namespace

failure failure_of(const std::exception& error) {
  if (const auto* own = dynamic_cast<const ferry_error*>(&error))
    return own->reason();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {errc::out_of_host_memory, "host memory is exhausted"};
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (torch_error == nullptr)
    return {errc::internal, std::string(first_line(error.what()))};

  const auto line = first_line(torch_error->what_without_backtrace());
  if (const auto path = parked_path(line); !path.empty())
    return {.code = errc::not_resident,
            .detail = std::string(line) + ": it was used outside of a call",
            .block = std::string(path)};
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr)
    return {errc::out_of_device_memory, std::string(line)};
  if (dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr)
    return {errc::unsupported, std::string(line)};
  return {errc::internal, std::string(line)};
}

} // namespace ferry
