// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/resolve.hpp>

#include "support/catch.hpp"
#include "support/resolution.hpp"

#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace ferry::test;
using Catch::Matchers::Contains;

TEST_CASE("every declared block list of an encoder is a stack of its own", "[offload][resolve]") {
  auto text = encoder(3)->child("tower", node("test.tower")->child("layers", blocks(2)));
  fake_pipeline subject{
      node("test.root")->child("transformer", dit(4))->child("text_encoder", text)};
  subject.declare(roles).plan(
      {.block_attrs = {{"transformer", {"blocks"}}},
       .encoder_block_attrs = {{"text_encoder", {"tower.layers", "block"}}}});

  const auto resolved = resolve(subject, compact(both)).value().encoders[0];

  REQUIRE(resolved.stacks.size() == 2);
  CHECK(resolved.stacks[0].attrs.empty());
  CHECK(block_paths(resolved.stacks[0]) ==
        std::vector<std::string>{"text_encoder.tower.layers.0", "text_encoder.tower.layers.1"});
  CHECK(resolved.stacks[1].blocks.size() == 3);
}

TEST_CASE("the declared type of an encoder wins over its name", "[offload][resolve]") {
  using types_by_path = std::map<std::string, std::string>;
  const auto [path, types, selected] = GENERATE(table<std::string, types_by_path, bool>({
      {"text_encoder", types_by_path{}, true},
      {"text_encoder_2", types_by_path{}, true},
      {"my_text_encoder", types_by_path{}, true},
      {"bundle.text_encoder", types_by_path{}, true},
      {"mllm", types_by_path{}, false},
      {"image_encoder", types_by_path{}, false},
      {"mllm", types_by_path{{"mllm", "text_encoder"}}, true},
  }));
  const auto leaf = path.substr(path.rfind('.') + 1);
  auto root = node("test.root")->child("text_encoder_0", encoder(2));
  path == leaf ? root->child(leaf, encoder(3))
               : root->child("bundle", node("test.bundle")->child(leaf, encoder(3)));
  fake_pipeline subject{root};
  subject.declare({.encoders = {path, "text_encoder_0"}})
      .plan({.encoder_block_attrs = {{path, {"block"}}, {"text_encoder_0", {"block"}}},
             .encoder_component_types = types});

  CHECK(resolve(subject, compact(encoder_only)).value().encoders[0].selected == selected);
}

TEST_CASE("an encoder type that nobody knows is an error for everybody", "[offload][resolve]") {
  const auto config = GENERATE(compact(dit_only), legacy(layerwise), legacy(model_level));
  auto subject = ordinary();
  auto plan = planned();
  plan.encoder_component_types = {{"text_encoder", "vision"}};
  subject.declare(roles).plan(plan);

  CHECK_THAT(rejection(resolve(subject, config)),
             Contains("the declared type of text_encoder is vision; expected text_encoder"));
}

TEST_CASE("a selected text encoder needs one to be there", "[offload][resolve]") {
  fake_pipeline subject{node("test.root")->child("transformer", dit(2))->child("mllm", encoder(2))};
  subject.declare({.dits = {"transformer"}, .encoders = {"mllm"}}).plan(planned());

  CHECK_THAT(rejection(resolve(subject, compact(both))),
             Contains("text_encoder is selected and no text encoder was found"));
}

TEST_CASE(
    "a block list of a selected encoder that cannot be streamed is an error, for legacy flags "
    "it is left out",
    "[offload][resolve]") {
  const auto [attribute, count, code, message] =
      GENERATE(table<std::string, std::size_t, errc, std::string>({
          {"layers", 3, errc::not_found, "text_encoder.layers is not found"},
          {"block", 1, errc::invalid_pipeline, "text_encoder.block is not a streamable list"},
          {"embed", 3, errc::invalid_pipeline, "text_encoder.embed is not a streamable list"},
      }));
  fake_pipeline subject{tree(4, count)};
  subject.declare(roles).plan({.block_attrs = {{"transformer", {"blocks"}}},
                               .encoder_block_attrs = {{"text_encoder", {attribute}}}});

  const auto strict = resolve(subject, compact(both));
  const auto lenient = resolve(subject, legacy(layerwise));

  REQUIRE(messages(strict).size() == 1);
  CHECK(strict.error()[0].code == code);
  CHECK_THAT(rejection(strict), Contains(message));
  CHECK(outline(lenient.value().encoders[0]) == "text_encoder selected");
  CHECK_THAT(warnings(lenient), Contains(message));
}

TEST_CASE("a selected encoder without stack and staging is an error, for legacy flags it goes to "
          "the device whole",
          "[offload][resolve]") {
  auto subject = ordinary();
  subject.declare(roles).plan({.block_attrs = {{"transformer", {"blocks"}}}});

  CHECK_THAT(rejection(resolve(subject, compact(both))),
             Contains("text_encoder is selected and has nothing to stream"));
  CHECK(outline(resolve(subject, legacy(layerwise)).value()) ==
        std::vector<std::string>{"transformer selected [4]", "text_encoder selected", "vae"});
}

TEST_CASE("every selected encoder needs a plan of its own", "[offload][resolve]") {
  fake_pipeline subject{tree()->child("text_encoder_2", encoder(2))};
  subject.declare({.dits = {"transformer"}, .encoders = {"text_encoder", "text_encoder_2"}})
      .plan(planned());

  CHECK_THAT(rejection(resolve(subject, compact(both))),
             Contains("text_encoder_2 is selected and has nothing to stream"));
}

TEST_CASE("an encoder that another rank owns is no error", "[offload][resolve]") {
  fake_pipeline subject{node("test.root")
                            ->child("transformer", dit(4))
                            ->child("text_encoder", node("test.stub")->loaded(false))};
  subject.declare(roles).plan(planned());

  CHECK(outline(resolve(subject, compact(both)).value().encoders[0]) == "text_encoder selected");
}

TEST_CASE("an encoder may stage itself, with stacks and without", "[offload][resolve]") {
  using names = std::vector<std::string>;
  const auto [lists, expected] = GENERATE(table<names, std::string>({
      {names{}, "text_encoder selected on-demand"},
      {names{"block", "more"}, "text_encoder selected on-demand [3] [2]"},
  }));
  const auto config = GENERATE(compact(both), legacy(layerwise), legacy(distributed));
  fake_pipeline subject{
      node("test.root")
          ->child("transformer", dit(4))
          ->child("text_encoder", encoder(3)->child("more", blocks(2))->stages())};
  subject.declare(roles).plan({.block_attrs = {{"transformer", {"blocks"}}},
                               .encoder_block_attrs = {{"text_encoder", lists}},
                               .on_demand_component_paths = {"text_encoder"}});

  CHECK(outline(resolve(subject, config).value().encoders[0]) == expected);
}

TEST_CASE("a staged component needs both methods, whoever asks", "[offload][resolve]") {
  const auto [load, offload, lacking] = GENERATE(table<bool, bool, std::string>({
      {true, false, "lacks offload_to_cpu"},
      {false, true, "lacks load_to_device"},
      {false, false, "lacks load_to_device and offload_to_cpu"},
  }));
  const auto config = GENERATE(compact(both), legacy(layerwise), legacy(distributed));
  auto root = tree();
  root->at("text_encoder")->stages(load, offload);
  fake_pipeline subject{root};
  auto plan = planned();
  plan.on_demand_component_paths = {"text_encoder"};
  subject.declare(roles).plan(plan);

  CHECK_THAT(rejection(resolve(subject, config)), Contains("text_encoder") && Contains(lacking));
}

TEST_CASE("gathering an encoder from several ranks needs its replication declared",
          "[offload][resolve]") {
  const auto loaded = GENERATE(true, false);
  const legacy_options two_ranks{.parallel_config = {.data_parallel_size = 2}};
  auto root = tree();
  root->at("text_encoder")->loaded(loaded);
  fake_pipeline subject{root};
  auto plan = planned();
  subject.declare(roles).plan(plan);

  CHECK_THAT(rejection(resolve(subject, compact(gathered_encoder, two_ranks))),
             Contains("text_encoder is gathered from 2 ranks and not declared in "
                      "encoder_dlo_weight_replication"));
  CHECK(resolve(subject, compact(gathered_encoder)).has_value());
  plan.encoder_dlo_weight_replication = {"text_encoder"};
  subject.plan(plan);
  CHECK(resolve(subject, compact(gathered_encoder, two_ranks)).has_value());
}

TEST_CASE("a block list that several ranks gather must be streamable, whoever asks",
          "[offload][resolve]") {
  auto config = legacy(distributed);
  config.transfers[component_name::text_encoder] = weight_transfer::allgather;
  config.group_size = 2;
  auto subject = ordinary();
  subject.declare(roles).plan({.block_attrs = {{"transformer", {"blocks"}}},
                               .encoder_block_attrs = {{"text_encoder", {"embed"}}},
                               .encoder_dlo_weight_replication = {"text_encoder"}});

  CHECK_THAT(rejection(resolve(subject, config)),
             Contains("text_encoder.embed is not a streamable list"));
}

TEST_CASE("an encoder that is only staged cannot be gathered", "[offload][resolve]") {
  auto root = tree();
  root->at("text_encoder")->stages();
  fake_pipeline subject{root};
  subject.declare(roles).plan({.block_attrs = {{"transformer", {"blocks"}}},
                               .on_demand_component_paths = {"text_encoder"}});

  CHECK_THAT(
      rejection(resolve(subject, compact(gathered_encoder))),
      Contains("text_encoder is only staged as a whole and its weight_transfer is allgather"));
}

} // namespace
} // namespace ferry
