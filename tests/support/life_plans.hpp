// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "support/leased_model.hpp"
#include "support/resolution.hpp"
#include "support/supervised_life.hpp"

#include <memory>
#include <string>
#include <vector>

/// Lives that fault sweeps go through, and the pipeline that lives them.
namespace ferry::test {

[[nodiscard]] inline std::shared_ptr<fake_pipeline> pipeline_of(const fake_node& root) {
  auto made = std::make_shared<fake_pipeline>(root);
  auto plan = planned();
  plan.resident_dit_paths = {"transformer"};
  made->declare(roles).plan(plan);
  return made;
}

[[nodiscard]] inline std::shared_ptr<fake_pipeline> mortal_pipeline() {
  return pipeline_of(tree());
}

/// Its denoiser's blocks take two pieces of `staged` each.
[[nodiscard]] inline std::shared_ptr<fake_pipeline> larger_pipeline() {
  return pipeline_of(tree(4, 3, 100));
}

/// Its encoder stages itself.
[[nodiscard]] inline std::shared_ptr<fake_pipeline> self_staging_pipeline() {
  auto made = mortal_pipeline();
  made->tree()->at("text_encoder")->stages();
  auto plan = planned();
  plan.on_demand_component_paths = {"text_encoder"};
  made->plan(plan);
  return made;
}

/// It has an offload of its own.
[[nodiscard]] inline std::shared_ptr<fake_pipeline> self_offloading_pipeline() {
  struct owning {
    std::shared_ptr<fake_pipeline> pipeline = mortal_pipeline();
    fake_model_offload own;
  };
  const auto both_of_them = std::make_shared<owning>();
  both_of_them->pipeline->offloads_itself(both_of_them->own);
  return {both_of_them, both_of_them->pipeline.get()};
}

/// Three encoder blocks and two steps of four denoiser blocks.
[[nodiscard]] inline std::vector<std::string> all_blocks() {
  std::vector<std::string> paths;
  for (int i = 0; i != 3; ++i)
    paths.push_back("text_encoder.block." + std::to_string(i));
  for (int i = 0; i != 8; ++i)
    paths.push_back("transformer.blocks." + std::to_string(i % 4));
  return paths;
}

/// Allows so little that nothing is pinned but the staging buffers, of one piece each.
[[nodiscard]] inline offload_config staged(offload_config config) {
  config.chunk_bytes = 256;
  config.pin_budget_bytes = 4 * config.chunk_bytes;
  config.on_pin_failure = pin_failure_policy::whole_block_fallback;
  return config;
}

/// Its denoiser is leased; half of it is streamed and half is resident.
[[nodiscard]] inline life_plan leased_life() {
  const auto latest = std::make_shared<std::shared_ptr<leased_model>>();
  return {.pipeline =
              [latest] {
                *latest = std::make_shared<leased_model>();
                return std::shared_ptr<fake_pipeline>{*latest, (*latest)->pipeline().get()};
              },
          .config = legacy_resident(2),
          .calls = all_blocks(),
          .stages = {"transformer"},
          .updated = "transformer",
          .lease = [latest] { return (*latest)->lease(); }};
}

[[nodiscard]] inline std::vector<life_plan> all_life_plans() {
  constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";
  return {
      {.pipeline = mortal_pipeline,
       .config = compact(both),
       .calls = all_blocks(),
       .stages = {},
       .updated = "transformer"},
      {.pipeline = mortal_pipeline,
       .config = resident(2),
       .calls = all_blocks(),
       .stages = {"transformer"},
       .updated = "transformer"},
      {.pipeline = mortal_pipeline,
       .config = compact(whole),
       .calls = {"text_encoder", "transformer", "transformer", "vae", "text_encoder",
                 "transformer"},
       .stages = {"transformer", "text_encoder"},
       .updated = "transformer"},
      {.pipeline = larger_pipeline,
       .config = staged(resident(2)),
       .calls = {"transformer.blocks.0", "transformer.blocks.2", "transformer.blocks.3",
                 "transformer.blocks.2"},
       .stages = {"transformer"},
       .updated = "transformer"},
      {.pipeline = self_staging_pipeline,
       .config = compact(both),
       .calls = all_blocks(),
       .stages = {"text_encoder"},
       .updated = "transformer"},
      {.pipeline = self_offloading_pipeline,
       .config = compact(whole),
       .calls = {"text_encoder", "transformer", "vae"},
       .stages = {},
       .updated = ""},
      leased_life(),
  };
}

/// Returns what a life that met a fault has not brought to an end, has left behind, or what the
/// next life fails with.
[[nodiscard]] inline std::vector<std::string> harm_done(supervised_life& life) {
  auto bad = life.recover();
  for (auto& each : life.leftovers())
    bad.push_back(std::move(each));
  if (!bad.empty() || life.is_over())
    return bad;
  if (!life.live())
    bad.push_back("the next life fails: " + describe(*life.first_failure()));
  for (const auto& each : life.leftovers())
    bad.push_back("the next life leaves " + each);
  return bad;
}

} // namespace ferry::test
