// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/reference_run.hpp"

#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace {

using ferry::errc;
using ferry::reference_run;
using ferry::test::golden;
using ferry::test::pipeline_copy;

constexpr auto file_name = "reference.safetensors";

reference_run tiny() {
  return reference_run::open(golden("wan-tiny") / file_name).value();
}

} // namespace

TEST_CASE("a reference file describes the request that made it") {
  const auto asked = tiny().inputs().value();

  CHECK(asked.steps == 4);
  CHECK(asked.guidance == 4.0);
  CHECK(asked.positive.ids.size() == 12);
  CHECK(asked.positive.ids != asked.negative.ids);
  CHECK(asked.positive.mask == std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0});
  CHECK(asked.initial_latents.sizes() == at::IntArrayRef{1, 16, 3, 8, 12});
}

TEST_CASE("a stage is compared with the largest absolute difference") {
  auto reference = tiny();
  const auto latents = reference.inputs().value().initial_latents.clone();
  latents[0][3][1][2][5] += 0.5;

  reference.compare("initial_latents", latents);

  REQUIRE(reference.worst());
  CHECK(reference.worst()->stage == "initial_latents");
  CHECK(reference.worst()->max_abs == Approx(0.5));
}

TEST_CASE("a stage that is not finite is infinitely wrong") {
  auto reference = tiny();
  const auto latents = reference.inputs().value().initial_latents.clone();
  latents[0][0][0][0][0] = std::numeric_limits<float>::quiet_NaN();

  reference.compare("initial_latents", latents);

  CHECK(std::isinf(reference.worst()->max_abs));
}

TEST_CASE("a stage of another shape is infinitely wrong") {
  auto reference = tiny();

  reference.compare("sigmas", at::zeros({4}));

  CHECK(std::isinf(reference.worst()->max_abs));
}

TEST_CASE("a stage that the reference does not know is passed over") {
  auto reference = tiny();

  reference.compare("noise.99", at::zeros({4}));

  CHECK(!reference.knows("noise.99"));
  CHECK(!reference.worst());
}

TEST_CASE("a reference file without an input is refused with its name") {
  const auto name = GENERATE(as<std::string>{}, "input_ids", "negative_input_ids", "attention_mask",
                             "initial_latents");
  const pipeline_copy copy{"wan-tiny"};
  copy.change_header(file_name, [&](nlohmann::json& header) {
    header["renamed"] = header[name];
    header.erase(name);
  });

  const auto inputs = reference_run::open(copy.path() / file_name).value().inputs();

  REQUIRE(!inputs);
  CHECK(inputs.error().code == errc::invalid_checkpoint);
  CHECK_THAT(inputs.error().detail, Catch::Contains(name + " is missing"));
}

TEST_CASE("a reference file with malformed metadata is refused with its name") {
  const auto name = GENERATE(as<std::string>{}, "steps", "guidance_scale");
  const pipeline_copy copy{"wan-tiny"};
  copy.change_header(file_name,
                     [&](nlohmann::json& header) { header["__metadata__"][name] = "4x"; });

  const auto inputs = reference_run::open(copy.path() / file_name).value().inputs();

  REQUIRE(!inputs);
  CHECK_THAT(inputs.error().detail, Catch::Contains("the metadata " + name));
}
