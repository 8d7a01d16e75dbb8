// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "exit_code.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

namespace ferry {

exit_code report(const failure& f, exit_code code) {
  auto line = "ferry: " + describe(f);
  std::ranges::replace(line, '\n', ' ');
  line += '\n';
  std::fputs(line.c_str(), stderr);
  return code;
}

} // namespace ferry
