// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "copy_checks.hpp"

#include "ferry/platform/conversion.hpp"
#include "ferry/platform/error.hpp"

#include <string>

namespace ferry {

void require_copyable(const copy_operation& operation, const device_traits& traits) {
  const auto how = operation.convert;
  const auto source = operation.source.size();
  if (how != conversion::none && !traits.converts)
    throw device_error(errc::unsupported, "copy",
                       "copies of " + traits.name + " do not convert " +
                           std::string(to_string(how)));
  if (source % source_element(how) == 0 && operation.target.size() == converted_bytes(how, source))
    return;
  throw device_error(errc::invalid_argument, "copy",
                     "target has " + std::to_string(operation.target.size()) +
                         " bytes, source has " + std::to_string(source) +
                         (how == conversion::none
                              ? std::string()
                              : " that go from " + std::string(to_string(how))));
}

} // namespace ferry
