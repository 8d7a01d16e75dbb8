// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/resolve.hpp>
#include <ferry/offload/warning_memory.hpp>

#include "support/catch.hpp"
#include "support/resolution.hpp"

#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace ferry::test;
using Catch::Matchers::Contains;

constexpr std::int64_t elements_of_1024_mib = std::int64_t{256} << 20;

fake_pipeline with_child(const fake_node& child) {
  return fake_pipeline{node("test.root")->child("transformer", dit(4)->child("talker", child))};
}

TEST_CASE("a child of a distributed DiT is looked at from 1024 MiB of parameters on",
          "[offload][resolve]") {
  const auto [elements, type, buffer, children] =
      GENERATE(table<std::int64_t, dtype, std::int64_t, std::size_t>({
          {elements_of_1024_mib, dtype::f32, 1, 0},
          {elements_of_1024_mib, dtype::f32, elements_of_1024_mib, 0},
          {elements_of_1024_mib + 1, dtype::f32, 1, 1},
          {elements_of_1024_mib + 1, dtype::bf16, 1, 0},
          {2 * elements_of_1024_mib + 1, dtype::bf16, 1, 1},
      }));
  const auto child = node("test.talker")
                         ->parameter("weight", meta_tensor({elements}, type))
                         ->buffer("table", meta_tensor({buffer}))
                         ->stages();
  auto subject = with_child(child);
  subject.declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});

  CHECK(resolve(subject, legacy(distributed)).value().dits[0].children.size() == children);
  CHECK(resolve(subject, legacy(layerwise)).value().dits[0].children.empty());
}

TEST_CASE("a tied parameter counts once towards the size of a child", "[offload][resolve]") {
  const auto tied = meta_tensor({elements_of_1024_mib});
  auto subject = with_child(node("test.talker")->parameter("in", tied)->parameter("out", tied));
  subject.declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});

  CHECK(resolve(subject, legacy(distributed)).value().dits[0].children.empty());
}

fake_node large_child(const std::string& container, const fake_node& content) {
  return node("test.talker")
      ->parameter("weight", meta_tensor({elements_of_1024_mib + 1}))
      ->child(container, content);
}

TEST_CASE("the blocks of a large child are found under their usual names", "[offload][resolve]") {
  const auto name = GENERATE(as<std::string>{}, "layers", "blocks", "h", "model.layers");
  const auto nested = name == "model.layers";
  auto subject =
      with_child(nested ? large_child("model", node("test.model")->child("layers", blocks(3)))
                        : large_child(name, blocks(3)));
  subject.declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});

  const auto outcome = resolve(subject, legacy(distributed));

  CHECK(outline(outcome.value().dits[0]) ==
        "transformer selected [4] (transformer.talker selected [3])");
  CHECK(outcome.value().dits[0].children[0].stacks[0].attrs == std::vector<std::string>{name});
  CHECK_THAT(warnings(outcome),
             Contains("a large test.talker were found under its attribute " + name));
}

TEST_CASE("the search in large children warns once for a class and an attribute",
          "[offload][resolve]") {
  auto subject =
      fake_pipeline{node("test.root")
                        ->child("transformer", dit(4)
                                                   ->child("a", large_child("layers", blocks(2)))
                                                   ->child("b", large_child("layers", blocks(2)))
                                                   ->child("c", large_child("h", blocks(2))))};
  subject.declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
  warning_memory memory;

  CHECK(memory.news(resolve(subject, legacy(distributed)).value().warnings).size() == 2);
}

TEST_CASE("a large child without blocks and staging is an error for everybody",
          "[offload][resolve]") {
  const auto config = GENERATE(legacy(distributed), resident(2));
  const auto child = GENERATE(large_child("parts", blocks(3)), large_child("layers", blocks(1)),
                              large_child("layers", blocks(0))->stages(true, false));
  auto subject = with_child(child);
  subject.declare({.dits = {"transformer"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}}, .resident_dit_paths = {"transformer"}});

  CHECK_THAT(rejection(resolve(subject, config)),
             Contains("transformer.talker has neither blocks to stream nor load_to_device"));
}

TEST_CASE("a declared child is handled whatever its size", "[offload][resolve]") {
  const auto [container, staged, expected] = GENERATE(table<std::string, bool, std::string>({
      {"parts", false, "transformer selected [4] (transformer.talker selected [3])"},
      {"absent", true, "transformer selected [4] (transformer.talker selected on-demand)"},
  }));
  auto child = node("test.talker")->child("parts", blocks(3))->stages(staged, staged);
  auto subject = with_child(child);
  subject.declare({.dits = {"transformer"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}},
             .offload_submodules = {{"talker", container}}});

  CHECK(outline(resolve(subject, legacy(distributed)).value().dits[0]) == expected);
}

TEST_CASE("a declared child whose container cannot be streamed needs its own staging",
          "[offload][resolve]") {
  auto subject = with_child(node("test.talker")->child("parts", blocks(1)));
  subject.declare({.dits = {"transformer"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}},
             .offload_submodules = {{"talker", "parts"}}});

  CHECK_THAT(rejection(resolve(subject, legacy(distributed))),
             Contains("for a child that is declared in offload_submodules"));
}

TEST_CASE("a child that is a denoiser itself is left to its own entry", "[offload][resolve]") {
  auto subject = with_child(dit(3));
  subject.declare({.dits = {"transformer", "transformer.talker"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}, {"transformer.talker", {"blocks"}}}});

  CHECK(outline(resolve(subject, legacy(distributed)).value()) ==
        std::vector<std::string>{"transformer selected [4] (transformer.talker)",
                                 "transformer.talker selected [3]"});
}

TEST_CASE("the parent of an aliased block list is not a large child", "[offload][resolve]") {
  auto stack = list({node("test.block")->parameter("w", meta_tensor({elements_of_1024_mib})),
                     node("test.block")->parameter("w", meta_tensor({elements_of_1024_mib}))});
  fake_pipeline subject{
      node("test.root")
          ->child("transformer", node("test.dit")
                                     ->child("inner", node("test.inner")->child("layers", stack))
                                     ->child("layers", stack))};
  subject.declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"layers"}}}});

  CHECK(outline(resolve(subject, legacy(distributed)).value().dits[0]) ==
        "transformer selected [2]");
}

} // namespace
} // namespace ferry
