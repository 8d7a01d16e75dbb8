// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/leased_model.hpp"
#include "support/plus_one.hpp"
#include "support/rank_team.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::leased_model;
using test::plus_one_for;

/// The weights of two blocks, the first of which is in a group with two resident layers, and what
/// stays on the device beside the blocks.
const std::vector<std::string> some{"transformer.blocks.1.weight", "transformer.blocks.3.weight",
                                    "transformer.pos"};

/// Returns what `name` of block `index` holds in every byte, or -1.
int value_of(test::fake_module& block, const std::string& name) {
  const auto seen = block.own_tensors().at(name)->bytes();
  const auto first = seen.front();
  return std::ranges::all_of(seen, [&](std::byte each) { return each == first; })
             ? std::to_integer<int>(first)
             : -1;
}

/// Returns whether `some` hold one more than they are stored as, the others what they are stored
/// as. `call` says whether each block is called for it.
bool is_transformed(test::fake_pipeline& model, bool call) {
  auto right = true;
  for (int i = 0; i != static_cast<int>(leased_model::blocks); ++i) {
    const auto path = "transformer.blocks." + std::to_string(i);
    const auto look = [&](test::fake_module& block) {
      right = value_of(block, "weight") == i + 1 + i % 2 && value_of(block, "bias") == i + 1 &&
              value_of(*model.tree()->at("transformer"), "pos") == 2 && right;
    };
    if (call)
      model.call(path, look);
    else
      look(*model.tree()->at(path));
  }
  return right;
}

struct served {
  served() { REQUIRE(through.start()); }

  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  runtime through{gpu, {}};
  leased_model model;
  std::shared_ptr<loader_transforms> left = plus_one_for(some);
};

TEST_CASE("tensors of a mapped plan are transformed before they are copied, and stay so",
          "[actors][transforms]") {
  served on;
  auto config = test::legacy_resident(GENERATE(0, 2));
  config.pin_memory = GENERATE(true, false);
  config.keep_mapped = true;

  REQUIRE(on.through.enable(on.model.pipeline(), config, nullptr, on.left));

  CHECK(on.left->empty());
  CHECK(is_transformed(*on.model.pipeline(), true));
  REQUIRE(on.through.disable());
  CHECK(is_transformed(*on.model.pipeline(), false));
  REQUIRE(on.through.enable(on.model.pipeline(), config, nullptr, on.left));
  CHECK(is_transformed(*on.model.pipeline(), true));
  CHECK(on.through.disable());
}

TEST_CASE("blocks of a lease that are transformed are pinned as copies, the others registered",
          "[actors][transforms]") {
  served on;

  REQUIRE(on.through.enable(on.model.pipeline(), test::legacy(test::distributed),
                            on.model.take_lease(), on.left));

  const auto state = on.through.state();
  CHECK(state->registered_bytes == leased_model::pages * page_bytes());
  CHECK(state->staged_stores == 0);
  CHECK(on.gpu->counters().pinned_bytes > leased_model::encoder_bytes);
  CHECK(is_transformed(*on.model.pipeline(), true));
  REQUIRE(on.through.disable());
  CHECK(on.model.closed());
  CHECK(is_transformed(*on.model.pipeline(), false));
}

TEST_CASE("a lease of which every block is transformed is not registered", "[actors][transforms]") {
  served on;
  std::vector<std::string> all;
  for (const auto* index : {"0", "1", "2", "3"})
    all.push_back(std::string{"transformer.blocks."} + index + ".bias");

  REQUIRE(on.through.enable(on.model.pipeline(), test::legacy(test::distributed),
                            on.model.take_lease(), plus_one_for(all)));

  CHECK(on.gpu->counters().registered_bytes == 0);
  CHECK_THAT(on.through.state()->not_registered, Contains("no block that is copied"));
  CHECK(on.through.disable());
}

TEST_CASE("an enable that fails under way leaves every tensor transformed, once",
          "[actors][transforms]") {
  served on;
  const auto config = test::legacy_resident(GENERATE(0, 2));
  on.gpu->inject({.call = device_call::allocate, .after = GENERATE(0U, 3U, 5U)});

  const auto failed =
      on.through.enable(on.model.pipeline(), config, on.model.take_lease(), on.left);

  REQUIRE_FALSE(failed);
  CHECK(on.left->empty());
  CHECK(is_transformed(*on.model.pipeline(), false));
  CHECK(on.through.enable(on.model.pipeline(), config, nullptr, on.left));
  CHECK(is_transformed(*on.model.pipeline(), true));
}

TEST_CASE("an enable that is refused leaves the transforms to be done", "[actors][transforms]") {
  served on;
  const auto unknown = plus_one_for({"transformer.late", "transformer.blocks.1.weight"});

  const auto refused = on.through.enable(on.model.pipeline(), test::legacy(test::distributed),
                                         on.model.lease(), unknown);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported);
  CHECK_THAT(refused.error().detail, Contains("transformer.late"));
  CHECK_FALSE(unknown->empty());
  CHECK(on.model.is_whole());
}

TEST_CASE("what ranks gather is transformed before, and each keeps only its part where it pins",
          "[actors][transforms][ranks]") {
  const auto pins = GENERATE(true, false);
  std::vector<leased_model> models(2);
  test::rank_team team{2, test::kind::sim};

  const auto right = team.all([&](test::rank& each, std::size_t i) {
    auto& subject = each.subject;
    auto& model = *models[i].pipeline();
    auto config = test::compact(test::gathered);
    config.keep_mapped = true;
    config.pin_memory = pins;
    if (!subject.start() ||
        !subject.enable(models[i].pipeline(), config, nullptr, plus_one_for(some)))
      return false;
    const auto stored =
        model.tree()->at("transformer.blocks.1")->own_tensors().at("weight")->storage;
    const auto only_a_part = !stored->mapped.empty();
    const auto read = subject.read_weights("transformer", {"blocks.1.weight"});
    const auto unreadable = !read && read.error().code == errc::unsupported;
    const auto seen =
        subject.begin_request({.steps = 1}).has_value() && is_transformed(model, true);
    return subject.end_request() && seen && only_a_part == pins && unreadable == pins &&
           subject.disable() && is_transformed(model, false);
  });

  CHECK(right);
  CHECK(team.races() == 0);
}

} // namespace
} // namespace ferry
