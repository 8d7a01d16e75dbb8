// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "exit_code.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

namespace ferry {

exit_code exit_code_of(const failure& reason) noexcept {
  switch (reason.code) {
    case errc::invalid_argument:
    case errc::invalid_type:
    case errc::invalid_config:
    case errc::invalid_pipeline:
    case errc::invalid_checkpoint:
    case errc::unsupported:
    case errc::not_found:
    case errc::out_of_device_memory:
    case errc::out_of_host_memory:
      return exit_code::rejected;
    default:
      return exit_code::failed;
  }
}

exit_code report(const failure& f, exit_code code, std::string_view program) {
  auto line = std::string(program) + ": " + describe(f);
  std::ranges::replace(line, '\n', ' ');
  line += '\n';
  std::fputs(line.c_str(), stderr);
  return code;
}

} // namespace ferry
