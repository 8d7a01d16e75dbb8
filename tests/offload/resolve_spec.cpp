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
using Catch::Matchers::VectorContains;

TEST_CASE("legacy flags leave a staged VAE to its pipeline, an explicit selector keeps it resident",
          "[offload][resolve]") {
  auto root = tree();
  root->at("vae")->stages();
  fake_pipeline subject{root};
  auto plan = planned();
  plan.on_demand_component_paths = {"vae"};
  subject.declare(roles).plan(plan);

  CHECK(outline(resolve(subject, legacy(layerwise)).value().vaes[0]) == "vae on-demand");
  CHECK(outline(resolve(subject, legacy(distributed)).value().vaes[0]) == "vae on-demand");
  CHECK(outline(resolve(subject, legacy(model_level)).value().vaes[0]) == "vae");
  CHECK(outline(resolve(subject, compact(both)).value().vaes[0]) == "vae");
}

TEST_CASE("a selected VAE must be there and bring its own offload", "[offload][resolve]") {
  const auto config = compact(R"({"mode":"module","components":["vae"]})");
  fake_pipeline without{node("test.root")->child("transformer", dit(2))};
  auto generic = ordinary();
  auto custom = ordinary();
  without.declare(roles);
  generic.declare(roles);
  fake_model_offload own;
  custom.declare(roles).offloads_itself(own);

  CHECK_THAT(rejection(resolve(without, config)), Contains("vae is selected and no VAE was found"));
  CHECK_THAT(rejection(resolve(generic, config)),
             Contains("test.pipeline does not bring its own model-level offload"));
  CHECK(outline(resolve(custom, config).value()) ==
        std::vector<std::string>{"transformer", "text_encoder", "vae selected"});
}

TEST_CASE("the model-level strategy resolves the selection and nothing else",
          "[offload][resolve]") {
  auto root = tree();
  root->at("text_encoder")->stages();
  fake_pipeline subject{root};
  auto plan = planned();
  plan.on_demand_component_paths = {"text_encoder"};
  subject.declare(roles).plan(plan);

  CHECK(outline(resolve(subject, compact(modules)).value()) ==
        std::vector<std::string>{"transformer selected", "text_encoder", "vae"});
  CHECK(outline(resolve(subject, legacy(model_level)).value()) ==
        std::vector<std::string>{"transformer selected", "text_encoder selected", "vae"});
}

TEST_CASE("the model-level strategy needs both sides of the swap, for legacy flags it does not",
          "[offload][resolve]") {
  const auto [absent, message] = GENERATE(table<component_roles, std::string>({
      {component_roles{.encoders = {"text_encoder"}}, "lacks a DiT"},
      {component_roles{.dits = {"transformer"}}, "lacks an encoder"},
  }));
  auto subject = ordinary();
  subject.declare(absent);

  CHECK_THAT(rejection(resolve(subject, compact(modules))), Contains(message));
  CHECK(resolve(subject, legacy(model_level)).has_value());
}

TEST_CASE("a selected DiT must be there", "[offload][resolve]") {
  auto subject = ordinary();
  subject.declare({.encoders = {"text_encoder"}}).plan(planned());

  CHECK_THAT(rejection(resolve(subject, compact(both))),
             Contains("dit is selected and no DiT was found"));
}

TEST_CASE("without a DiT legacy layerwise does nothing and legacy distributed goes on",
          "[offload][resolve]") {
  auto subject = ordinary();
  subject.declare({.encoders = {"text_encoder"}}).plan(planned());

  CHECK(resolve(subject, legacy(layerwise)).value().skip_reason ==
        "no DiT was found in test.pipeline");
  const auto outcome = resolve(subject, legacy(distributed));
  CHECK_FALSE(outcome.value().skip_reason.has_value());
  CHECK_THAT(warnings(outcome), Contains("no DiT was found in test.pipeline"));
}

TEST_CASE("without a strategy nothing is selected and nothing can be wrong", "[offload][resolve]") {
  fake_pipeline subject{tree(1)->child("stray", block())};
  subject.plan({.block_attrs = {{"transformer", {"layers"}}},
                .encoder_component_types = {{"text_encoder", "vision"}},
                .on_demand_component_paths = {"text_encoder", "vae"}});

  CHECK(outline(resolve(subject, legacy({})).value()) ==
        std::vector<std::string>{"transformer", "text_encoder", "vae"});
}

TEST_CASE("a block that two components claim is rejected with both", "[offload][resolve]") {
  const auto config = GENERATE(compact(dit_only), legacy(layerwise), legacy(distributed));
  const auto shared = blocks(3);
  fake_pipeline subject{node("test.root")
                            ->child("a", node("test.dit")->child("blocks", shared))
                            ->child("b", node("test.dit")->child("blocks", shared))};
  subject.declare({.dits = {"a", "b"}})
      .plan({.block_attrs = {{"a", {"blocks"}}, {"b", {"blocks"}}}});

  const auto outcome = resolve(subject, config);

  CHECK(messages(outcome).size() == 3);
  CHECK_THAT(messages(outcome),
             VectorContains(std::string{"b.blocks.0 of b is also a.blocks.0 of a; expected one "
                                        "owner for every block"}));
}

TEST_CASE("a block that a nested child claims too is rejected", "[offload][resolve]") {
  const auto shared = block();
  auto child = node("test.talker")->child("parts", list({block(), shared}));
  fake_pipeline subject{
      node("test.root")
          ->child(
              "transformer",
              node("test.dit")->child("blocks", list({block(), shared}))->child("talker", child))};
  subject.declare({.dits = {"transformer"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}},
             .offload_submodules = {{"talker", "parts"}}});

  CHECK_THAT(rejection(resolve(subject, legacy(distributed))),
             Contains("transformer.talker.parts.1 of transformer.talker is also "
                      "transformer.blocks.1 of transformer"));
}

TEST_CASE("a block that one component claims twice is rejected", "[offload][resolve]") {
  const auto config = GENERATE(compact(dit_only), legacy(layerwise));
  const auto twice = block();
  fake_pipeline subject{
      node("test.root")
          ->child("dit", node("test.dit")->child("blocks", list({twice, block(), twice})))};
  subject.declare({.dits = {"dit"}}).plan({.block_attrs = {{"dit", {"blocks"}}}});

  CHECK(
      rejection(resolve(subject, config)) ==
      "dit streams one block twice, as dit.blocks.0 and dit.blocks.2; expected every block once\n");
}

TEST_CASE("a block in two stacks of one encoder is rejected", "[offload][resolve]") {
  auto subject = ordinary();
  subject.declare(roles).plan({.block_attrs = {{"transformer", {"blocks"}}},
                               .encoder_block_attrs = {{"text_encoder", {"block", "block"}}}});

  CHECK_THAT(rejection(resolve(subject, compact(both))),
             Contains("text_encoder streams one block twice"));
}

TEST_CASE("a tensor that its module does not register is named by its path", "[offload][resolve]") {
  const auto config = GENERATE(compact(dit_only), legacy(layerwise), legacy(distributed));
  auto root = tree();
  root->at("transformer.blocks.1")->unregistered("gain", tensor({4}));
  root->at("vae")->unregistered("scale", tensor({4}));
  fake_pipeline subject{root};
  subject.declare(roles).plan(planned());

  CHECK(messages(resolve(subject, config)) ==
        std::vector<std::string>{
            "transformer.blocks.1.gain is a tensor that its module does not register; expected a "
            "parameter or a buffer (not persistent if checkpoints lack it)"});
}

TEST_CASE("a module with tensors and no role is an error, for legacy flags it stays where it is",
          "[offload][resolve]") {
  fake_pipeline subject{tree()
                            ->child("prompt_model", encoder(2))
                            ->child("refiner", block())
                            ->child("scheduler", node("test.scheduler"))};
  subject.plan(planned());

  CHECK_THAT(rejection(resolve(subject, compact(both))),
             Contains("the role of prompt_model, refiner is unknown; expected the pipeline to "
                      "declare its components"));
  CHECK_THAT(warnings(resolve(subject, legacy(layerwise))), Contains("prompt_model, refiner"));
  subject.declare(roles);
  CHECK(resolve(subject, compact(both)).has_value());
}

TEST_CASE("everything that is wrong is reported at once", "[offload][resolve]") {
  fake_pipeline subject{node("test.root")
                            ->child("a", dit(1))
                            ->child("b", node("test.dit"))
                            ->child("text_encoder", encoder(1))};
  subject.declare({.dits = {"a", "b"}, .encoders = {"text_encoder"}})
      .plan({.block_attrs = {{"a", {"blocks"}}, {"b", {"layers"}}},
             .encoder_block_attrs = {{"text_encoder", {"block"}}}});

  const auto outcome = resolve(subject, compact(both));

  REQUIRE(messages(outcome).size() == 3);
  CHECK(outcome.error()[0].subject == "a");
  CHECK(outcome.error()[1].subject == "b");
  CHECK(outcome.error()[2].subject == "text_encoder");
}

TEST_CASE("resolving changes nothing and gives equal answers", "[offload][resolve]") {
  const auto config = GENERATE(compact(both), compact(modules), resident(2), legacy(layerwise),
                               legacy(distributed), legacy(model_level), legacy({}));
  auto root = tree();
  root->at("text_encoder")->stages();
  fake_pipeline subject{root};
  auto plan = planned();
  plan.on_demand_component_paths = {"text_encoder"};
  plan.resident_dit_paths = {"transformer"};
  subject.declare(roles).plan(plan);

  const auto first = resolve(subject, config).value();
  const auto second = resolve(subject, config).value();

  CHECK(subject.mutations().empty());
  CHECK(outline(first) == outline(second));
  CHECK(first.warnings == second.warnings);
}

TEST_CASE("a rejection changes nothing either", "[offload][resolve]") {
  auto subject = ordinary();
  subject.declare(roles).plan({.block_attrs = {{"transformer", {"blocks"}}}});

  const auto outcome = resolve(subject, compact(both));

  REQUIRE_FALSE(outcome.has_value());
  CHECK(subject.mutations().empty());
}

TEST_CASE("the declaration is read once", "[offload][resolve]") {
  auto subject = ordinary();
  subject.declare(roles).plan(planned());

  CHECK(resolve(subject, compact(both)).has_value());

  CHECK(subject.plan_reads() == 1);
}

TEST_CASE("a warning is news once", "[offload][resolve]") {
  warning_memory memory;

  CHECK(memory.news({"a", "b", "a"}) == std::vector<std::string>{"a", "b"});
  CHECK(memory.news({"b", "c"}) == std::vector<std::string>{"c"});
}

} // namespace
} // namespace ferry
