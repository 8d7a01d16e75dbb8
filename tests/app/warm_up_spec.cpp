// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "warm_up.hpp"

#include "tiny_pipeline.hpp"
#include "torch/catch.hpp"

#include <stdexcept>

namespace ferry {
namespace {

using Catch::Matchers::Contains;
using test::streamed_tiny;
using test::watched_model;

constexpr auto layer = R"({"mode":"layer","components":["dit","text_encoder"]})";

TEST_CASE("a warm-up runs what the model declares, once, as a request", "[app][warm_up]") {
  streamed_tiny tiny(layer);
  int runs = 0;
  const watched_model model(*tiny.model, [&](const request& asked) {
    ++runs;
    CHECK(asked.width == tiny.model->warm_up_request()->width);
    CHECK(tiny.through.state()->in_request);
  });

  REQUIRE(warm_up(tiny.through, model));

  CHECK(runs == 1);
  const auto state = tiny.through.state().value();
  CHECK(state.prefetches > 0);
  CHECK_FALSE(state.in_request);
  CHECK(state.tickets_in_flight == 0);
}

TEST_CASE("a warm-up that fails says why and leaves no request behind", "[app][warm_up]") {
  streamed_tiny tiny(layer);
  const watched_model model(*tiny.model,
                            [](const request&) { throw std::runtime_error("no such luck"); });

  const auto warmed = warm_up(tiny.through, model);

  REQUIRE(!warmed);
  CHECK(warmed.error().detail == "the warm-up request failed: no such luck");
  CHECK_FALSE(tiny.through.state()->in_request);
  CHECK(warm_up(tiny.through, *tiny.model));
}

TEST_CASE("a device that fails during the warm-up is its cause", "[app][warm_up]") {
  streamed_tiny tiny(layer);
  tiny.device->inject({.call = device_call::copy});

  const auto warmed = warm_up(tiny.through, *tiny.model);

  REQUIRE(!warmed);
  CHECK(warmed.error().code == errc::device_failure);
  CHECK_THAT(warmed.error().detail, Contains("the warm-up request failed: "));
}

TEST_CASE("a model with all weights in place is warmed up as well", "[app][warm_up]") {
  const streamed_tiny tiny(layer);
  int runs = 0;
  const watched_model model(*tiny.model, [&](const request&) {
    ++runs;
    throw std::runtime_error("stop here");
  });

  CHECK_FALSE(warm_up(model));

  CHECK(runs == 1);
}

} // namespace
} // namespace ferry
