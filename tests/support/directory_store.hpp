// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/key_value_store.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace ferry::test {

/// A store for processes that share a directory: one file a key.
class directory_store : public key_value_store {
public:
  explicit directory_store(std::filesystem::path directory);

  bool hosted_here() const noexcept override { return false; }
  bool offer(const std::string& key, const_bytes value) override;
  bool await(std::span<const std::string> keys, nanoseconds patience) override;
  std::vector<std::byte> read(const std::string& key) override;

private:
  [[nodiscard]] std::filesystem::path file_of(const std::string& key) const;

  std::filesystem::path directory_;
};

} // namespace ferry::test
