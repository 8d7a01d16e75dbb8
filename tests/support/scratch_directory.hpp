// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace ferry::test {

/// An empty directory of its own for one test, removed with everything in it at the end.
class scratch_directory {
public:
  scratch_directory();
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;
  ~scratch_directory();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Writes a file, with its parent directories, and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view content) const;

private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string read_text(const std::filesystem::path& path);

} // namespace ferry::test
