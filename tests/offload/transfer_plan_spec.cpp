// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/transfer_plan.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"

#include <algorithm>
#include <string>

namespace ferry {
namespace {

using test::fake_node;

/// A component with one stack for each list of blocks.
resolved_component component(std::string path, const fake_node& root,
                             const std::vector<std::string>& lists = {}) {
  resolved_component made;
  made.path = path;
  made.node = root;
  made.selected = !lists.empty();
  for (const auto& list : lists) {
    auto& stack = made.stacks.emplace_back();
    const auto node = root->at(list);
    for (const auto& [name, child] : node->children())
      stack.blocks.push_back({path + "." + list + "." + name, child});
  }
  return made;
}

std::size_t resident_bytes_at(const transfer_plan& plan, std::string_view path) {
  const auto found = std::ranges::find(plan.residents, path, &planned_resident::path);
  return found == plan.residents.end() ? 0 : found->layout.bytes;
}

std::size_t times_placed(const transfer_plan& plan, const test::fake_tensor_ptr& tensor) {
  std::size_t count = 0;
  const object_id identity{reinterpret_cast<std::uintptr_t>(tensor.get())};
  const auto count_in = [&](const packed_layout& layout) {
    count += static_cast<std::size_t>(
        std::ranges::count(layout.tensors, identity, &packed_tensor::identity));
  };
  for (const auto& block : plan.blocks)
    count_in(block.layout);
  for (const auto& resident : plan.residents)
    count_in(resident.layout);
  return count;
}

TEST_CASE("blocks are numbered over all rings, encoders first", "[offload][transfer_plan]") {
  resolved_offload_plan resolved;
  const auto dit = test::node("dit")->child("blocks", test::blocks(2, 64));
  const auto encoder = test::node("encoder")
                           ->child("first", test::blocks(2, 16))
                           ->child("second", test::blocks(3, 80));
  resolved.dits = {component("transformer", dit, {"blocks"})};
  resolved.encoders = {component("text_encoder", encoder, {"first", "second"})};

  const auto plan = plan_transfers(resolved);

  REQUIRE(plan.rings.size() == 3);
  CHECK(plan.rings[0].path == "text_encoder.first");
  CHECK(plan.rings[0].blocks == std::vector{block_id{0}, block_id{1}});
  CHECK(plan.rings[1].path == "text_encoder.second");
  CHECK(plan.rings[1].blocks == std::vector{block_id{2}, block_id{3}, block_id{4}});
  CHECK(plan.rings[2].path == "transformer");
  CHECK(plan.rings[2].blocks == std::vector{block_id{5}, block_id{6}});
  CHECK(plan.blocks[5].path == "transformer.blocks.0");
  CHECK(plan.blocks[5].node == dit->at("blocks.0")->identity());
}

TEST_CASE("a slot is as large as the largest block, whatever its element types",
          "[offload][transfer_plan]") {
  const auto mixed = test::node("block")
                         ->parameter("a", test::tensor({100}, dtype::f32))
                         ->parameter("b", test::tensor({3}, dtype::bf16))
                         ->buffer("c", test::tensor({}, dtype::i64));
  const auto dit =
      test::node("dit")->child("blocks", test::list({test::block(16), mixed, test::block(200)}));
  resolved_offload_plan resolved;
  resolved.dits = {component("transformer", dit, {"blocks"})};

  const auto plan = plan_transfers(resolved);

  CHECK(plan.blocks[1].layout.bytes == 512 + 256 + 256);
  CHECK(plan.slot_bytes == 1024);
  CHECK(plan.device_bytes(2) == 2048);
}

TEST_CASE("what is outside the blocks of a component is resident", "[offload][transfer_plan]") {
  const auto dit = test::node("dit")
                       ->parameter("pos", {64})
                       ->buffer("freqs", test::tensor({8}))
                       ->child("double", test::blocks(2))
                       ->child("head", test::node("linear")->parameter("weight", {128}))
                       ->child("single", test::blocks(2));
  auto both = component("transformer", dit, {"double"});
  const auto single = component("transformer", dit, {"single"});
  both.stacks[0].blocks.insert(both.stacks[0].blocks.end(), single.stacks[0].blocks.begin(),
                               single.stacks[0].blocks.end());
  resolved_offload_plan resolved;
  resolved.dits = {both};

  const auto plan = plan_transfers(resolved);

  REQUIRE(plan.rings.size() == 1);
  CHECK(plan.rings[0].blocks.size() == 4);
  CHECK(resident_bytes_at(plan, "transformer") == 256 + 256 + 512);
  CHECK(plan.resident_bytes == 1024);
}

TEST_CASE("components without blocks are resident as a whole", "[offload][transfer_plan]") {
  resolved_offload_plan resolved;
  resolved.dits = {component("transformer", test::node("dit")->child("blocks", test::blocks(4)))};
  resolved.vaes = {component("vae", test::node("vae")->parameter("w", {64}))};
  resolved.residents = {component("scheduler", test::node("scheduler")->parameter("w", {64}))};

  const auto plan = plan_transfers(resolved);

  CHECK(plan.rings.empty());
  CHECK(resident_bytes_at(plan, "transformer") == 4 * 256);
  CHECK(resident_bytes_at(plan, "vae") == 256);
  CHECK(resident_bytes_at(plan, "scheduler") == 256);
  CHECK(plan.slot_bytes == 0);
}

TEST_CASE("a block list reached by another path is not moved as a whole",
          "[offload][transfer_plan]") {
  const auto layers = test::blocks(4, 640);
  const auto dit =
      test::node("dit")
          ->child("inner", test::node("inner")->parameter("scale", {64})->child("layers", layers))
          ->child("layers", layers);
  resolved_offload_plan resolved;
  resolved.dits = {component("transformer", dit, {"layers"})};

  const auto plan = plan_transfers(resolved);

  CHECK(plan.blocks.size() == 4);
  CHECK(plan.resident_bytes == 256);
}

TEST_CASE("a weight tied between a block and its surroundings is resident, once",
          "[offload][transfer_plan]") {
  const auto tied = test::tensor({64});
  const auto embedding = test::node("embedding")->parameter("weight", tied);
  const auto block = test::block()->child("head", test::node("linear")->parameter("weight", tied));
  const auto encoder = test::node("encoder")
                           ->child("embed", embedding)
                           ->child("blocks", test::list({block, test::block()}));
  resolved_offload_plan resolved;
  resolved.encoders = {component("text_encoder", encoder, {"blocks"})};

  const auto plan = plan_transfers(resolved);

  CHECK(times_placed(plan, tied) == 1);
  CHECK(resident_bytes_at(plan, "text_encoder") == 256);
  CHECK(plan.blocks[0].layout.bytes == 256);
}

TEST_CASE("tensors of two blocks that share memory are resident, each of them",
          "[offload][transfer_plan]") {
  const auto base = test::tensor({64});
  const auto alias = test::view(base, {32}, {1}, 16);
  const auto dit =
      test::node("dit")->child("blocks", test::list({test::block()->parameter("shared", base),
                                                     test::block()->parameter("shared", alias)}));
  resolved_offload_plan resolved;
  resolved.dits = {component("transformer", dit, {"blocks"})};

  const auto plan = plan_transfers(resolved);

  REQUIRE(plan.residents.size() == 1);
  CHECK(plan.residents[0].layout.storages.size() == 1);
  CHECK(plan.residents[0].layout.tensors.size() == 2);
  CHECK(plan.blocks[0].layout.bytes == 256);
  CHECK(plan.blocks[1].layout.bytes == 256);
}

TEST_CASE("blocks that use separate parts of one storage stay streamed",
          "[offload][transfer_plan]") {
  const auto base = test::tensor({128});
  const auto dit = test::node("dit")->child(
      "blocks", test::list({test::node("block")->parameter("w", test::view(base, {64}, {1}, 0)),
                            test::node("block")->parameter("w", test::view(base, {64}, {1}, 64))}));
  resolved_offload_plan resolved;
  resolved.dits = {component("transformer", dit, {"blocks"})};

  const auto plan = plan_transfers(resolved);

  CHECK(plan.blocks.size() == 2);
  CHECK(plan.residents.empty());
}

TEST_CASE("a weight tied across components is charged once", "[offload][transfer_plan]") {
  const auto tied = test::tensor({64});
  resolved_offload_plan resolved;
  resolved.encoders = {component("text_encoder", test::node("encoder")->parameter("w", tied))};
  resolved.dits = {component("transformer", test::node("dit")->parameter("w", tied))};

  const auto plan = plan_transfers(resolved);

  CHECK(plan.resident_bytes == 256);
  CHECK(times_placed(plan, tied) == 1);
}

TEST_CASE("part of a block that is also reachable outside is resident",
          "[offload][transfer_plan]") {
  const auto norm = test::node("norm")->parameter("weight", {64});
  const auto dit =
      test::node("dit")
          ->child("blocks", test::list({test::block()->child("norm", norm), test::block()}))
          ->child("first_norm", norm);
  resolved_offload_plan resolved;
  resolved.dits = {component("transformer", dit, {"blocks"})};

  const auto plan = plan_transfers(resolved);

  CHECK(resident_bytes_at(plan, "transformer") == 256);
  CHECK(times_placed(plan, norm->own_tensors().at("weight")) == 1);
}

TEST_CASE("a component that is brought in on demand is left alone, its ring aside",
          "[offload][transfer_plan]") {
  auto encoder =
      component("text_encoder",
                test::node("encoder")->parameter("embed", {640})->child("blocks", test::blocks(3)),
                {"blocks"});
  encoder.on_demand = true;
  resolved_offload_plan resolved;
  resolved.encoders = {encoder};

  const auto plan = plan_transfers(resolved);

  CHECK(plan.blocks.size() == 3);
  CHECK(plan.residents.empty());
}

TEST_CASE("what a block shares with an on-demand component stays on the device for both",
          "[offload][transfer_plan]") {
  const auto tied = test::tensor({64});
  auto encoder = component(
      "text_encoder",
      test::node("encoder")
          ->parameter("embed", tied)
          ->parameter("other", {64})
          ->child("blocks", test::list({test::block()->parameter("head", tied), test::block()})),
      {"blocks"});
  encoder.on_demand = true;
  resolved_offload_plan resolved;
  resolved.encoders = {encoder};

  const auto plan = plan_transfers(resolved);

  CHECK(resident_bytes_at(plan, "text_encoder") == 256);
  CHECK(times_placed(plan, tied) == 1);
}

TEST_CASE("what a placed component shares with an on-demand one belongs to the placed one",
          "[offload][transfer_plan]") {
  const auto tied = test::tensor({64});
  auto encoder = component("text_encoder", test::node("encoder")->parameter("w", tied));
  encoder.on_demand = true;
  resolved_offload_plan resolved;
  resolved.encoders = {encoder};
  resolved.dits = {component("transformer", test::node("dit")->parameter("w", tied))};

  const auto plan = plan_transfers(resolved);

  REQUIRE(plan.residents.size() == 1);
  CHECK(plan.residents[0].path == "transformer");
}

TEST_CASE("what a block shares with a child that is staged on demand is resident",
          "[offload][transfer_plan]") {
  const auto tied = test::tensor({64});
  const auto staged = test::node("staged")->parameter("w", tied);
  auto dit = component(
      "transformer",
      test::node("dit")
          ->child("blocks", test::list({test::block()->parameter("w", tied), test::block()}))
          ->child("staged", staged),
      {"blocks"});
  dit.children = {component("transformer.staged", staged)};
  dit.children[0].selected = true;
  dit.children[0].on_demand = true;
  resolved_offload_plan resolved;
  resolved.dits = {dit};

  const auto plan = plan_transfers(resolved);

  CHECK(resident_bytes_at(plan, "transformer") == 256);
  CHECK(plan.blocks[0].layout.bytes == 256);
}

TEST_CASE("a block that two stacks name is streamed once", "[offload][transfer_plan]") {
  const auto dit = test::node("dit")->child("blocks", test::blocks(3));
  resolved_offload_plan resolved;
  resolved.dits = {component("transformer", dit, {"blocks", "blocks"})};

  const auto plan = plan_transfers(resolved);

  CHECK(plan.blocks.size() == 3);
  CHECK(plan.rings.size() == 1);
}

TEST_CASE("a component inside another is placed by its own entry", "[offload][transfer_plan]") {
  const auto language_model = test::node("lm")->parameter("w", {64});
  resolved_offload_plan resolved;
  resolved.dits = {component("language_model", language_model)};
  resolved.encoders = {
      component("mllm", test::node("mllm")->parameter("w", {64})->child("lm", language_model))};

  const auto plan = plan_transfers(resolved);

  CHECK(resident_bytes_at(plan, "mllm") == 256);
  CHECK(resident_bytes_at(plan, "language_model") == 256);
}

TEST_CASE("stacks of nested children are streamed, and children staged on demand are left alone",
          "[offload][transfer_plan]") {
  const auto nested = test::node("nested")->parameter("scale", {64})->child("h", test::blocks(2));
  const auto staged = test::node("staged")->parameter("w", {640});
  auto dit = component("transformer",
                       test::node("dit")
                           ->child("blocks", test::blocks(2))
                           ->child("nested", nested)
                           ->child("staged", staged),
                       {"blocks"});
  dit.children = {component("transformer.nested", nested, {"h"}),
                  component("transformer.staged", staged)};
  dit.children[1].selected = true;
  dit.children[1].on_demand = true;
  resolved_offload_plan resolved;
  resolved.dits = {dit};

  const auto plan = plan_transfers(resolved);

  REQUIRE(plan.rings.size() == 2);
  CHECK(plan.rings[0].path == "transformer.blocks");
  CHECK(plan.rings[1].path == "transformer.nested.h");
  CHECK(plan.resident_bytes == 256);
}

TEST_CASE("a block without bytes of its own is in no ring", "[offload][transfer_plan]") {
  const auto placeholder = test::node("missing")->parameter("w", test::meta_tensor({64}));
  const auto dit = test::node("dit")->child(
      "blocks", test::list({test::block(), test::block(), placeholder, test::node("identity")}));
  resolved_offload_plan resolved;
  resolved.dits = {component("transformer", dit, {"blocks"})};

  const auto plan = plan_transfers(resolved);

  CHECK(plan.blocks.size() == 2);
  CHECK(plan.rings[0].blocks == std::vector{block_id{0}, block_id{1}});
}

TEST_CASE("tensors that no module registered are not planned", "[offload][transfer_plan]") {
  const auto dit = test::node("dit")->unregistered("cache", test::tensor({64}));
  resolved_offload_plan resolved;
  resolved.dits = {component("transformer", dit)};

  CHECK(plan_transfers(resolved).residents.empty());
}

} // namespace
} // namespace ferry
