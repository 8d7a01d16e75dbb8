// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "control_groups.hpp"

#include <charconv>
#include <fstream>
#include <string>

namespace ferry {

std::vector<control_group> control_groups(const std::filesystem::path& root,
                                          std::string_view controller) {
  std::vector<control_group> all;
  std::ifstream in{root / "proc/self/cgroup"};
  for (std::string line; std::getline(in, line);) { // id:controllers:path
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const auto unified = controllers == ",,";
    if (!unified && controllers.find("," + std::string(controller) + ",") == std::string::npos)
      continue;
    auto directory = root / "sys/fs/cgroup";
    if (!unified)
      directory /= controller;
    all.push_back({unified, directory});
    for (const auto& part : std::filesystem::path{line.substr(second + 1)}.relative_path()) {
      directory /= part;
      all.push_back({unified, directory});
    }
  }
  return all;
}

std::optional<std::uint64_t> leading_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data())
    return std::nullopt;
  return value;
}

std::optional<std::uint64_t> leading_number(const std::filesystem::path& file) {
  std::ifstream in{file};
  std::string word;
  in >> word;
  return leading_number(std::string_view{word});
}

} // namespace ferry
