// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <filesystem>
#include <string_view>

namespace ferry::test {

/// A fresh directory, removed with everything in it.
class temporary_directory {
public:
  temporary_directory();
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;
  ~temporary_directory();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Writes a file and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view contents) const;

private:
  std::filesystem::path path_;
};

} // namespace ferry::test
