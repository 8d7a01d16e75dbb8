// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/scratch_directory.hpp"

#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace ferry::test {

scratch_directory::scratch_directory() {
  auto name = (std::filesystem::temp_directory_path() / "ferry-test-XXXXXX").string();
  if (!::mkdtemp(name.data()))
    throw std::runtime_error("cannot create " + name);
  path_ = name;
}

scratch_directory::~scratch_directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path scratch_directory::write(std::string_view name,
                                               std::string_view content) const {
  const auto path = path_ / name;
  std::filesystem::create_directories(path.parent_path());
  auto file = std::ofstream(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file)
    throw std::runtime_error("cannot write " + path.string());
  return path;
}

std::string read_text(const std::filesystem::path& path) {
  auto file = std::ifstream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

} // namespace ferry::test
