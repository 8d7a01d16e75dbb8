// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <string>

namespace ferry::test {

/// Returns the directory of a checkpoint in `tests/data`.
[[nodiscard]] std::filesystem::path golden(const std::string& name);

/// A copy of a golden checkpoint in a directory of its own, to be changed. Removed with its owner.
class pipeline_copy {
public:
  using edit = std::function<void(nlohmann::json& object)>;

  explicit pipeline_copy(const std::string& name);
  pipeline_copy(const pipeline_copy&) = delete;
  pipeline_copy& operator=(const pipeline_copy&) = delete;
  ~pipeline_copy();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Rewrites a JSON file.
  void change_json(const std::string& file, const edit& change) const;

  /// Rewrites the header of a safetensors file and leaves its data alone.
  void change_header(const std::string& file, const edit& change) const;

private:
  std::filesystem::path path_;
};

} // namespace ferry::test
