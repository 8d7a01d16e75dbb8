// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "placement.hpp"
#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <memory>
#include <string>

namespace ferry {
namespace {

using test::fake_module;
using test::fake_pipeline;

constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";
constexpr auto whole_dit = R"({"mode":"module","components":["dit"]})";
constexpr auto unpinned = R"({"mode":"layer","components":["dit","text_encoder"],
                              "pin_memory":false})";

// As it lies with and without padding: a block is 64 bytes in a place of 256. An encoder has three
// blocks and an embedding of 64 bytes, the denoiser four and 16 bytes, the decoder 16 bytes.
constexpr std::size_t place = 256;
constexpr std::size_t block = 64;
constexpr std::size_t rest = 16;

/// A pipeline of a denoiser, an encoder and a decoder under a runtime over a simulated device.
struct queried {
  queried() { model->declare(test::roles).plan(test::planned()); }

  void enable(const offload_config& config) {
    REQUIRE(subject.start());
    REQUIRE(subject.enable(model, config));
  }

  void call(const std::string& path) {
    model->call(path, [](fake_module&) {});
  }

  [[nodiscard]] component_state of(const std::string& path) const {
    return subject.state().value().components.at(path);
  }

  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  std::shared_ptr<fake_pipeline> model = std::make_shared<fake_pipeline>(test::tree());
  runtime subject{gpu, {}};
};

TEST_CASE("a component that no request moves is on the device for as long as it is enabled",
          "[actors][query]") {
  queried run;
  run.enable(test::compact(GENERATE(as<const char*>{}, test::both, whole)));

  const auto vae = run.of("vae");

  CHECK(vae.on_device);
  CHECK(vae.device_bytes == place);
  CHECK(vae.pinned_bytes == 0);
  CHECK(vae.pageable_bytes == rest);
}

TEST_CASE("streamed blocks are in pinned memory, and what stays beside them is on the device",
          "[actors][query]") {
  queried run;
  run.enable(test::compact(test::both));

  const auto dit = run.of("transformer");

  CHECK_FALSE(dit.on_device);
  CHECK(dit.device_bytes == place);
  CHECK(dit.pinned_bytes == 4 * place);
  CHECK(dit.pageable_bytes == rest);
}

TEST_CASE("host masters that are not pinned are pageable bytes", "[actors][query]") {
  queried run;
  run.enable(test::compact(unpinned));

  CHECK(run.of("transformer").pinned_bytes == 0);
  CHECK(run.of("transformer").pageable_bytes == 4 * block + rest);
}

TEST_CASE("a component that is staged is on the device from its call until its request ends",
          "[actors][query]") {
  queried run;
  run.enable(test::compact(whole));
  REQUIRE(run.subject.begin_request());

  run.call("transformer");

  CHECK(run.of("transformer").on_device);
  CHECK(run.of("transformer").device_bytes == 5 * place);
  CHECK(run.of("transformer").pinned_bytes == 5 * place);
  CHECK_FALSE(run.of("text_encoder").on_device);
  CHECK(run.of("text_encoder").device_bytes == 0);
  CHECK(run.of("text_encoder").pinned_bytes == 4 * place);
  REQUIRE(run.subject.end_request());
  CHECK_FALSE(run.of("transformer").on_device);
  CHECK(run.of("transformer").device_bytes == 0);
}

TEST_CASE("a component that stays and makes others leave is on the device before it is called",
          "[actors][query]") {
  queried run;
  run.enable(test::compact(whole_dit));

  CHECK(run.of("text_encoder").on_device);
  CHECK(run.of("text_encoder").device_bytes == 4 * place);
}

TEST_CASE("resident layers count on the device while they are there", "[actors][query]") {
  queried run;
  auto plan = test::planned();
  plan.resident_dit_paths = {"transformer"};
  run.model->plan(plan);
  run.enable(test::resident(2));

  REQUIRE(run.subject.stage_in("transformer"));
  CHECK(run.of("transformer").on_device);
  CHECK(run.of("transformer").device_bytes == 3 * place);

  REQUIRE(run.subject.stage_out("transformer"));
  CHECK_FALSE(run.of("transformer").on_device);
  CHECK(run.of("transformer").device_bytes == place);
  CHECK(run.of("transformer").pinned_bytes == 4 * place);
}

TEST_CASE("what a component stages itself counts nowhere", "[actors][query]") {
  queried run;
  run.model->tree()->at("text_encoder")->stages();
  auto plan = test::planned();
  plan.on_demand_component_paths = {"text_encoder"};
  run.model->plan(plan);
  run.enable(test::compact(test::both));

  const auto encoder = run.of("text_encoder");

  CHECK(encoder.on_demand);
  CHECK_FALSE(encoder.on_device);
  CHECK(encoder.device_bytes == 0);
  CHECK(encoder.pinned_bytes == 3 * place);
  CHECK(encoder.pageable_bytes == 0);
}

TEST_CASE("what the components have on the device and pinned is what the totals say",
          "[actors][query]") {
  queried run;
  run.enable(test::compact(GENERATE(as<const char*>{}, test::both, whole, whole_dit, unpinned)));

  const auto state = run.subject.state().value();

  component_state sum;
  for (const auto& [path, each] : state.components) {
    sum.device_bytes += each.device_bytes;
    sum.pinned_bytes += each.pinned_bytes;
  }
  CHECK(sum.device_bytes == state.resident_bytes);
  CHECK(sum.pinned_bytes == state.pinned_bytes);
}

TEST_CASE("a component is nowhere before it is placed", "[actors][query]") {
  queried run;
  placement half(*run.gpu, run.model, {},
                 **plan_placement(*run.model, test::compact(test::both), {}), {2, 2}, nullptr);
  REQUIRE_FALSE(half.survey(true).empty());
  half.carve_memory();

  for (const auto& [path, each] : half.components()) {
    INFO(path);
    CHECK_FALSE(each.on_device);
    CHECK(each.device_bytes + each.pinned_bytes + each.pageable_bytes == 0);
  }
  CHECK(half.take_back());
}

} // namespace
} // namespace ferry
