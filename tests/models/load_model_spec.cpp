// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/load_model.hpp"

#include "models/flux_pipeline.hpp"
#include "models/wan_pipeline.hpp"
#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

namespace {

using ferry::load_model;
using ferry::test::golden;
using ferry::test::pipeline_copy;

} // namespace

TEST_CASE("a directory is opened as the family that its index names") {
  const auto wan = load_model(golden("wan-tiny")).value();
  const auto flux = load_model(golden("flux-tiny")).value();

  CHECK(dynamic_cast<const ferry::wan_pipeline*>(wan.get()) != nullptr);
  CHECK(dynamic_cast<const ferry::flux_pipeline*>(flux.get()) != nullptr);
}

TEST_CASE("a model can do what it asks for by default") {
  const auto name = GENERATE("wan-tiny", "wan-dual-tiny", "flux-tiny");
  const auto model = load_model(golden(name)).value();

  CHECK(model->check(model->defaults()));
}

TEST_CASE("a model can be warmed up as it asks to be") {
  const auto name = GENERATE("wan-tiny", "wan-dual-tiny", "flux-tiny");
  const auto model = load_model(golden(name)).value();

  CHECK(model->run(model->warm_up_request().value(), {}));
}

TEST_CASE("a family that this build does not know is refused with those it knows") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_json("model_index.json",
                   [](nlohmann::json& index) { index["_class_name"] = "PaintPipeline"; });

  const auto model = load_model(copy.path());

  REQUIRE(!model);
  CHECK(model.error().code == ferry::errc::unsupported);
  CHECK_THAT(model.error().detail,
             Catch::Contains("unknown class 'PaintPipeline'; known are FluxPipeline, WanPipeline"));
}

TEST_CASE("a family's own refusal is handed on") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_json("transformer/config.json",
                   [](nlohmann::json& config) { config.erase("ffn_dim"); });

  const auto model = load_model(copy.path());

  REQUIRE(!model);
  CHECK_THAT(model.error().detail, Catch::Contains("ffn_dim is missing"));
}
