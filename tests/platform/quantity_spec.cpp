// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/quantity.hpp>

#include "support/catch.hpp"

#include <limits>
#include <string>
#include <utility>

using namespace ferry;
using namespace std::chrono_literals;

TEST_CASE("a size is a number of bytes or a number with a unit") {
  const auto [text, bytes] = GENERATE(table<std::string, std::uint64_t>({
      {"0", 0},
      {"4096", 4096},
      {"1B", 1},
      {"2kB", 2'000},
      {"2KB", 2'000},
      {"3MB", 3'000'000},
      {"20GB", 20'000'000'000},
      {"1TB", 1'000'000'000'000},
      {"2KiB", 2048},
      {"64MiB", 67'108'864},
      {"1GiB", 1'073'741'824},
      {"1TiB", 1'099'511'627'776},
      {"1.5GB", 1'500'000'000},
      {"0.5KiB", 512},
      {"1.000001MB", 1'000'001},
      {"0.3B", 0},
      {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()},
  }));

  CAPTURE(text);
  CHECK(parse_bytes(text) == bytes);
}

TEST_CASE("a size that cannot be read is refused with what is allowed") {
  const auto* const text =
      GENERATE("", "MiB", "64 MiB", " 64MiB", "64MiB ", "-1", "+1", "64mib", "64M", "64MiBs",
               "0x10", "1e9", ".5GB", "1.GB", "1.0000001GB", "1.5.5GB", "18446744073709551616",
               "16777216TiB", "18446744073709551615.5kB");

  const auto read = parse_bytes(text);

  CAPTURE(text);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::invalid_argument);
  CHECK_THAT(read.error().detail, Catch::StartsWith("size '" + std::string(text) + "'") &&
                                      Catch::Contains("B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"));
}

TEST_CASE("a wait is told in seconds where it comes out even") {
  CHECK(duration_text(60s) == "60 s");
  CHECK(duration_text(2500ms) == "2500 ms");
}

TEST_CASE("a duration is a number with a unit") {
  const auto [text, time] = GENERATE(table<std::string, nanoseconds>({
      {"0", 0ns},
      {"0s", 0ns},
      {"7ns", 7ns},
      {"30us", 30us},
      {"2ms", 2ms},
      {"0.5us", 500ns},
      {"1.25s", 1250ms},
      {"3min", 3min},
      {"9223372036854775807ns", nanoseconds::max()},
  }));

  CAPTURE(text);
  CHECK(parse_duration(text) == time);
}

TEST_CASE("a duration that cannot be read is refused with what is allowed") {
  const auto* const text =
      GENERATE("", "2", "0.0", "ms", "2 ms", "-2ms", "2MS", "2h", "1.0000001s",
               "9223372036854775808ns", "18446744073709551616ns", "307445734562min");

  const auto read = parse_duration(text);

  CAPTURE(text);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::invalid_argument);
  CHECK_THAT(read.error().detail, Catch::StartsWith("duration '" + std::string(text) + "'") &&
                                      Catch::Contains("ns, us, ms, s, min"));
}
