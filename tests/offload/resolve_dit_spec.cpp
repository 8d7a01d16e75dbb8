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

TEST_CASE("the plan's block attributes win over those of the class", "[offload][resolve]") {
  fake_pipeline subject{
      node("test.root")
          ->child("dit", dit(4)->child("others", blocks(2))->declares_blocks({"others"}))};
  subject.declare({.dits = {"dit"}}).plan({.block_attrs = {{"dit", {"blocks"}}}});

  CHECK(outline(resolve(subject, compact(dit_only)).value()) ==
        std::vector<std::string>{"dit selected [4]"});
}

TEST_CASE("the class's block attributes are used without a plan", "[offload][resolve]") {
  fake_pipeline subject{node("test.root")->child("dit", dit(4)->declares_blocks({"blocks"}))};
  subject.declare({.dits = {"dit"}});

  CHECK(outline(resolve(subject, compact(dit_only)).value()) ==
        std::vector<std::string>{"dit selected [4]"});
}

TEST_CASE("a plan that names no attribute leaves the class in charge", "[offload][resolve]") {
  fake_pipeline subject{node("test.root")->child("dit", dit(4)->declares_blocks({"blocks"}))};
  subject.declare({.dits = {"dit"}}).plan({.block_attrs = {{"dit", {}}}});

  CHECK(outline(resolve(subject, compact(dit_only)).value()) ==
        std::vector<std::string>{"dit selected [4]"});
}

TEST_CASE("the deprecated declaration works and is told", "[offload][resolve]") {
  fake_pipeline subject{node("test.root")->child("dit", dit(4)->declares_blocks({"blocks"}, true))};
  subject.declare({.dits = {"dit"}});

  const auto outcome = resolve(subject, compact(dit_only));

  CHECK(outline(outcome.value()) == std::vector<std::string>{"dit selected [4]"});
  CHECK_THAT(warnings(outcome), Contains("test.dit declares its blocks in a deprecated way"));
}

TEST_CASE("several containers make one ring in the order they are named", "[offload][resolve]") {
  fake_pipeline subject{
      node("test.root")
          ->child("dit", node("test.dit")->child("single", blocks(1))->child("double", blocks(2)))};
  subject.declare({.dits = {"dit"}}).plan({.block_attrs = {{"dit", {"double", "single"}}}});

  const auto stack = resolve(subject, compact(dit_only)).value().dits[0].stacks[0];

  CHECK(stack.attrs == std::vector<std::string>{"double", "single"});
  CHECK(block_paths(stack) ==
        std::vector<std::string>{"dit.double.0", "dit.double.1", "dit.single.0"});
}

TEST_CASE("a block attribute that does not exist is an error for everybody", "[offload][resolve]") {
  const auto config = GENERATE(compact(dit_only), legacy(layerwise), legacy(distributed));
  fake_pipeline subject{tree()};
  subject.declare(roles).plan({.block_attrs = {{"transformer", {"layers"}}}});

  const auto outcome = resolve(subject, config);

  REQUIRE_FALSE(outcome.has_value());
  REQUIRE(outcome.error().size() == 1);
  CHECK(outcome.error()[0].code == errc::not_found);
  CHECK(outcome.error()[0].subject == "transformer");
  CHECK_THAT(
      rejection(outcome),
      Contains("transformer has no attribute layers, which block_attrs of the offload plan"));
}

TEST_CASE("block attributes are plain names and not paths", "[offload][resolve]") {
  fake_pipeline subject{tree()};
  subject.declare(roles).plan({.block_attrs = {{"transformer", {"blocks.0"}}}});

  CHECK_THAT(rejection(resolve(subject, compact(dit_only))),
             Contains("transformer has no attribute blocks.0"));
}

TEST_CASE("an attribute that is one module is one block, one that is no module is none",
          "[offload][resolve]") {
  fake_pipeline subject{
      node("test.root")
          ->child("dit", dit(2)->child("tail", block())->plain("scale")->null("extra"))};
  subject.declare({.dits = {"dit"}})
      .plan({.block_attrs = {{"dit", {"blocks", "tail", "scale", "extra"}}}});

  const auto outcome = resolve(subject, compact(dit_only));

  CHECK(block_paths(outcome.value().dits[0].stacks[0]) ==
        std::vector<std::string>{"dit.blocks.0", "dit.blocks.1", "dit.tail"});
  CHECK_THAT(warnings(outcome), Contains("dit.tail is one module and no list"));
  CHECK_THAT(warnings(outcome), Contains("dit.scale is no module"));
  CHECK_THAT(warnings(outcome), Contains("dit.extra is no module"));
}

TEST_CASE("a selected DiT without blocks is an error, a legacy one goes to the device whole",
          "[offload][resolve]") {
  const auto plan =
      GENERATE(offload_plan{}, offload_plan{.block_attrs = {{"transformer", {"blocks"}}}});
  fake_pipeline subject{tree(0)};
  subject.declare(roles).plan(plan);

  CHECK_THAT(rejection(resolve(subject, compact(dit_only))),
             Contains("transformer has no blocks to stream"));
  const auto outcome = resolve(subject, legacy(layerwise));
  CHECK(outline(outcome.value().dits[0]) == "transformer selected");
  CHECK_THAT(warnings(outcome), Contains("it goes to the device whole"));
}

TEST_CASE("stand-ins for blocks of other ranks are left out of the ring", "[offload][resolve]") {
  auto stack = list({block(), block(), node("test.absent_block"), node("test.absent_block")});
  fake_pipeline subject{node("test.root")->child("dit", node("test.dit")->child("blocks", stack))};
  subject.declare({.dits = {"dit"}}).plan({.block_attrs = {{"dit", {"blocks"}}}});

  CHECK(block_paths(resolve(subject, compact(dit_only)).value().dits[0].stacks[0]) ==
        std::vector<std::string>{"dit.blocks.0", "dit.blocks.1"});
}

TEST_CASE("a DiT that is not selected has no stack and no children", "[offload][resolve]") {
  auto subject = ordinary();
  subject.declare(roles).plan(planned());

  CHECK(outline(resolve(subject, compact(encoder_only)).value()) ==
        std::vector<std::string>{"transformer", "text_encoder selected [3]", "vae"});
}

TEST_CASE("resident layers split the declared DiT", "[offload][resolve]") {
  const auto [layers, expected] = GENERATE(table<int, std::string>({
      {1, "transformer selected [4, head 1]"},
      {2, "transformer selected [4, head 2]"},
      {4, "transformer selected [4, head 4]"},
      {99, "transformer selected [4, head 4]"},
  }));
  auto subject = ordinary();
  auto plan = planned();
  plan.resident_dit_paths = {"transformer"};
  subject.declare(roles).plan(plan);

  CHECK(outline(resolve(subject, resident(layers)).value().dits[0]) == expected);
  CHECK(outline(resolve(subject, legacy_resident(layers)).value().dits[0]) == expected);
}

TEST_CASE("a head beyond the stack is told with the number of blocks", "[offload][resolve]") {
  auto subject = ordinary();
  auto plan = planned();
  plan.resident_dit_paths = {"transformer"};
  subject.declare(roles).plan(plan);

  CHECK_THAT(warnings(resolve(subject, resident(9))),
             Contains("dit.resident_layers is 9 and transformer has 4 blocks; all of them are "
                      "resident layers"));
  CHECK(warnings(resolve(subject, resident(4))).empty());
}

TEST_CASE("residents are spread unless they are to lead, and those of legacy flags lead",
          "[offload][resolve]") {
  const auto [options, expected] = GENERATE(table<std::string, std::string>({
      {R"("resident_layers":4,"residency":"leading")", "[8, head 4]"},
      {R"("resident_layers":4,"residency":"strided")", "[8, residents 0 2 4 6]"},
      {R"("resident_blocks":[7,1])", "[8, residents 1 7]"},
      {R"("resident_bytes":600,"residency":"leading")", "[8, head 2]"},
      {R"("resident_bytes":100)", "[8]"},
  }));
  fake_pipeline subject{tree(8)};
  auto plan = planned();
  plan.resident_dit_paths = {"transformer"};
  subject.declare(roles).plan(plan);

  CHECK(outline(resolve(subject, with_dit_options(options)).value().dits[0]) ==
        "transformer selected " + expected);
  CHECK(outline(resolve(subject, legacy_resident(4)).value().dits[0]) ==
        "transformer selected [8, head 4]");
  const auto spread = resolve(subject, with_dit_options(R"("resident_layers":4)")).value().dits[0];
  CHECK(spread.stacks[0].residents() == 4);
  for (std::size_t i = 2; i != 8; ++i)
    CHECK(spread.stacks[0].blocks[i].resident == spread.stacks[0].blocks[i - 2].resident);
}

TEST_CASE("a resident block that there is not is an error", "[offload][resolve]") {
  auto subject = ordinary();
  auto plan = planned();
  plan.resident_dit_paths = {"transformer"};
  subject.declare(roles).plan(plan);

  CHECK_THAT(rejection(resolve(subject, with_dit_options(R"("resident_blocks":[0,4])"))),
             Contains("dit.resident_blocks names block 4 and transformer has 4 blocks"));
}

TEST_CASE("a head that leaves one streaming block is an error, for legacy flags it takes all",
          "[offload][resolve]") {
  auto subject = ordinary();
  auto plan = planned();
  plan.resident_dit_paths = {"transformer"};
  subject.declare(roles).plan(plan);

  CHECK_THAT(rejection(resolve(subject, resident(3))),
             Contains("4 blocks and 3 resident layers, which leaves a single streaming block"));
  const auto outcome = resolve(subject, legacy_resident(3));
  CHECK(outline(outcome.value().dits[0]) == "transformer selected [4, head 4]");
  CHECK_THAT(warnings(outcome), Contains("all its blocks stay on the device"));
}

TEST_CASE("a distributed DiT of one block is an error, for legacy flags it stays on the device",
          "[offload][resolve]") {
  fake_pipeline subject{tree(1)};
  subject.declare(roles).plan(planned());
  const auto gathered = compact(R"({"mode":"layer","components":["dit"],
                                    "layer_options":{"dit":{"weight_transfer":"allgather"}}})");

  CHECK_THAT(rejection(resolve(subject, gathered)), Contains("leaves a single streaming block"));
  CHECK(outline(resolve(subject, legacy(distributed)).value().dits[0]) ==
        "transformer selected [1, head 1]");
}

TEST_CASE("a DiT of one block is resident where the bytes suffice, and an error where they do not",
          "[offload][resolve]") {
  fake_pipeline subject{tree(1)};
  auto plan = planned();
  plan.resident_dit_paths = {"transformer"};
  subject.declare(roles).plan(plan);
  const auto in_bytes = [&](const std::string& bytes) {
    return resolve(subject, compact(R"({"mode":"layer","components":["dit"],
                                        "layer_options":{"dit":{"resident_bytes":)" +
                                    bytes + "}}}"));
  };

  CHECK_THAT(rejection(in_bytes("1")), Contains("leaves a single streaming block"));
  CHECK(outline(in_bytes("1000000").value().dits[0]) == "transformer selected [1, head 1]");
}

TEST_CASE("a layerwise DiT of one block is an error, for legacy flags it has no stack",
          "[offload][resolve]") {
  fake_pipeline subject{tree(1)};
  subject.declare(roles).plan(planned());

  CHECK_THAT(rejection(resolve(subject, compact(dit_only))),
             Contains("transformer has a single block to stream; expected at least 2"));
  const auto outcome = resolve(subject, legacy(layerwise));
  CHECK(outline(outcome.value().dits[0]) == "transformer selected");
  CHECK_THAT(warnings(outcome), Contains("single block"));
}

TEST_CASE("resident layers without a declared path are an error, for legacy flags nothing stays",
          "[offload][resolve]") {
  auto subject = ordinary();
  subject.declare(roles).plan(planned());

  CHECK_THAT(rejection(resolve(subject, resident(2))),
             Contains("dit.resident_layers is 2 and no DiT is declared in resident_dit_paths"));
  const auto outcome = resolve(subject, legacy_resident(2));
  CHECK(outline(outcome.value().dits[0]) == "transformer selected [4]");
  CHECK_THAT(warnings(outcome), Contains("every block is streamed"));
}

TEST_CASE("ordinary layerwise offload keeps a head without any declaration", "[offload][resolve]") {
  auto options = layerwise;
  options.dlo_resident_layers = 2;
  auto subject = ordinary();
  subject.declare(roles).plan(planned());

  CHECK(outline(resolve(subject, legacy(options)).value().dits[0]) ==
        "transformer selected [4, head 2]");
}

} // namespace
} // namespace ferry
