// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "config_option.hpp"

#include <ferry/platform/log.hpp>

#include <strings.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace ferry {

namespace {

constexpr std::string_view standard_input = "-";

tl::unexpected<failure> cannot_read(const std::string& what) {
  return tl::unexpected(failure{.code = errc::invalid_config,
                                .detail = "--config names " + what + "; expected JSON"});
}

/// Returns all of it.
result<std::string> text_of(std::istream& from, const std::string& what) {
  const std::string text{std::istreambuf_iterator<char>(from), {}};
  if (from.bad())
    return cannot_read(what + ", which cannot be read");
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    return cannot_read(what + ", which is empty");
  return text;
}

/// Returns the JSON: the option itself, or what is in the file it names.
result<std::optional<std::string>> text_of(const std::optional<std::string>& given) {
  if (!given || !given->starts_with('@'))
    return given;
  const auto path = given->substr(1);
  if (path == standard_input)
    return text_of(std::cin, "standard input");
  std::ifstream file(path);
  if (!file)
    return cannot_read("the file '" + path + "', which cannot be read");
  return text_of(file, "the file '" + path + "'");
}

/// Names the file that is wrong, or the mistake behind text that is no JSON but the name of a file.
failure explain(failure wrong, const std::string& given) {
  std::error_code ignored;
  if (given.starts_with('@'))
    wrong.detail = "--config " + given + ": " + wrong.detail;
  else if (given.size() == 4 && ::strcasecmp(given.c_str(), "auto") == 0)
    wrong.detail = "--config is '" + given + "'; write --config auto, in small letters";
  else if (std::filesystem::is_regular_file(given, ignored))
    wrong.detail = "--config is '" + given + "', which is a file; write --config @" + given;
  else if (given.ends_with(".json"))
    wrong.detail = "--config is '" + given + "', which is no JSON; for a file of that name write " +
                   "--config @" + given;
  return wrong;
}

} // namespace

result<offload_config> read_config(const std::optional<std::string>& given,
                                   const legacy_options& beside) {
  const auto text = text_of(given);
  if (!text)
    return tl::unexpected(text.error());
  auto resolved =
      resolve_config(*text ? std::optional<std::string_view>(**text) : std::nullopt, beside);
  if (!resolved)
    return tl::unexpected(explain(std::move(resolved.error()), given.value_or("")));
  for (const auto& note : resolved->notes)
    log(log_level::warn, "ferry.app", note);
  return std::move(resolved->config);
}

} // namespace ferry
