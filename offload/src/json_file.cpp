// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "json_file.hpp"

#include "strict_json.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace ferry {

result<nlohmann::json> read_json_file(const std::filesystem::path& path) {
  constexpr std::uintmax_t most_bytes = 16u << 20;
  constexpr int deepest = 16;
  const auto subject = "'" + path.string() + "'";
  const auto refuse = [&](const std::string& problem) {
    return tl::unexpected(
        failure{.code = errc::invalid_checkpoint, .detail = subject + " " + problem});
  };

  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return refuse("cannot be read: " + (error ? error.message() : "it is no regular file"));
  const auto bytes = std::filesystem::file_size(path, error);
  if (error || bytes > most_bytes)
    return refuse("has " + std::to_string(bytes) + " bytes; expected at most " +
                  std::to_string(most_bytes));

  auto file = std::ifstream(path, std::ios::binary);
  if (!file)
    return refuse("cannot be read: " + std::generic_category().message(errno));
  const auto text = std::string(std::istreambuf_iterator<char>(file), {});
  if (file.bad())
    return refuse("cannot be read");
  auto value = parse_strict(text, subject, deepest);
  if (!value) {
    value.error().code = errc::invalid_checkpoint;
    return value;
  }
  if (!value->is_object())
    return refuse("is " + shown(*value) + "; expected a JSON object");
  return value;
}

} // namespace ferry
