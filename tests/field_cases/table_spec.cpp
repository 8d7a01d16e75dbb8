// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>

namespace ferry {
namespace {

/// Returns the text of every source and header below tests/, with string literals that are written
/// in several pieces joined.
std::string all_tests() {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{FERRY_TESTS})
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".hpp")
      text += test::read_text(entry.path());
  std::string joined;
  for (std::size_t at = 0; at != text.size();) {
    const auto next = text.find_first_not_of(" \n", at + 1);
    const auto piece_ends = text[at] == '"' && next != std::string::npos && next > at + 1 &&
                            text[next] == '"' && text[at - 1] != '\\';
    if (piece_ends)
      at = next;
    else
      joined += text[at];
    ++at;
  }
  return joined;
}

TEST_CASE("every claim that the table of field cases names is a test", "[field_cases]") {
  const auto tests = all_tests();
  std::istringstream page{test::read_text(FERRY_DOCS "/field-cases.md")};
  const std::regex quoted{R"re("([^"]+)")re"};
  std::size_t claims = 0;

  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| B"))
      continue;
    for (std::sregex_iterator each{line.begin(), line.end(), quoted}, end; each != end; ++each) {
      ++claims;
      INFO(line.substr(2, 4) << " names " << each->str());
      CHECK(tests.find("TEST_CASE(" + each->str()) != std::string::npos);
    }
  }

  CHECK(claims > 50);
}

} // namespace
} // namespace ferry
