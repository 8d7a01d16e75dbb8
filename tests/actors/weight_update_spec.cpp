// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"
#include "support/staging.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using test::contents;
using test::everything;
using test::fake_module;
using test::fake_pipeline;

constexpr auto streamed = R"({"mode":"layer","components":["dit"]})";
constexpr auto pageable = R"({"mode":"layer","components":["dit"],"pin_memory":false})";
constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";
constexpr auto half_resident =
    R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"resident_layers":2}}})";

weight_value value(std::string name, std::vector<std::int64_t> shape, unsigned char fill) {
  std::size_t bytes = 4;
  for (const auto extent : shape)
    bytes *= static_cast<std::size_t>(extent);
  auto owner = std::make_shared<contents>(bytes, std::byte{fill});
  const const_bytes seen{*owner};
  return {std::move(name), dtype::f32, std::move(shape), seen, std::move(owner)};
}

/// New bytes for all that the denoiser has: four blocks, and a tensor beside them.
weight_update new_denoiser(unsigned char fill = 100) {
  return {"transformer",
          {value("blocks.0.weight", {16}, fill), value("blocks.1.weight", {16}, ++fill),
           value("blocks.2.weight", {16}, ++fill), value("blocks.3.weight", {16}, ++fill),
           value("pos", {4}, ++fill)}};
}

struct updated {
  explicit updated(std::string_view config = streamed, sim_options options = {})
      : gpu(std::make_shared<sim_device>(options)), subject(gpu, {.acquire_deadline = 5s}) {
    model->declare(test::roles).plan(planned());
    before = everything(*model->tree());
    REQUIRE(subject.start());
    REQUIRE(subject.enable(model, test::compact(config)));
  }

  static offload_plan planned() {
    auto plan = test::planned();
    plan.resident_dit_paths = {"transformer"};
    return plan;
  }

  /// Runs the model as a request would. Returns the bytes that it saw, in order.
  [[nodiscard]] contents forward() {
    contents seen;
    const auto add = [&](const fake_module& module) {
      const auto more = everything(module);
      seen.insert(seen.end(), more.begin(), more.end());
    };
    model->call("text_encoder", add_encoder(add));
    model->call("transformer", [&](fake_module& dit) {
      const auto pos = dit.own_tensors().at("pos")->bytes();
      seen.insert(seen.end(), pos.begin(), pos.end());
      for (const auto* path : {"0", "1", "2", "3"})
        model->call(std::string{"transformer.blocks."} + path, add);
    });
    return seen;
  }

  template <class Add>
  static std::function<void(fake_module&)> add_encoder(const Add& add) {
    return [add](fake_module& encoder) { add(encoder); };
  }

  [[nodiscard]] contents request() {
    REQUIRE(subject.begin_request());
    auto seen = forward();
    REQUIRE(subject.end_request());
    return seen;
  }

  [[nodiscard]] weight_version version() {
    return subject.state().value().components.at("transformer").version;
  }

  std::shared_ptr<sim_device> gpu;
  std::shared_ptr<fake_pipeline> model = std::make_shared<fake_pipeline>(test::tree());
  contents before;
  runtime subject;
};

/// What a model that was loaded with the new weights sees.
contents fresh(unsigned char fill = 100) {
  auto tree = test::tree();
  const auto overwrite = [&](const std::string& path, const std::string& name, unsigned char with) {
    auto& storage = *tree->at(path)->own_tensors().at(name)->storage;
    std::ranges::fill(storage.bytes, std::byte{with});
  };
  const auto dit = std::string{"transformer"};
  for (const auto* each : {"0", "1", "2", "3"})
    overwrite(dit + ".blocks." + each, "weight", fill++);
  overwrite(dit, "pos", fill);
  return everything(*tree);
}

contents seen_by(fake_pipeline& model) {
  contents seen = everything(*model.tree()->at("text_encoder"));
  const auto more = everything(*model.tree()->at("transformer"));
  seen.insert(seen.end(), more.begin(), more.end());
  return seen;
}

TEST_CASE("after an update every block, resident and group has the new bytes, and a disable keeps "
          "them",
          "[actors][weights]") {
  const auto* config = GENERATE(streamed, pageable, whole, half_resident);
  CAPTURE(config);
  updated run(config);
  const auto old_bytes = run.request();

  const auto version = run.subject.update_weights(new_denoiser());

  REQUIRE(version);
  CHECK(*version == weight_version{1});
  CHECK(run.version() == weight_version{1});
  const auto new_bytes = run.request();
  CHECK(new_bytes != old_bytes);
  REQUIRE(run.subject.disable());
  CHECK(everything(*run.model->tree()) == fresh());
  CHECK(new_bytes == seen_by(*run.model));
  CHECK(run.gpu->race_count() == 0);
  CHECK(run.gpu->counters().d2h_bytes == 0);
  CHECK(run.gpu->counters().pinned_bytes == 0);
  CHECK(run.gpu->counters().device_bytes == 0);
}

TEST_CASE("what was prefetched before an update is fetched again", "[actors][weights]") {
  updated run;
  REQUIRE(run.subject.state()->tickets_in_flight == 2);

  REQUIRE(run.subject.update_weights(new_denoiser()));
  CHECK(run.subject.state()->tickets_in_flight == 2);
  const auto seen = run.forward();

  CHECK(run.subject.state()->blocking_loads == 0);
  REQUIRE(run.subject.disable());
  CHECK(seen == seen_by(*run.model));
  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE(
    "a group that is on the device leaves before an update, and comes back with the new bytes",
    "[actors][weights]") {
  updated run(whole);
  REQUIRE(run.subject.stage_in("transformer"));

  REQUIRE(run.subject.update_weights(new_denoiser()));

  CHECK_FALSE(run.subject.state()->components.at("transformer").on_device);
  const auto seen = run.forward();
  REQUIRE(run.subject.disable());
  CHECK(seen == seen_by(*run.model));
}

TEST_CASE("the order that was learned survives an update", "[actors][weights]") {
  updated run;
  const auto backwards = [&] {
    REQUIRE(run.subject.begin_request());
    for (const auto* block : {"3", "2", "1", "0"})
      run.model->call(std::string{"transformer.blocks."} + block, [](fake_module&) {});
    REQUIRE(run.subject.end_request());
  };
  backwards();
  REQUIRE(run.subject.update_weights(new_denoiser()));
  const auto before = run.subject.state()->blocking_loads;

  backwards();

  CHECK(run.subject.state()->blocking_loads == before);
}

TEST_CASE("an update that is wrong anywhere changes nothing and names all of it",
          "[actors][weights]") {
  updated run;
  auto wrong = new_denoiser();
  wrong.values[2] = value("blocks.2.weight", {4, 4}, 9);
  wrong.values[3].type = dtype::i32;
  wrong.values.push_back(value("blocks.4.weight", {16}, 9));

  const auto refused = run.subject.update_weights(wrong);
  wrong.values.pop_back();
  const auto misshapen = run.subject.update_weights(wrong);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::not_found);
  CHECK_THAT(refused.error().detail, Contains("transformer: tensor 'blocks.4.weight'"));
  REQUIRE_FALSE(misshapen);
  CHECK(misshapen.error().code == errc::invalid_argument);
  CHECK_THAT(misshapen.error().detail,
             Contains("'blocks.2.weight' is F32 [16]; the update has F32 [4, 4]") &&
                 Contains("'blocks.3.weight' is F32 [16]; the update has I32 [16]"));
  CHECK(run.version() == weight_version{0});
  REQUIRE(run.subject.disable());
  CHECK(everything(*run.model->tree()) == run.before);
}

TEST_CASE("weights are left alone during a request and while a block is in use",
          "[actors][weights]") {
  updated run;

  REQUIRE(run.subject.begin_request());
  const auto during = run.subject.update_weights(new_denoiser());
  const auto read = run.subject.read_weights("transformer", {});
  REQUIRE(run.subject.end_request());
  result<weight_version> inside;
  run.model->call("transformer.blocks.0",
                  [&](fake_module&) { inside = run.subject.update_weights(new_denoiser()); });

  REQUIRE_FALSE(during);
  CHECK(during.error().code == errc::busy);
  CHECK(read.error().code == errc::busy);
  REQUIRE_FALSE(inside);
  CHECK(inside.error().code == errc::busy);
  CHECK_THAT(inside.error().detail, Contains("transformer.blocks.0"));
  CHECK(run.forward() == seen_by(*std::make_shared<fake_pipeline>(test::tree())));
}

TEST_CASE("updates need an enabled pipeline and a component of it", "[actors][weights]") {
  updated run;

  const auto unknown = run.subject.update_weights({"transformer_3", new_denoiser().values});
  const auto nothing = run.subject.update_weights({"transformer", {}});
  REQUIRE(run.subject.disable());
  const auto late = run.subject.update_weights(new_denoiser());

  CHECK(unknown.error().code == errc::not_found);
  CHECK(nothing.error().code == errc::invalid_argument);
  CHECK(late.error().code == errc::not_enabled);
}

TEST_CASE("an update that fails at any device call leaves the old weights everywhere, and one that "
          "succeeds the new ones",
          "[actors][weights]") {
  const auto* config = GENERATE(streamed, whole, half_resident);
  const auto effect = GENERATE(fault_effect::once, fault_effect::sticky);
  CAPTURE(config, effect == fault_effect::sticky);
  auto failed = true;
  std::size_t refused = 0;
  for (std::uint64_t n = 0; failed; ++n) {
    CAPTURE(n);
    updated run(config);
    run.gpu->inject({.after = n, .effect = effect});
    const auto version = run.subject.update_weights(new_denoiser());
    const auto usable = version && run.subject.begin_request() && run.subject.end_request();
    failed = run.gpu->cancel_failure();
    refused += version ? 0u : 1u;
    CHECK((usable || failed));

    if (!run.subject.state()->first_failure)
      CHECK(run.version() == (version ? weight_version{1} : weight_version{0}));
    REQUIRE(run.subject.disable());

    CHECK(everything(*run.model->tree()) == (version ? fresh() : run.before));
    // A device that is gone runs nothing any more, and nobody waits for it.
    CHECK((effect == fault_effect::sticky || run.gpu->race_count() == 0));
    CHECK(run.gpu->counters().pinned_bytes == 0);
  }
  CHECK(refused > 3);
}

TEST_CASE("after a failed update the model runs on the old weights", "[actors][weights]") {
  updated run;
  const auto old_bytes = run.request();
  auto refused = false;
  for (std::uint64_t n = 0; !refused; ++n) {
    REQUIRE(n < 100);
    run.gpu->fail_after(n);
    refused = !run.subject.update_weights({"transformer", {value("pos", {4}, 77)}});
    run.gpu->cancel_failure();
  }

  CHECK_FALSE(run.subject.state()->first_failure);
  CHECK(run.request() == old_bytes);
  CHECK(run.subject.update_weights(new_denoiser()));
}

TEST_CASE("an update that did not wait for the copies before it would race", "[actors][weights]") {
  updated run;
  run.gpu->forget(drain_before_restore.name);

  REQUIRE(run.subject.update_weights(new_denoiser()));

  CHECK(run.gpu->race_count() > 0);
}

TEST_CASE("weights are read as the masters have them, while their blocks are away",
          "[actors][weights]") {
  const auto* config = GENERATE(streamed, pageable, whole);
  CAPTURE(config);
  updated run(config);

  const auto all = run.subject.read_weights("transformer", {});
  REQUIRE(run.subject.update_weights({"transformer", {value("blocks.3.weight", {16}, 55)}}));
  const auto one = run.subject.read_weights("transformer", {"blocks.3.weight"});

  REQUIRE(all);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  contents bytes;
  for (const auto& each : all->values) {
    shapes.emplace(each.name, each.shape);
    bytes.insert(bytes.end(), each.bytes.begin(), each.bytes.end());
  }
  CHECK(shapes.size() == 5);
  CHECK(shapes.at("pos") == std::vector<std::int64_t>{4});
  CHECK(bytes == everything(*test::tree()->at("transformer")));
  REQUIRE(one);
  CHECK(one->version == weight_version{1});
  CHECK(std::ranges::all_of(one->values.at(0).bytes, [](auto b) { return b == std::byte{55}; }));
  CHECK(run.subject.read_weights("transformer", {"nothing"}).error().code == errc::not_found);
}

} // namespace
} // namespace ferry
