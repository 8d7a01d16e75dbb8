// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "logging.hpp"

#include <ferry/platform/log.hpp>

#include <CLI/CLI.hpp>

#include <string>

namespace ferry {

void add_log_level_option(CLI::App& command) {
  const auto put_in_force = [](const std::string& text) {
    log_level level{};
    if (parse(text, level))
      log_at_least(level);
  };
  command
      .add_option_function<std::string>("--log-level", put_in_force,
                                        "Least level that is logged to standard error (warn)")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
}

} // namespace ferry
