// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/open_device.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <string>

using namespace ferry;

TEST_CASE("a device is opened by its name") {
  const auto* const name = GENERATE("sim", "host");

  const auto opened = open_device(name, {});

  REQUIRE(opened);
  CHECK((*opened)->traits().name == name);
}

TEST_CASE("without a name the host device is opened where no GPU can be") {
  if (list_cuda_devices().front().available)
    return;

  const auto opened = open_device("", {});

  REQUIRE(opened);
  CHECK((*opened)->traits().name == "host");
  CHECK((*opened)->memory().total == installed_memory());
}

TEST_CASE("the memory of a device can be given a ceiling") {
  const auto* const name = GENERATE("sim", "host", "");

  const auto opened = open_device(name, {.memory = 12345});

  REQUIRE(opened);
  CHECK((*opened)->memory().total == 12345);
}

TEST_CASE("a simulated device follows the model it is given") {
  const auto opened = open_device("sim", {.model = "seed=42"});

  REQUIRE(opened);
  CHECK(dynamic_cast<const sim_device&>(**opened).seed() == 42);
}

TEST_CASE("a model that cannot be read is refused") {
  const auto opened = open_device("sim", {.model = "warp=9"});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::invalid_argument);
  CHECK_THAT(opened.error().detail, Catch::Contains("warp"));
}

TEST_CASE("a model for a device that is not simulated is refused") {
  const auto opened = open_device("host", {.model = "link=25GB/s"});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::invalid_argument);
  CHECK(opened.error().detail ==
        "device 'host' takes no model, got 'link=25GB/s'; a model belongs to the device sim");
}

TEST_CASE(
    "a CUDA device that cannot be opened is refused with the reason and what to use instead") {
  const auto gpus = list_cuda_devices();
  if (gpus.front().available)
    return;
  const auto* const name = GENERATE("cuda", "cuda:0", "cuda:17");

  const auto opened = open_device(name, {});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::unsupported);
  CHECK(opened.error().detail ==
        "device '" + std::string(name) + "' cannot be opened: " + gpus.front().description);
  CHECK_THAT(opened.error().detail, Catch::Contains("use host"));
}

TEST_CASE("a device that is not known is refused with those that are") {
  const auto* const name = GENERATE("cpu", "cuda:", "cuda:x", "cuda0", "Host", "sim ");

  const auto opened = open_device(name, {});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::invalid_argument);
  CHECK(opened.error().detail == "device '" + std::string(name) +
                                     "' is not known; expected sim, host, cuda or cuda:N, for "
                                     "example cuda:0");
}

TEST_CASE("the devices of a build are listed with whether they can be opened here") {
  const auto listed = list_devices();

  REQUIRE(listed.size() >= 3);
  for (const auto& entry : listed)
    CHECK(open_device(entry.name, {}).has_value() == entry.available);
  CHECK(listed[2].name.starts_with("cuda"));
}
