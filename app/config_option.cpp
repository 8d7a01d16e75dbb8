// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "config_option.hpp"

#include <ferry/platform/log.hpp>

#include <strings.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>
#include <utility>

namespace ferry {

namespace {

/// Returns the JSON: the option itself, or what is in the file it names, "-" for standard input.
result<std::optional<std::string>> text_of(const std::optional<std::string>& given) {
  if (!given || !given->starts_with('@'))
    return given;
  const auto path = given->substr(1);
  std::ifstream file(path);
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  if (!file || !(text << file.rdbuf()))
    return tl::unexpected(failure{.code = errc::invalid_config,
                                  .detail = "--config names the file '" + path +
                                            "', which cannot be read; expected a file of JSON"});
  return text.str();
}

/// Points at the mistake behind text that is no JSON but the name of a file.
failure explain(failure wrong, const std::string& given) {
  std::error_code ignored;
  if (given.size() == 4 && ::strcasecmp(given.c_str(), "auto") == 0)
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
