// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/faults.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::fake_module;
using test::fake_pipeline;
using strings = std::vector<std::string>;

using contents = std::vector<std::byte>;

contents bytes_of(const fake_module& module) {
  contents all;
  for (const auto& [name, tensor] : module.own_tensors()) {
    const auto seen = tensor->bytes();
    all.insert(all.end(), seen.begin(), seen.end());
  }
  return all;
}

/// Returns the bytes of every tensor, as each is seen now. Throws if one is parked.
contents everything(const fake_module& from) {
  auto all = bytes_of(from);
  for (const auto& [name, below] : from.own_children()) {
    const auto more = everything(*below);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

/// A pipeline of four denoiser blocks and three encoder blocks, and a runtime over a simulated
/// device.
struct offloaded {
  explicit offloaded(runtime_options options = {.acquire_deadline = 5s}) : subject(gpu, options) {
    model->declare(test::roles).plan(test::planned());
    REQUIRE(subject.start());
  }

  [[nodiscard]] result<void> enable(const offload_config& config = test::compact(test::both)) {
    return subject.enable(model, config);
  }

  /// Runs encoder and denoiser. Returns whether every block saw its bytes.
  [[nodiscard]] bool forward() {
    auto right = true;
    auto run = [&](const std::string& path) {
      model->call(path, [&](fake_module& block) {
        right = std::ranges::equal(bytes_of(block), original.at(path)) && right;
      });
    };
    for (const auto& path : block_paths)
      run(path);
    return right;
  }

  [[nodiscard]] bool ordinary() const {
    return everything(*model->tree()) == before && model->hook_count() == 0;
  }

  static std::map<std::string, contents> originals(fake_pipeline& of, const strings& paths) {
    std::map<std::string, contents> all;
    for (const auto& path : paths)
      all.emplace(path, bytes_of(*of.tree()->at(path)));
    return all;
  }

  strings block_paths{"text_encoder.block.0", "text_encoder.block.1", "text_encoder.block.2",
                      "transformer.blocks.0", "transformer.blocks.1", "transformer.blocks.2",
                      "transformer.blocks.3"};
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  std::shared_ptr<fake_pipeline> model = std::make_shared<fake_pipeline>(test::tree());
  std::map<std::string, contents> original = originals(*model, block_paths);
  contents before = everything(*model->tree());
  runtime subject;
};

TEST_CASE("an enabled pipeline computes with the same bytes, and a disabled one has them back",
          "[actors][enable]") {
  const auto pinned = GENERATE(true, false);
  offloaded run;
  auto config = test::compact(test::both);
  config.pin_memory = pinned;

  REQUIRE(run.enable(config));
  CHECK(run.model->hook_count() == 7);
  REQUIRE(run.subject.begin_request());
  CHECK(run.forward());
  CHECK(run.forward());
  CHECK_NOTHROW(bytes_of(*run.model->tree()->at("transformer")));
  REQUIRE(run.subject.end_request());
  CHECK((run.subject.state()->pinned_bytes > 0) == pinned);
  REQUIRE(run.subject.disable());

  CHECK(run.ordinary());
  CHECK(run.gpu->race_count() == 0);
  CHECK(run.gpu->counters().device_bytes == 0);
  CHECK(run.gpu->counters().pinned_bytes == 0);
}

TEST_CASE("residents are on the device when enable answers", "[actors][enable]") {
  offloaded run;
  REQUIRE(run.enable());

  const auto vae = bytes_of(*run.model->tree()->at("vae"));

  CHECK(std::ranges::all_of(vae, [](std::byte each) { return each == std::byte{1}; }));
}

TEST_CASE("the state tells what was made of each component", "[actors][enable]") {
  offloaded run;
  REQUIRE(run.enable());

  const auto state = run.subject.state();

  REQUIRE(state);
  CHECK(state->strategy == offload_strategy::layer_wise);
  CHECK(state->enabled);
  const auto& dit = state->components.at("transformer");
  CHECK(dit.selected);
  CHECK(dit.blocks == 4);
  CHECK(dit.resident_blocks == 0);
  CHECK(dit.bytes == 4 * 64 + 16);
  CHECK(dit.largest_block_bytes == state->slot_bytes);
  CHECK_FALSE(state->components.at("vae").selected);
  CHECK(state->components.at("text_encoder").blocks == 3);
  CHECK(state->peak_device_weight_bytes == state->resident_bytes + 2 * state->slot_bytes);
}

TEST_CASE("enabling and disabling many times leaves nothing behind", "[actors][enable]") {
  offloaded run;
  const auto before = run.gpu->counters();

  for (int i = 0; i != 20; ++i) {
    REQUIRE(run.enable());
    REQUIRE(run.forward());
    REQUIRE(run.subject.disable());
  }

  CHECK(run.ordinary());
  CHECK(run.gpu->counters().events == before.events);
  CHECK(run.gpu->counters().streams == before.streams);
  CHECK(run.gpu->counters().device_bytes == 0);
}

TEST_CASE("the strategy none touches nothing", "[actors][enable]") {
  offloaded run;

  CHECK(run.enable(offload_config{}));

  CHECK_FALSE(run.subject.state()->enabled);
  CHECK(run.model->mutations().empty());
}

TEST_CASE("a group of ranks that is not there is refused, not replaced", "[actors][enable]") {
  offloaded run;
  auto gathered = test::legacy({.enable_distributed_layerwise_offload = true});
  gathered.group_size = 2;

  CHECK(run.enable(gathered).error().code == errc::invalid_config);

  CHECK(run.model->mutations().empty());
}

TEST_CASE("distributed offload with rank-local transfers streams blocks", "[actors][enable]") {
  offloaded run;

  REQUIRE(run.enable(test::legacy(test::distributed)));

  CHECK(run.subject.state()->strategy == offload_strategy::distributed_layer_wise);
  CHECK(run.forward());
  CHECK(run.subject.disable());
  CHECK(run.ordinary());
}

TEST_CASE("everything that the resolver finds wrong is reported, and nothing was touched",
          "[actors][enable]") {
  offloaded run;
  auto plan = test::planned();
  plan.block_attrs = {{"transformer", {"nowhere"}}};
  plan.encoder_block_attrs = {{"text_encoder", {"nothing"}}};
  run.model->plan(plan);

  const auto enabled = run.enable();

  REQUIRE_FALSE(enabled);
  CHECK_THAT(enabled.error().detail, Catch::Contains("nowhere") && Catch::Contains("nothing"));
  CHECK(run.model->mutations().empty());
  CHECK(run.gpu->counters().allocations == 0);
}

TEST_CASE("a pipeline with nothing to offload is left alone, and the state says so",
          "[actors][enable]") {
  offloaded run;
  component_roles encoder_only{.encoders = {"text_encoder"}, .vaes = {"vae"}};
  run.model->declare(encoder_only);

  CHECK(run.enable(test::legacy(test::layerwise)));

  CHECK_FALSE(run.subject.state()->enabled);
  CHECK(run.model->mutations().empty());
}

TEST_CASE("a pipeline that does not fit is refused before anything is touched",
          "[actors][enable]") {
  offloaded run{{.device_memory = 300}};

  CHECK(run.enable().error().code == errc::out_of_device_memory);

  CHECK(run.model->mutations().empty());
}

/// Its encoder stages itself.
struct self_staging : offloaded {
  self_staging() {
    encoder->stages();
    auto plan = test::planned();
    plan.on_demand_component_paths = {"text_encoder"};
    model->plan(plan);
  }

  test::fake_node encoder = model->tree()->at("text_encoder");
};

TEST_CASE("components that stage themselves are sent off once, behind the hooks",
          "[actors][enable]") {
  self_staging run;

  REQUIRE(run.enable());

  const auto calls = run.model->mutations();
  CHECK(std::ranges::count(calls, "offload_to_cpu") == 1);
  CHECK(run.encoder->mutations() == strings{"offload_to_cpu"});
}

TEST_CASE("a component that stages itself is brought in and sent off by its own methods",
          "[actors][enable]") {
  self_staging run;
  REQUIRE(run.enable());

  REQUIRE(run.subject.stage_in("text_encoder"));
  REQUIRE(run.subject.stage_out("text_encoder"));

  CHECK(run.encoder->mutations() == strings{"offload_to_cpu", "load_to_device", "offload_to_cpu"});
}

TEST_CASE("what a component's own method throws is the answer, and fails nothing else",
          "[actors][enable]") {
  self_staging run;
  REQUIRE(run.enable());
  run.encoder->refuses_to_stage();

  const auto staged = run.subject.stage_in("text_encoder");

  REQUIRE_FALSE(staged);
  CHECK_THAT(staged.error().detail, Catch::Contains("was told to refuse load_to_device"));
  CHECK_FALSE(run.subject.state()->first_failure);
  run.encoder->refuses_to_stage(false);
  CHECK(run.subject.stage_in("text_encoder"));
}

TEST_CASE("an enable whose component refuses to be sent off is undone", "[actors][enable]") {
  self_staging run;
  run.encoder->refuses_to_stage();

  const auto enabled = run.enable();

  REQUIRE_FALSE(enabled);
  CHECK_THAT(enabled.error().detail, Catch::Contains("was told to refuse offload_to_cpu"));
  CHECK(run.ordinary());
  CHECK(run.gpu->counters().device_bytes == 0);
  run.encoder->refuses_to_stage(false);
  CHECK(run.enable());
}

TEST_CASE("an enable that fails at any unit or hook leaves ordinary tensors and may be repeated",
          "[actors][enable]") {
  const auto n = GENERATE(range(std::size_t{0}, std::size_t{17}));
  offloaded run;
  run.model->fail_after(n);

  const auto enabled = run.enable();

  REQUIRE_FALSE(enabled);
  CHECK(enabled.error().code == errc::device_failure);
  CHECK(run.ordinary());
  CHECK(run.gpu->counters().device_bytes == 0);
  CHECK(run.gpu->counters().pinned_bytes == 0);
  CHECK(run.enable());
  CHECK(run.forward());
}

TEST_CASE("a pipeline that another runtime offloads is refused, and its hooks stay",
          "[actors][enable]") {
  offloaded run;
  REQUIRE(run.enable());
  const auto other_gpu = std::make_shared<sim_device>(sim_options{});
  runtime other{other_gpu, {}};
  REQUIRE(other.start());

  CHECK(other.enable(run.model, test::compact(test::both)).error().code == errc::already_enabled);

  CHECK(run.model->hook_count() == 7);
  CHECK(run.forward());
  CHECK(run.subject.disable());
  CHECK(run.ordinary());
}

TEST_CASE("a disable that cannot restore keeps the backend and may be repeated",
          "[actors][enable]") {
  offloaded run;
  REQUIRE(run.enable());
  run.model->fail_restore(3);

  const auto disabled = run.subject.disable();

  REQUIRE_FALSE(disabled);
  CHECK(disabled.error().code == errc::incomplete);
  CHECK(run.subject.state()->enabled);
  CHECK(run.subject.state()->pinned_bytes > 0);
  CHECK(run.enable().error().code == errc::already_enabled);
  CHECK(run.subject.begin_request().error().code == errc::incomplete);
  CHECK(run.subject.disable());
  CHECK(run.ordinary());
}

TEST_CASE("a stop restores the tensors, also if that fails at first", "[actors][enable]") {
  offloaded run;
  REQUIRE(run.enable());
  run.model->fail_restore(2);

  CHECK(run.subject.stop(10s));

  CHECK(run.ordinary());
}

TEST_CASE("whatever device call fails, the tensors are ordinary again afterwards",
          "[actors][enable][faults]") {
  const auto gpu = std::make_shared<sim_device>(sim_options{});
  const auto model = std::make_shared<fake_pipeline>(test::tree());
  model->declare(test::roles).plan(test::planned());
  const auto before = everything(*model->tree());
  const auto paths = offloaded{}.block_paths;

  const auto tried = test::at_every_fault_point(
      *gpu,
      [&] {
        runtime subject{gpu, {.acquire_deadline = 5s}};
        auto ok = subject.start() && subject.enable(model, test::compact(test::both)) &&
                  subject.begin_request();
        if (ok) {
          for (const auto& path : paths)
            model->call(path, [](fake_module&) {});
          ok = subject.end_request().has_value();
        }
        return subject.disable() && ok;
      },
      [&] {
        CHECK(everything(*model->tree()) == before);
        CHECK(model->hook_count() == 0);
        CHECK(gpu->counters().device_bytes == 0);
        CHECK(gpu->counters().pinned_bytes == 0);
        CHECK(gpu->counters().streams == 0);
        CHECK(gpu->counters().events == 0);
        CHECK(gpu->race_count() == 0);
      });

  CHECK(tried > 50);
}

} // namespace
} // namespace ferry
