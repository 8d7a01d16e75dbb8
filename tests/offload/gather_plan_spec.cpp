// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/gather_plan.hpp>
#include <ferry/offload/resolve.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

namespace ferry {
namespace {

using test::node;

constexpr auto both = R"({"mode":"layer","components":["dit","text_encoder"],"layer_options":{
    "dit":{"weight_transfer":"allgather"},"text_encoder":{"weight_transfer":"allgather"}}})";
constexpr auto dit_alone = R"({"mode":"layer","components":["dit","text_encoder"],"layer_options":{
    "dit":{"weight_transfer":"allgather"}}})";

/// Blocks of a denoiser have 1024 bytes, those of its encoder 512.
transfer_plan plan_for(std::string_view config) {
  test::fake_pipeline subject(
      node("root")
          ->child("transformer", node("dit")->child("blocks", test::blocks(4, 256)))
          ->child("text_encoder", node("encoder")->child("layers", test::blocks(2, 128, 9))));
  subject.declare({.dits = {"transformer"}, .encoders = {"text_encoder"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}},
             .encoder_block_attrs = {{"text_encoder", {"layers"}}},
             .encoder_dlo_weight_replication = {"text_encoder"}});
  return plan_transfers(resolve(subject, test::compact(config)).value());
}

TEST_CASE("the blocks of gathered components get a manifest, the others none",
          "[offload][gather]") {
  auto plan = plan_for(dit_alone);

  REQUIRE(plan_gathers(plan, test::compact(dit_alone), 3));

  REQUIRE(plan.gathers.size() == 6);
  for (const auto& block : plan.blocks) {
    const auto& manifest = plan.gathers[static_cast<std::size_t>(block.id)];
    CHECK(manifest.has_value() == (block.path.starts_with("transformer")));
    if (manifest) {
      CHECK(manifest->path == block.path);
      CHECK(manifest->bytes == 1024);
    }
  }
}

TEST_CASE("slots hold what is gathered, and two pieces to send come on top", "[offload][gather]") {
  auto plan = plan_for(both);
  const auto before = plan.device_bytes(2);
  REQUIRE(plan.slot_bytes == 1024);

  REQUIRE(plan_gathers(plan, test::compact(both), 3));

  CHECK(plan.slot_bytes == 1536);
  CHECK(plan.input_bytes == 512);
  CHECK(plan.device_bytes(2) == before + 2 * 512 + 2 * 512);
}

TEST_CASE("chunks make the pieces to send smaller", "[offload][gather]") {
  auto config = test::compact(both);
  config.chunk_bytes = 512;
  auto plan = plan_for(both);

  REQUIRE(plan_gathers(plan, config, 2));

  CHECK(plan.input_bytes == 256);
  CHECK(plan.gathers.back()->chunks.size() == 2);
}

TEST_CASE("one rank gathers nothing", "[offload][gather]") {
  auto plan = plan_for(both);
  const auto before = plan.device_bytes(2);

  REQUIRE(plan_gathers(plan, test::compact(both), 1));

  CHECK(plan.gathers.empty());
  CHECK(plan.device_bytes(2) == before);
}

TEST_CASE("chunks too small for the ranks leave the plan as it was", "[offload][gather]") {
  auto config = test::compact(both);
  config.chunk_bytes = 700;
  auto plan = plan_for(both);

  const auto refused = plan_gathers(plan, config, 3);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_config);
  CHECK(plan.gathers.empty());
  CHECK(plan.slot_bytes == 1024);
}

TEST_CASE("plans that gather differently have different digests", "[offload][gather]") {
  auto first = plan_for(both);
  auto second = plan_for(both);
  auto third = plan_for(both);
  REQUIRE(plan_gathers(first, test::compact(both), 2));
  REQUIRE(plan_gathers(second, test::compact(both), 2));
  REQUIRE(plan_gathers(third, test::compact(dit_alone), 2));

  CHECK(digest_of_gathers(first) == digest_of_gathers(second));
  CHECK(digest_of_gathers(first) != digest_of_gathers(third));
}

} // namespace
} // namespace ferry
