// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace ferry {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::set<std::string> matches(const std::string& text, const std::regex& what) {
  std::set<std::string> found;
  for (std::sregex_iterator at{text.begin(), text.end(), what}; at != std::sregex_iterator{}; ++at)
    found.insert((*at)[1]);
  return found;
}

TEST_CASE("the page on protocols names every message", "[actors][documentation]") {
  static const std::regex declared{R"(FERRY_LOCAL_MESSAGE\(ferry::(\w+)\))"};
  std::set<std::string> messages;
  for (const auto& header : std::filesystem::directory_iterator{FERRY_MESSAGES})
    messages.merge(matches(text_of(header.path()), declared));
  REQUIRE(messages.size() > 40);

  const auto words = matches(text_of(FERRY_DOCS "/protocols.md"), std::regex{R"((\w+))"});

  for (const auto& each : messages) {
    INFO(each);
    CHECK(words.contains(each));
  }
}

} // namespace
} // namespace ferry
