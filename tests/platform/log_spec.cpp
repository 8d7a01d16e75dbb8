// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/log.hpp>

#include "support/catch.hpp"
#include "support/standard_error.hpp"

using namespace ferry;
using test::standard_error_of;

TEST_CASE("a log level is read by its name") {
  const auto [text, expected] = GENERATE(table<std::string, log_level>({
      {"trace", log_level::trace},
      {"debug", log_level::debug},
      {"info", log_level::info},
      {"warn", log_level::warn},
      {"error", log_level::error},
      {"off", log_level::off},
  }));
  auto level = expected == log_level::off ? log_level::trace : log_level::off;

  CHECK(parse(text, level));
  CHECK(level == expected);
}

TEST_CASE("anything else is not a log level and changes nothing") {
  const auto* const text = GENERATE("", "Warn", "warning", "warn ", "3");
  auto level = log_level::info;

  CHECK_FALSE(parse(text, level));
  CHECK(level == log_level::info);
}

TEST_CASE("a log line carries its level, its component and its text as it is") {
  const auto written =
      standard_error_of([] { log(log_level::warn, "ferry.platform", "release block={7} %s"); });

  CHECK_THAT(written, Catch::Contains("[ferry.platform]") && Catch::Contains("[warning]") &&
                          Catch::EndsWith("release block={7} %s\n"));
}

TEST_CASE("a log line below the level in force is not written") {
  const auto written = standard_error_of([] {
    log(log_level::info, "ferry.platform", "unimportant");
    log_at_least(log_level::off);
    log(log_level::error, "ferry.platform", "switched off");
    log_at_least(log_level::debug);
    log(log_level::debug, "ferry.platform", "asked for");
    log_at_least(log_level::warn);
  });

  CHECK_THAT(written, !Catch::Contains("unimportant") && !Catch::Contains("switched off") &&
                          Catch::Contains("asked for"));
}
