// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/sim_options.hpp>

#include "support/catch.hpp"

#include <chrono>
#include <string>

namespace ferry {
namespace {

using namespace std::chrono_literals;

TEST_CASE("an empty model is the default one", "[sim][options]") {
  auto read = parse_sim_options("");

  REQUIRE(read);
  CHECK(read->h2d_bandwidth == sim_options{}.h2d_bandwidth);
  CHECK(read->compute == sim_options{}.compute);
  CHECK(read->seed == sim_options{}.seed);
}

TEST_CASE("a model sets what it names and nothing else", "[sim][options]") {
  auto read =
      parse_sim_options("link=12GB/s,compute=1500us,jitter=0.25,seed=7,launch=5us,hop=0,"
                        "memory=3GiB,pinned=1GB,latency=10us,contents=false,node=1,in_place=true,"
                        "pageable=3GB/s,host=9GB/s");

  REQUIRE(read);
  CHECK(read->h2d_bandwidth == 12e9);
  CHECK(read->d2h_bandwidth == 12e9);
  CHECK(read->compute == 1500us);
  CHECK(read->jitter == 0.25);
  CHECK(read->seed == 7);
  CHECK(read->launch == 5us);
  CHECK(read->hop == 0ns);
  CHECK(read->memory == std::size_t{3} << 30);
  CHECK(read->pinned == 1'000'000'000);
  CHECK(read->latency == 10us);
  CHECK_FALSE(read->contents);
  CHECK(read->in_place);
  CHECK(read->node == 1);
  CHECK(read->pageable_bandwidth == 3e9);
  CHECK(read->host_bandwidth == 9e9);
  CHECK(read->compute_jitter == 0);
}

TEST_CASE("the directions of the link can differ", "[sim][options]") {
  auto read = parse_sim_options("link=10GB/s,d2h=5GB/s");

  REQUIRE(read);
  CHECK(read->h2d_bandwidth == 10e9);
  CHECK(read->d2h_bandwidth == 5e9);
}

TEST_CASE("a model that cannot be read is rejected by key, value and expectation",
          "[sim][options]") {
  auto [text, detail] = GENERATE(table<std::string, std::string>({
      {"link", "sim: 'link' is not of the form key=value"},
      {"speed=1GB/s", "sim.speed is unknown; expected link"},
      {"link=25GB", "sim.link is '25GB'; expected a rate of at least 100kB/s such as 25GB/s"},
      {"link=0GB/s", "sim.link is '0GB/s'; expected a rate of at least 100kB/s such as 25GB/s"},
      {"link=-1GB/s", "sim.link is '-1GB/s'; expected a rate of at least 100kB/s such as 25GB/s"},
      {"gather=99999B/s",
       "sim.gather is '99999B/s'; expected a rate of at least 100kB/s such as 25GB/s"},
      {"latency=61min", "sim.latency is '61min'; expected a time of at most 60min such as 2ms"},
      {"compute=2", "sim.compute is '2'; expected a time of at most 60min such as 2ms"},
      {"compute=fast", "sim.compute is 'fast'; expected a time of at most 60min such as 2ms"},
      {"memory=big", "sim.memory is 'big'; expected a size such as 512MiB"},
      {"jitter=11", "sim.jitter is '11'; expected a number from 0 to 10"},
      {"jitter=nan", "sim.jitter is 'nan'; expected a number from 0 to 10"},
      {"seed=-1", "sim.seed is '-1'; expected an integer from 0 to 18446744073709551615"},
      {"seed=", "sim.seed is ''; expected an integer from 0 to 18446744073709551615"},
      {"node=-1", "sim.node is '-1'; expected an integer from 0 to 1023"},
      {"node=1024", "sim.node is '1024'; expected an integer from 0 to 1023"},
      {"contents=no", "sim.contents is 'no'; expected true or false"},
      {"seed=1,,hop=1us", "sim: '' is not of the form key=value"},
  }));

  auto read = parse_sim_options(text);

  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::invalid_argument);
  CHECK_THAT(read.error().detail, Catch::StartsWith(detail));
}

} // namespace
} // namespace ferry
