// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "pipeline_copy.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

namespace ferry::test {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

void write(const std::filesystem::path& path, const std::string& content) {
  std::ofstream{path, std::ios::binary} << content;
}

std::filesystem::path fresh_directory() {
  auto pattern = (std::filesystem::temp_directory_path() / "ferry-models-XXXXXX").string();
  return ::mkdtemp(pattern.data());
}

} // namespace

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path{FERRY_TEST_DATA} / name;
}

pipeline_copy::pipeline_copy(const std::string& name) : path_{fresh_directory()} {
  std::filesystem::copy(golden(name), path_, std::filesystem::copy_options::recursive);
}

pipeline_copy::~pipeline_copy() {
  std::filesystem::remove_all(path_);
}

void pipeline_copy::change_json(const std::string& file, const edit& change) const {
  auto object = nlohmann::json::parse(read(path_ / file));
  change(object);
  write(path_ / file, object.dump());
}

void pipeline_copy::change_header(const std::string& file, const edit& change) const {
  const auto content = read(path_ / file);
  std::uint64_t length = 0;
  std::memcpy(&length, content.data(), sizeof length);
  auto object = nlohmann::json::parse(content.substr(sizeof length, length));
  change(object);
  auto header = object.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t new_length = header.size();
  std::string result(sizeof new_length, '\0');
  std::memcpy(result.data(), &new_length, sizeof new_length);
  write(path_ / file, result + header + content.substr(sizeof length + length));
}

} // namespace ferry::test
