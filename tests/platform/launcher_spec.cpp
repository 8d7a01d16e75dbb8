// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/launcher.hpp>

#include "support/catch.hpp"

#include <map>
#include <string>

namespace ferry {
namespace {

using Catch::Contains;
using variables = std::map<std::string, std::string>;

environment from(const variables& set) {
  return [&set](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
}

variables of_torchrun() {
  return {{"RANK", "2"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "0"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", "3"}};
}

TEST_CASE("the variables of torchrun are read", "[launcher]") {
  const auto set = of_torchrun();

  const auto read = read_launcher(from(set));

  CHECK(read.value() == launched_rank{.rank = 2,
                                      .size = 4,
                                      .local_rank = 0,
                                      .address = "127.0.0.1",
                                      .port = 29500,
                                      .agent_hosts = true,
                                      .restart = 3});
}

TEST_CASE("a launcher may leave out what only torchrun sets", "[launcher]") {
  auto set = of_torchrun();
  set.erase("LOCAL_RANK");
  set.erase("TORCHELASTIC_USE_AGENT_STORE");
  set.erase("TORCHELASTIC_RESTART_COUNT");

  const auto read = read_launcher(from(set));

  CHECK(read.value()->local_rank == 2);
  CHECK_FALSE(read.value()->agent_hosts);
  CHECK(read.value()->restart == 0);
}

TEST_CASE("a process that nobody launched as a rank has no rank", "[launcher]") {
  const auto set = variables{{"MASTER_ADDR", "127.0.0.1"}};

  CHECK(read_launcher(from(set)).value() == std::nullopt);
}

struct wrong_value {
  std::string name;
  std::string value;
  std::string words;
};

TEST_CASE("a variable that is wrong is refused by name and value", "[launcher]") {
  const auto wrong = GENERATE(
      wrong_value{"RANK", "x", "RANK is 'x'; expected an integer from 0"},
      wrong_value{"RANK", "-1", "RANK is '-1'"}, wrong_value{"RANK", "1 ", "RANK is '1 '"},
      wrong_value{"WORLD_SIZE", "0", "WORLD_SIZE is '0'; expected an integer from 1"},
      wrong_value{"LOCAL_RANK", "one", "LOCAL_RANK is 'one'"},
      wrong_value{"MASTER_PORT", "65536",
                  "MASTER_PORT is '65536'; expected an integer from 1 to "
                  "65535"},
      wrong_value{"MASTER_ADDR", "", "MASTER_ADDR is not set"},
      wrong_value{"TORCHELASTIC_RESTART_COUNT", "many", "TORCHELASTIC_RESTART_COUNT is 'many'"});
  auto set = of_torchrun();
  set[wrong.name] = wrong.value;

  const auto read = read_launcher(from(set));

  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::invalid_config);
  CHECK_THAT(read.error().detail, Contains(wrong.words));
}

TEST_CASE("a variable that is missing beside others is refused by name", "[launcher]") {
  const auto name = GENERATE(std::string("RANK"), "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT");
  auto set = of_torchrun();
  set.erase(name);

  const auto read = read_launcher(from(set));

  REQUIRE_FALSE(read);
  CHECK_THAT(read.error().detail, Contains(name + " is not set, but RANK or WORLD_SIZE is"));
}

TEST_CASE("a rank beyond its world is told what was expected", "[launcher]") {
  const auto refused = beyond_world({.rank = 4, .size = 4});

  REQUIRE(refused);
  CHECK(refused->detail == "RANK is 4; expected 0 to 3, because WORLD_SIZE is 4");
  CHECK(refused->rank == 4);
  CHECK_FALSE(beyond_world({.rank = 3, .size = 4}));
}

TEST_CASE("a rank has the GPU of its local rank, or the only one that its process is shown",
          "[launcher]") {
  const launched_rank third{.rank = 6, .size = 8, .local_rank = 2};

  CHECK(gpu_of(third, 4) == 2);
  CHECK(gpu_of(third, 1) == 0);
  CHECK(gpu_of(third, 2) == 2); // Which is then refused by its number.
}

} // namespace
} // namespace ferry
