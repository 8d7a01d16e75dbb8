// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/resolve.hpp>
#include <ferry/offload/transfer_plan.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace ferry {
namespace {

using test::fake_node;
using test::node;
using test::tensor;

constexpr auto both_modules = R"({"mode":"module","components":["dit","text_encoder"]})";
constexpr auto encoder_modules = R"({"mode":"module","components":["text_encoder"]})";

/// A module of `kib` KiB.
fake_node of_size(std::int64_t kib) {
  return node("test.module")->parameter("weight", {kib * 256});
}

/// Two denoisers of 4 and 6 KiB, two encoders of 2 and 3 KiB, a decoder of 1 KiB.
fake_node two_of_each() {
  return node("test.root")
      ->child("transformer", of_size(4))
      ->child("transformer_2", of_size(6))
      ->child("text_encoder", of_size(2))
      ->child("text_encoder_2", of_size(3))
      ->child("vae", of_size(1));
}

transfer_plan plan_of(const fake_node& root, std::string_view config) {
  test::fake_pipeline subject{root};
  subject.declare({.dits = {"transformer", "transformer_2"},
                   .encoders = {"text_encoder", "text_encoder_2"},
                   .vaes = {"vae"}});
  return plan_transfers(resolve(subject, test::compact(config)).value());
}

/// A layerwise plan over one stack `blocks` a denoiser, with a head of two blocks each.
transfer_plan headed_plan(const std::vector<fake_node>& dits) {
  resolved_offload_plan resolved;
  resolved.strategy = offload_strategy::layer_wise;
  for (const auto& dit : dits) {
    auto& component = resolved.dits.emplace_back();
    component.path = "dit" + std::to_string(resolved.dits.size());
    component.node = dit;
    component.selected = true;
    auto& stack = component.stacks.emplace_back();
    for (const auto& [name, block] : dit->at("blocks")->own_children())
      stack.blocks.push_back({component.path + ".blocks." + name, block, stack.blocks.size() < 2});
  }
  return plan_transfers(resolved);
}

std::vector<std::string> excluded_by(const transfer_plan& plan, std::string_view path) {
  std::vector<std::string> paths;
  const auto group = std::ranges::find(plan.groups, path, &planned_group::path);
  if (group != plan.groups.end())
    for (const auto id : group->excludes)
      paths.push_back(plan.groups.at(static_cast<std::size_t>(id)).path);
  return paths;
}

std::vector<std::string> group_paths(const transfer_plan& plan) {
  std::vector<std::string> paths;
  for (const auto& each : plan.groups)
    paths.push_back(each.path);
  return paths;
}

using paths = std::vector<std::string>;

TEST_CASE("with the model-level strategy every selected denoiser and encoder is a group",
          "[offload][group_plan]") {
  const auto root = two_of_each();

  const auto plan = plan_of(root, both_modules);

  CHECK(group_paths(plan) ==
        paths{"text_encoder", "text_encoder_2", "transformer", "transformer_2"});
  CHECK(plan.groups[2].id == group_id{2});
  CHECK(plan.groups[2].entries == std::vector{root->at("transformer")->identity()});
  CHECK(plan.groups[2].layout.bytes == 4096);
  CHECK(plan.blocks.empty());
}

TEST_CASE("decoders stay on the device when whole components are swapped",
          "[offload][group_plan]") {
  const auto plan = plan_of(two_of_each(), both_modules);

  REQUIRE(plan.residents.size() == 1);
  CHECK(plan.residents[0].path == "vae");
}

TEST_CASE("a denoiser makes the encoders and the other denoisers leave", "[offload][group_plan]") {
  const auto plan = plan_of(two_of_each(), both_modules);

  CHECK(excluded_by(plan, "transformer") ==
        paths{"text_encoder", "text_encoder_2", "transformer_2"});
}

TEST_CASE("an encoder makes the denoisers leave and no other encoder", "[offload][group_plan]") {
  const auto plan = plan_of(two_of_each(), both_modules);

  CHECK(excluded_by(plan, "text_encoder") == paths{"transformer", "transformer_2"});
}

TEST_CASE("groups need the device memory of the larger side and no more", "[offload][group_plan]") {
  const auto plan = plan_of(two_of_each(), both_modules);

  CHECK(plan.group_bytes == 6 * 1024);
  CHECK(plan.device_bytes(2) == 6 * 1024 + 1024);
}

TEST_CASE("encoders lie side by side and denoisers over them", "[offload][group_plan]") {
  auto root = two_of_each();
  root->at("text_encoder_2")->parameter("more", {1024});

  const auto plan = plan_of(root, both_modules);

  CHECK(plan.groups[0].offset == 0);
  CHECK(plan.groups[1].offset == 2 * 1024);
  CHECK(plan.groups[2].offset == 0);
  CHECK(plan.groups[3].offset == 0);
  CHECK(plan.group_bytes == 9 * 1024);
}

TEST_CASE("an unselected component stays, makes others leave, and leaves for nobody",
          "[offload][group_plan]") {
  const auto plan = plan_of(two_of_each(), encoder_modules);

  CHECK(excluded_by(plan, "transformer") == paths{"text_encoder", "text_encoder_2"});
  CHECK(excluded_by(plan, "text_encoder").empty());
  CHECK(plan.groups[2].layout.bytes == 0);
  CHECK(plan.group_bytes == 5 * 1024);
  CHECK(plan.resident_bytes == (4 + 6 + 1) * 1024);
}

TEST_CASE("an unselected encoder beside unselected denoisers is no group",
          "[offload][group_plan]") {
  test::fake_pipeline subject{two_of_each()};
  subject.declare({.dits = {"transformer"}, .encoders = {"text_encoder", "vae"}});

  const auto plan = plan_transfers(resolve(subject, test::compact(encoder_modules)).value());

  CHECK(group_paths(plan) == paths{"text_encoder", "transformer"});
}

TEST_CASE("weights tied across groups are resident and in no group", "[offload][group_plan]") {
  const auto tied = tensor({256});
  auto root = two_of_each();
  root->at("transformer")->parameter("tied", tied);
  root->at("text_encoder_2")->parameter("tied", tied);

  const auto plan = plan_of(root, both_modules);

  CHECK(plan.residents.front().path == "text_encoder_2");
  CHECK(plan.residents.front().layout.bytes == 1024);
  CHECK(plan.groups[1].layout.bytes == 3 * 1024);
  CHECK(plan.groups[2].layout.bytes == 4 * 1024);
}

TEST_CASE("a component whose bytes are all shared is no group", "[offload][group_plan]") {
  const auto tied = tensor({256});
  auto root = two_of_each();
  root->at("vae")->parameter("tied", tied);
  root->child("text_encoder_3", node("test.module")->parameter("tied", tied));
  test::fake_pipeline subject{root};
  subject.declare(
      {.dits = {"transformer"}, .encoders = {"text_encoder", "text_encoder_3"}, .vaes = {"vae"}});

  const auto plan = plan_transfers(resolve(subject, test::compact(both_modules)).value());

  CHECK(group_paths(plan) == paths{"text_encoder", "transformer"});
}

TEST_CASE("a component inside another is there together with it", "[offload][group_plan]") {
  auto root = two_of_each();
  root->at("text_encoder")->child("language_model", of_size(8));
  test::fake_pipeline subject{root};
  subject.declare(
      {.dits = {"transformer", "text_encoder.language_model"}, .encoders = {"text_encoder"}});

  const auto plan = plan_transfers(resolve(subject, test::compact(both_modules)).value());

  CHECK(excluded_by(plan, "text_encoder") == paths{"transformer"});
  CHECK(excluded_by(plan, "text_encoder.language_model") == paths{"transformer"});
  CHECK(plan.group_bytes == 10 * 1024);
}

TEST_CASE("a resident head is one group that its blocks bring in", "[offload][group_plan]") {
  const auto dit = node("dit")->child("blocks", test::blocks(5))->parameter("rest", {64});

  const auto plan = headed_plan({dit});

  REQUIRE(plan.groups.size() == 1);
  CHECK(plan.groups[0].path == "dit1");
  CHECK(plan.groups[0].layout.bytes == 2 * 256);
  CHECK(plan.groups[0].entries ==
        std::vector{dit->at("blocks.0")->identity(), dit->at("blocks.1")->identity()});
  CHECK(plan.blocks.size() == 3);
  CHECK(plan.blocks[0].path == "dit1.blocks.2");
  CHECK(plan.resident_bytes == 256);
  CHECK(plan.device_bytes(2) == 256 + 2 * 256 + 2 * 256);
}

TEST_CASE("a head that covers every block leaves nothing to stream", "[offload][group_plan]") {
  const auto plan = headed_plan({node("dit")->child("blocks", test::blocks(2))});

  CHECK(plan.rings.empty());
  CHECK(plan.groups[0].layout.bytes == 2 * 256);
  CHECK(plan.device_bytes(2) == 2 * 256);
}

TEST_CASE("heads of two denoisers exclude each other and share their place",
          "[offload][group_plan]") {
  const auto plan = headed_plan({node("dit")->child("blocks", test::blocks(4)),
                                 node("dit")->child("blocks", test::blocks(4, 128))});

  CHECK(excluded_by(plan, "dit1") == paths{"dit2"});
  CHECK(excluded_by(plan, "dit2") == paths{"dit1"});
  CHECK(plan.group_bytes == 2 * 512);
}

TEST_CASE("a storage that a head shares with a streamed block is resident",
          "[offload][group_plan]") {
  const auto tied = tensor({64});
  auto dit = node("dit")->child("blocks", test::blocks(4));
  dit->at("blocks.1")->parameter("tied", tied);
  dit->at("blocks.3")->parameter("tied", tied);

  const auto plan = headed_plan({dit});

  CHECK(plan.resident_bytes == 256);
  CHECK(plan.groups[0].layout.bytes == 2 * 256);
  CHECK(plan.slot_bytes == 256);
}

} // namespace
} // namespace ferry
