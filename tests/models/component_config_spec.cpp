// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/component_config.hpp"

#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

#include <fstream>

namespace {

using ferry::component_config;
using ferry::errc;
using ferry::failure;

/// One field in a file of its own, and the problems of reading it.
struct one_field {
  explicit one_field(const std::string& value) {
    std::ofstream{copy.path() / "config.json"} << "{\"size\": " << value << "}";
  }

  ferry::test::pipeline_copy copy{"wan-tiny/scheduler"};
  std::vector<failure> problems;
  component_config file() { return {copy.path() / "config.json", problems}; }
};

} // namespace

TEST_CASE("a configuration field out of range is refused with file, field, value and range") {
  one_field field{"4097"};

  auto file = field.file();
  static_cast<void>(file.integer("size", 1, 4096));

  REQUIRE(field.problems.size() == 1);
  CHECK(field.problems[0].code == errc::invalid_checkpoint);
  CHECK_THAT(field.problems[0].detail,
             Catch::EndsWith("config.json: size is 4097; expected an integer from 1 to 4096"));
}

TEST_CASE("a configuration field that is no integer is refused") {
  const auto* value = GENERATE("1.5", "\"8\"", "true", "[8]", "18446744073709551615", "null");
  one_field field{value};

  auto file = field.file();
  static_cast<void>(file.integer("size", 0, 4096));

  CHECK(field.problems.size() == 1);
}

TEST_CASE("a configuration field that is not there takes its fallback") {
  one_field field{"null"};

  auto file = field.file();

  CHECK(file.integer("size", 1, 9, 7) == 7);
  CHECK(file.positive("size", 0.5) == 0.5);
  CHECK(file.boolean("size", true));
  CHECK(field.problems.empty());
}

TEST_CASE("an odd number is refused where pairs are needed") {
  one_field field{"23"};

  auto file = field.file();
  static_cast<void>(file.even("size", 6, 4096));

  REQUIRE(field.problems.size() == 1);
  CHECK_THAT(field.problems[0].detail, Catch::Contains("expected an even number"));
}

TEST_CASE("a patch is three integers") {
  const auto* value = GENERATE("[1, 2]", "[1, 2, 2, 2]", "[1, 2, 0]", "[1, 2, 2.5]", "2");
  one_field field{value};

  auto file = field.file();
  static_cast<void>(file.three("size", 1, 64));

  REQUIRE(field.problems.size() == 1);
  CHECK_THAT(field.problems[0].detail,
             Catch::Contains("an array of 3, each an integer from 1 to 64"));
}

TEST_CASE("a number that is not above zero is refused where one is needed") {
  const auto* value = GENERATE("0", "-1e-6", "\"small\"", "false");
  one_field field{value};

  auto file = field.file();
  static_cast<void>(file.positive("size", 1e-6));

  CHECK(field.problems.size() == 1);
}

TEST_CASE("a variant that is not computed here is unsupported") {
  one_field field{"\"layer_norm\""};

  auto file = field.file();
  file.expect_text("size", "rms_norm");
  file.expect_off("size");

  REQUIRE(field.problems.size() == 2);
  CHECK(field.problems[0].code == errc::unsupported);
  CHECK_THAT(field.problems[0].detail,
             Catch::EndsWith("size is \"layer_norm\"; expected \"rms_norm\""));
  CHECK(field.problems[1].code == errc::unsupported);
}

TEST_CASE("a file that is no JSON object is one problem, however many fields are read") {
  one_field field{"{"};

  auto file = field.file();
  static_cast<void>(file.integer("size", 1, 9));
  static_cast<void>(file.even("size", 2, 8));

  REQUIRE(field.problems.size() == 1);
  CHECK_THAT(field.problems[0].detail, Catch::EndsWith("config.json is not a JSON object"));
}
