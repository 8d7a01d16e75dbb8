// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/actors/runtime_backend.hpp>
#include <ferry/offload/checkpoint.hpp>
#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/host_weight_plan.hpp>
#include <ferry/offload/resident_weights.hpp>
#include <ferry/platform/sim_device.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "models/diffusion_model.hpp"
#include "models/load_model.hpp"
#include "torch/catch.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using strings = std::vector<std::string>;

const auto checkpoint = std::filesystem::path(FERRY_TEST_DATA) / "wan-dual-tiny";

host_weight_planning plan_for(const torch_pipeline& subject) {
  std::vector<weight_source> sources;
  const strings dits{"transformer", "transformer_2"};
  for (const auto& each : dits)
    sources.push_back({.prefix = each + ".",
                       .open = [each] { return component_checkpoint::open(checkpoint / each); },
                       .custom_loader = false,
                       .adapter = nullptr});
  return plan_host_weights(subject.root(), dits, sources, {});
}

TEST_CASE("two denoisers whose weights stay in the checkpoint compute as with everything resident",
          "[app][host_weights]") {
  const auto model = load_model(checkpoint).value();
  auto asked = model->defaults();
  asked.steps = 2;
  const auto subject = std::make_shared<torch_pipeline>(model->description());
  const auto expected = [&] {
    const resident_weights everything(*subject);
    return model->run(asked, {}).value();
  }();
  auto plan = plan_for(*subject);
  REQUIRE(plan);
  CHECK(plan->bindings.at("transformer_2.blocks.0.attn1.to_q.weight").file.parent_path() ==
        checkpoint / "transformer_2");
  const auto gpu = std::make_shared<sim_device>(sim_options{});
  runtime through{gpu, {}};
  REQUIRE(through.start());
  loaded_pipeline loaded{subject};
  loaded.attach({std::move(*plan), {}, false});
  strings warnings;
  const auto config = resolve_config(std::nullopt, {.enable_distributed_layerwise_offload = true,
                                                    .dlo_use_allgather = false})
                          .value()
                          .config;

  const auto started = start_offload(
      std::move(loaded), runtime_backends(through, config, device_presence::present), warnings);

  REQUIRE(started);
  REQUIRE(through.begin_request());
  const auto made = model->run(asked, {});
  REQUIRE(through.end_request());
  REQUIRE(made);
  CHECK(at::equal(made->latents, expected.latents));
  CHECK(started->backend->disable());
  CHECK(gpu->race_count() == 0);
  CHECK(gpu->counters().d2h_bytes == 0);
}

} // namespace
} // namespace ferry
