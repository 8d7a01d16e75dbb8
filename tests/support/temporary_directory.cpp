// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/temporary_directory.hpp"

#include <stdlib.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace ferry::test {

temporary_directory::temporary_directory() {
  auto pattern = (std::filesystem::temp_directory_path() / "ferry-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error("cannot make a directory like " + pattern);
  path_ = pattern;
}

temporary_directory::~temporary_directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path temporary_directory::write(std::string_view name,
                                                 std::string_view contents) const {
  auto path = path_ / name;
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

} // namespace ferry::test
