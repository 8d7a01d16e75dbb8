// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "support/scratch_directory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace ferry::test {

/// Returns what `write` sends to standard error.
template <class Write>
std::string standard_error_of(const Write& write) {
  const scratch_directory directory;
  const auto path = directory.path() / "stderr";
  const auto before = ::dup(STDERR_FILENO);
  const auto file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  ::dup2(file, STDERR_FILENO);
  write();
  ::dup2(before, STDERR_FILENO);
  ::close(file);
  ::close(before);
  std::ifstream written(path);
  return {std::istreambuf_iterator<char>(written), {}};
}

} // namespace ferry::test
