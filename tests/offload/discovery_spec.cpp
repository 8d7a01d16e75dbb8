// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/discovery.hpp>
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

TEST_CASE("declared components are taken and well-known names ignored", "[offload][resolve]") {
  fake_pipeline subject{tree()->child("denoiser", dit(3))};
  subject.declare({.dits = {"denoiser"}}).plan({.block_attrs = {{"denoiser", {"blocks"}}}});

  CHECK(outline(resolve(subject, compact(dit_only)).value()) ==
        std::vector<std::string>{"denoiser selected [3]"});
}

TEST_CASE("a pipeline that declares nothing is searched for well-known names",
          "[offload][resolve]") {
  fake_pipeline subject{node("test.root")
                            ->child("model", dit(2))
                            ->child("transformer", dit(4))
                            ->child("mllm", encoder(2))
                            ->child("audio_vae", node("test.vae"))
                            ->child("vae", node("test.vae"))};

  CHECK(outline(resolve(subject, legacy(layerwise)).value()) ==
        std::vector<std::string>{"transformer selected", "model selected", "mllm selected", "vae",
                                 "audio_vae"});
}

TEST_CASE("the search for well-known names warns once for a pipeline class", "[offload][resolve]") {
  fake_pipeline first{tree(), "test.first"};
  fake_pipeline again{tree(), "test.first"};
  fake_pipeline other{tree(), "test.other"};
  first.plan(planned());
  again.plan(planned());
  other.plan(planned());
  warning_memory memory;

  const auto told = memory.news(resolve(first, compact(both)).value().warnings);

  CHECK_THAT(joined(told), Contains("test.first does not declare its components"));
  CHECK(memory.news(resolve(again, compact(both)).value().warnings).empty());
  CHECK_THAT(joined(memory.news(resolve(other, compact(both)).value().warnings)),
             Contains("test.other does not declare"));
}

TEST_CASE("a declared path that leads nowhere is left out with a warning", "[offload][resolve]") {
  fake_pipeline subject{tree()->null("transformer_2")->plain("scheduler")};
  subject
      .declare({.dits = {"transformer", "transformer_2", "absent.model"},
                .encoders = {"text_encoder"},
                .residents = {"scheduler"}})
      .plan(planned());

  const auto outcome = resolve(subject, compact(dit_only));

  CHECK(outline(outcome.value()) ==
        std::vector<std::string>{"transformer selected [4]", "text_encoder"});
  CHECK_THAT(warnings(outcome), Contains("transformer_2 is null"));
  CHECK_THAT(warnings(outcome), Contains("absent.model is missing"));
  CHECK_THAT(warnings(outcome), Contains("scheduler is not a module"));
}

TEST_CASE("a well-known name that is null or missing is no surprise", "[offload][resolve]") {
  fake_pipeline subject{tree()->null("transformer_2")->plain("model")};
  subject.plan(planned());

  const auto found = discover(subject).warnings;

  CHECK_THAT(joined(found), Contains("model is not a module"));
  CHECK_THAT(joined(found), !Contains("transformer_2"));
}

TEST_CASE("one module under two names is one component under the first", "[offload][resolve]") {
  const auto shared = dit(2);
  fake_pipeline subject{node("test.root")->child("a", shared)->child("b", shared)};
  subject.declare({.dits = {"b", "a"}}).plan({.block_attrs = {{"b", {"blocks"}}}});

  CHECK(outline(resolve(subject, compact(dit_only)).value()) ==
        std::vector<std::string>{"b selected [2]"});
}

TEST_CASE("dotted component paths are walked", "[offload][resolve]") {
  fake_pipeline subject{
      node("test.root")->child("bundle", node("test.bundle")->child("dit", dit(2)))};
  subject.declare({.dits = {"bundle.dit"}}).plan({.block_attrs = {{"bundle.dit", {"blocks"}}}});

  const auto plan = resolve(subject, compact(dit_only)).value();

  CHECK(block_paths(plan.dits[0].stacks[0]) ==
        std::vector<std::string>{"bundle.dit.blocks.0", "bundle.dit.blocks.1"});
}

TEST_CASE("the outermost DiTs are those inside no other DiT", "[offload][resolve]") {
  fake_pipeline subject{node("test.root")
                            ->child("dit", node("test.outer")->child("inner", dit(2)))
                            ->child("sr_dit", dit(2))};
  subject.declare({.dits = {"dit", "dit.inner", "sr_dit"}});

  const auto outermost = outermost_dits(discover(subject));

  REQUIRE(outermost.size() == 2);
  CHECK(outermost[0].path == "dit");
  CHECK(outermost[1].path == "sr_dit");
}

} // namespace
} // namespace ferry
