// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/gather_plan.hpp>
#include <ferry/offload/resolve.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/plus_one.hpp"
#include "support/resolution.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

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

/// A denoiser of two blocks, and what its ranks say of them.
struct gathered_model {
  explicit gathered_model(const std::function<void(test::fake_module&)>& add = {},
                          std::string_view text = dit_alone) {
    for (int i = 0; i != 2; ++i) {
      auto& block = *tree->at("transformer.blocks." + std::to_string(i));
      block.parameter("long", test::tensor({10'000}, dtype::bf16, 5));
      if (add)
        add(block);
    }
    subject.declare({.dits = {"transformer"}, .encoders = {"text_encoder"}})
        .plan({.block_attrs = {{"transformer", {"blocks"}}},
               .encoder_block_attrs = {{"text_encoder", {"layers"}}},
               .encoder_dlo_weight_replication = {"text_encoder"}});
    replan(text);
  }

  void replan(std::string_view text = dit_alone) {
    plan = plan_transfers(resolve(subject, test::compact(text)).value());
    REQUIRE(plan_gathers(plan, test::compact(text), 2));
  }

  /// Adds a tensor that is in no block of `component`.
  void add_beside(const std::string& component, const char* name, unsigned char fill) {
    tree->at(component)->parameter(name, test::tensor({8}, dtype::f32, fill));
    replan();
  }

  [[nodiscard]] test::fake_tensor& at(const std::string& name) {
    return *tree->at("transformer.blocks.1")->own_tensors().at(name);
  }
  [[nodiscard]] std::vector<weight_identity> said(const loader_transforms* left = nullptr) {
    return identify_gathers(subject, plan, left);
  }

  test::fake_node tree =
      node("root")
          ->child("transformer", node("dit")->child("blocks", test::blocks(2, 256)))
          ->child("text_encoder", node("encoder")->child("layers", test::blocks(2, 128, 9)));
  test::fake_pipeline subject{tree};
  transfer_plan plan;
};

TEST_CASE("plans that gather differently have different digests", "[offload][gather]") {
  const auto first = gathered_model({}, both).said();

  REQUIRE(first.size() == 4);
  CHECK(first[2].path == "transformer.blocks.0");
  CHECK(first[2].digest.size() == 16);
  CHECK(first[2].digest != first[3].digest);
  CHECK(gathered_model({}, both).said() == first);
  CHECK(gathered_model().said().size() == 2);
}

TEST_CASE("a block is another one if a tensor has other bytes at its begin, inside or at its end",
          "[offload][gather]") {
  gathered_model subject;
  const auto before = subject.said();
  const auto at =
      GENERATE(std::size_t{0}, std::size_t{6'400}, std::size_t{13'000}, std::size_t{19'999});
  CAPTURE(at);

  subject.at("long").storage->bytes[at] = std::byte{6};

  const auto after = subject.said();
  CHECK(after[0] == before[0]);
  CHECK(after[1].path == before[1].path);
  CHECK(after[1].digest != before[1].digest);
  CHECK(subject.subject.mutations().empty());
}

TEST_CASE("a short tensor counts with all its bytes", "[offload][gather]") {
  gathered_model subject;
  const auto before = subject.said();
  const auto at = GENERATE(std::size_t{0}, std::size_t{511}, std::size_t{1023});

  subject.at("weight").storage->bytes[at] = std::byte{6};

  CHECK(subject.said()[1].digest != before[1].digest);
}

TEST_CASE("what stays on the device beside gathered blocks counts, tensor by tensor",
          "[offload][gather]") {
  gathered_model subject;
  subject.add_beside("transformer", "norm", 1);
  subject.add_beside("transformer", "pos", 2);
  subject.add_beside("text_encoder", "embed", 3);
  gathered_model other;
  other.add_beside("transformer", "norm", 1);
  other.add_beside("transformer", "pos", 7);
  other.add_beside("text_encoder", "embed", 4);

  const auto said = subject.said();
  const auto otherwise = other.said();

  REQUIRE(said.size() == 4);
  CHECK(said[2].path == "transformer.norm");
  CHECK(said[3].path == "transformer.pos");
  CHECK(otherwise[2] == said[2]);
  CHECK(otherwise[3].path == said[3].path);
  CHECK(otherwise[3].digest != said[3].digest);
}

TEST_CASE("a tensor beside gathered blocks is another one if its shape is", "[offload][gather]") {
  gathered_model subject;
  gathered_model other;
  subject.tree->at("transformer")->parameter("pos", test::tensor({2, 4}));
  other.tree->at("transformer")->parameter("pos", test::tensor({4, 2}));
  subject.replan();
  other.replan();

  CHECK(subject.said().back().digest != other.said().back().digest);
}

TEST_CASE("what checkpoints leave out, and what lies between elements, does not count",
          "[offload][gather]") {
  const auto with = [](unsigned char fill) {
    return gathered_model([fill](test::fake_module& block) {
      block.buffer("scratch", test::tensor({8}, dtype::f32, fill), false);
      block.parameter("none", test::tensor({0}));
      const auto base = test::tensor({4, 8}, dtype::u8, fill);
      for (std::size_t row = 0; row != 4; ++row)
        for (std::size_t column = 0; column != 4; ++column)
          base->storage->bytes[row * 8 + column] = std::byte{3};
      block.parameter("columns", test::view(base, {4, 4}, {1, 8}, 0));
    });
  };

  CHECK(with(1).said() == with(2).said());
}

TEST_CASE("a view counts with its own elements", "[offload][gather]") {
  gathered_model subject([](test::fake_module& block) {
    block.parameter("columns", test::view(test::tensor({4, 8}, dtype::u8), {4, 4}, {1, 8}, 0));
  });
  const auto before = subject.said();

  subject.at("columns").storage->bytes[3 * 8 + 3] = std::byte{9};

  CHECK(subject.said()[1].digest != before[1].digest);
}

TEST_CASE("a tensor that is left to be rearranged counts as the model computes with it",
          "[offload][gather]") {
  gathered_model stored;
  gathered_model loaded;
  for (auto& each : loaded.at("long").storage->bytes)
    each = std::byte{6};
  const auto left = test::plus_one_for({"transformer.blocks.1.long"});

  CHECK(stored.said(left.get()) == loaded.said());
  CHECK(stored.said() != loaded.said());
  CHECK_FALSE(left->empty());
}

} // namespace
} // namespace ferry
