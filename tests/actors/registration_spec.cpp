// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/host_registration.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/edges.hpp"
#include "support/leased_model.hpp"
#include "support/offloader_rig.hpp"
#include "support/rank_team.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::leased_model;

const auto all_pages = leased_model::pages * page_bytes();

offload_config distributed(double limit_gib = 0) {
  auto options = test::distributed;
  options.dlo_host_registration_limit_gib = limit_gib;
  options.host_weight_runtime_mode = host_weight_runtime::preferred;
  options.host_weight_runtime_root = "/weights";
  return test::legacy(options);
}

/// A runtime over a simulated device, and a model with a lease.
struct served {
  explicit served(bool read_only = true, runtime_options options = {})
      : through(gpu, std::move(options)), model(gpu, read_only) {
    REQUIRE(through.start());
  }

  [[nodiscard]] result<void> enable(const offload_config& config = distributed()) {
    return through.enable(model.pipeline(), config, model.take_lease());
  }
  [[nodiscard]] bool runs() {
    if (!through.begin_request())
      return false;
    const auto right = model.run_step() && model.run_step();
    return through.end_request() && right;
  }
  [[nodiscard]] std::uint64_t registered() const { return gpu->counters().registered_bytes; }

  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  runtime through;
  leased_model model;
};

TEST_CASE("leased weights are streamed from their registered pages, without any pinned copy",
          "[actors][registration]") {
  served on;

  REQUIRE(on.enable());

  CHECK(on.registered() == all_pages);
  CHECK(on.gpu->counters().pinned_bytes == leased_model::encoder_bytes);
  const auto state = on.through.state();
  CHECK(state->registered_bytes == all_pages);
  CHECK(state->not_registered.empty());
  CHECK(state->pageable_stores == 0);
  CHECK(state->staged_stores == 0);
  CHECK(on.runs());
  CHECK(on.gpu->race_count() == 0);
}

TEST_CASE("a disable gives the pipeline its own weights, unregisters the pages and then closes the "
          "lease",
          "[actors][registration]") {
  served on;
  REQUIRE(on.enable());
  REQUIRE(on.runs());

  REQUIRE(on.through.disable());

  CHECK(on.registered() == 0);
  CHECK(on.model.closed());
  CHECK(on.model.registered_at_close() == 0);
  CHECK(on.model.is_whole());
  CHECK(on.through.enable(on.model.pipeline(), distributed()));
  CHECK(on.runs());
}

TEST_CASE("resident layers are loaded from registered pages as well", "[actors][registration]") {
  served on;
  auto options = test::distributed;
  options.dlo_resident_layers = 2;

  REQUIRE(on.enable(test::legacy(options)));

  CHECK(on.through.state()->staged_stores == 0);
  CHECK(on.gpu->counters().pinned_bytes == leased_model::encoder_bytes);
  REQUIRE(on.through.stage_in("transformer"));
  CHECK(on.runs());
  REQUIRE(on.through.disable());
  CHECK(on.model.closed());
  CHECK(on.model.is_whole());
}

TEST_CASE("without the drain of copies the pages are unregistered under them",
          "[actors][registration]") {
  const auto edge = GENERATE("", drain_before_restore.name);

  const auto shown = test::run_without_edge(sim_options{}, edge, [](sim_device& gpu) {
    const std::shared_ptr<device> shared{std::shared_ptr<void>{}, &gpu};
    leased_model model;
    runtime through{shared, {}};
    const auto right = through.start() &&
                       through.enable(model.pipeline(), distributed(), model.take_lease()) &&
                       through.begin_request() && model.run_step() && through.end_request();
    return through.disable() && right && model.is_whole();
  });

  const auto early = std::ranges::any_of(
      shown.races, [](const race& each) { return each.second.kind == "unregister_pages"; });
  CHECK(early == (edge == std::string{drain_before_restore.name}));
}

TEST_CASE("pages that cannot be registered are given back, and copied from all the same",
          "[actors][registration]") {
  served on;
  on.gpu->inject({.call = device_call::register_pages, .after = 1});

  REQUIRE(on.enable());

  CHECK(on.registered() == 0);
  const auto state = on.through.state();
  CHECK(state->registered_bytes == 0);
  CHECK_THAT(state->not_registered, Contains("register_pages"));
  CHECK(state->staged_stores == leased_model::blocks);
  CHECK(on.runs());
  REQUIRE(on.through.disable());
  CHECK(on.model.closed());
  CHECK(on.model.is_whole());
}

TEST_CASE("the configured limit is in GiB and found before the device is called",
          "[actors][registration]") {
  served on;
  const auto limit = static_cast<double>(all_pages) / (1024.0 * 1024.0 * 1024.0);
  SECTION("enough") {
    REQUIRE(on.enable(distributed(limit)));
    CHECK(on.registered() == all_pages);
  }
  SECTION("a byte too little") {
    on.gpu->inject({.call = device_call::register_pages});
    REQUIRE(on.enable(distributed(limit - 1e-9)));
    CHECK_FALSE(on.gpu->cancel_failure());
    CHECK_THAT(on.through.state()->not_registered,
               Contains("at most " + std::to_string(all_pages - 1)) ||
                   Contains("at most " + std::to_string(all_pages - 2)));
    CHECK(on.runs());
  }
}

TEST_CASE("a region that may be written is told by its file, and nothing is registered",
          "[actors][registration]") {
  served on{false};
  on.gpu->inject({.call = device_call::register_pages});

  REQUIRE(on.enable());

  CHECK_FALSE(on.gpu->cancel_failure());
  CHECK_THAT(on.through.state()->not_registered, Contains("dit-1.bin"));
  CHECK(on.runs());
}

TEST_CASE("without pinning nothing is registered", "[actors][registration]") {
  served on;
  auto config = distributed();
  config.pin_memory = false;

  REQUIRE(on.enable(config));

  CHECK(on.registered() == 0);
  CHECK_THAT(on.through.state()->not_registered, Contains("pin_memory is false"));
  CHECK(on.through.state()->pageable_stores == 0);
  CHECK(on.runs());
}

TEST_CASE("a lease in which no block lies is kept, and the blocks are pinned as ever",
          "[actors][registration]") {
  served on;
  leased_model other;
  const auto model = std::make_shared<test::fake_pipeline>(test::tree());
  model->declare(test::roles).plan(test::planned());

  REQUIRE(on.through.enable(model, distributed(), other.take_lease()));

  CHECK_THAT(on.through.state()->not_registered, Contains("no block"));
  CHECK(on.gpu->counters().pinned_bytes > 0);
  CHECK_FALSE(other.closed());
  REQUIRE(on.through.disable());
  CHECK(other.closed());
}

TEST_CASE("a device that registers nothing copies leased weights from where they are",
          "[actors][registration]") {
  const auto cpu =
      std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20});
  leased_model model;
  runtime through{cpu, {}};
  REQUIRE(through.start());

  REQUIRE(through.enable(model.pipeline(), distributed(), model.take_lease()));

  CHECK_THAT(through.state()->not_registered, Contains("device host registers no"));
  CHECK(model.run_step());
  REQUIRE(through.disable());
  CHECK(model.closed());
  CHECK(model.is_whole());
}

TEST_CASE("a lease is for a distributed strategy", "[actors][registration]") {
  served on;
  const auto share = on.model.lease();

  const auto refused = on.through.enable(on.model.pipeline(), test::compact(test::modules), share);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported);
  CHECK_THAT(refused.error().detail, Contains("lease"));
  CHECK_FALSE(on.model.closed());
}

TEST_CASE("registered pages are leased beside pinned memory, within the ceiling of both",
          "[actors][registration]") {
  test::offloader_rig rig;
  leased_model model;
  const auto state = [&] {
    return rig.world.ask<host_memory_state>(rig.memory, query_host_memory{}).value();
  };

  REQUIRE(
      rig.world.ask<enabled>(rig.subject, enable_pipeline{model.pipeline(), distributed(),
                                                          rig.gpu->stamp(), model.take_lease()}));

  CHECK(state().registered == all_pages);
  CHECK(state().pinned == leased_model::encoder_bytes);
  REQUIRE(rig.world.ask<answered>(rig.subject, disable_backend{rig.gpu->stamp()}));
  CHECK(state().registered == 0);
  CHECK(state().leases.empty());
}

TEST_CASE("a ceiling of the runtime that is too low leaves the pages unregistered",
          "[actors][registration]") {
  served on{true, {.pinned_memory = all_pages - 1}};

  REQUIRE(on.enable());

  CHECK(on.registered() == 0);
  CHECK_THAT(on.through.state()->not_registered, Contains("runtime_options::pinned_memory"));
  CHECK(on.runs());
}

/// Makes a registration fail whose rollback then fails too.
void fail_rollback(sim_device& gpu) {
  gpu.inject({.call = device_call::register_pages, .after = 1});
  gpu.inject({.call = device_call::unregister_pages});
}

TEST_CASE(
    "pages that a failed start cannot give back end it, and keep the lease until the next one",
    "[actors][registration]") {
  served on;
  fail_rollback(*on.gpu);

  const auto failed = on.enable();

  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == errc::incomplete);
  CHECK_THAT(failed.error().detail, Contains("could not be given back"));
  CHECK_FALSE(on.through.state()->enabled);
  CHECK(on.model.pipeline()->hook_count() == 0);
  CHECK(on.model.is_whole());
  CHECK(on.registered() > 0);
  CHECK_FALSE(on.model.closed());

  leased_model next{on.gpu};
  REQUIRE(on.through.enable(next.pipeline(), distributed(), next.take_lease()));

  CHECK(on.model.closed());
  CHECK(on.registered() == all_pages);
  CHECK(next.run_step());
}

TEST_CASE("pages that a failed start cannot give back are tried again when the runtime stops",
          "[actors][registration]") {
  served on;
  fail_rollback(*on.gpu);
  REQUIRE_FALSE(on.enable());

  REQUIRE(on.through.stop(std::chrono::seconds{5}));

  CHECK(on.registered() == 0);
  CHECK(on.model.closed());
}

TEST_CASE("a disable that cannot unregister keeps the lease, and finishes when it is repeated",
          "[actors][registration]") {
  served on;
  REQUIRE(on.enable());
  on.gpu->inject({.call = device_call::unregister_pages});

  const auto failed = on.through.disable();

  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == errc::incomplete);
  CHECK_FALSE(on.model.closed());
  CHECK(on.registered() > 0);
  CHECK(on.through.state()->enabled);
  CHECK(on.through.disable());
  CHECK(on.registered() == 0);
  CHECK(on.model.closed());
  CHECK(on.model.is_whole());
}

TEST_CASE("a device that has failed for good keeps the pages and the lease, not the weights",
          "[actors][registration]") {
  served on;
  REQUIRE(on.enable());
  on.gpu->inject({.call = device_call::unregister_pages, .effect = fault_effect::sticky});
  REQUIRE_FALSE(on.through.disable());

  REQUIRE(on.through.disable());

  CHECK_FALSE(on.model.closed());
  CHECK(on.model.is_whole());
  CHECK(on.model.pipeline()->hook_count() == 0);
  CHECK(abandoned_registrations(*on.gpu) == 1);
}

TEST_CASE("a lease that cannot be closed is told once everything else is over",
          "[actors][registration]") {
  served on;
  REQUIRE(on.enable());
  on.model.fail_close();

  const auto disabled = on.through.disable();

  REQUIRE_FALSE(disabled);
  CHECK_THAT(disabled.error().detail, Contains("unmap was told to fail"));
  CHECK_FALSE(on.through.state()->enabled);
  CHECK(on.model.is_whole());
  CHECK(on.through.disable().error().code == errc::not_enabled);
}

TEST_CASE("an enable that fails under way gives the weights back before the lease ends",
          "[actors][registration]") {
  served on;
  on.gpu->inject({.call = device_call::copy});

  REQUIRE_FALSE(on.enable());

  CHECK(on.registered() == 0);
  CHECK(on.model.closed());
  CHECK(on.model.registered_at_close() == 0);
  CHECK(on.model.is_whole());
}

TEST_CASE("weights that are replaced leave the registered pages", "[actors][registration]") {
  served on;
  REQUIRE(on.enable());
  const auto other = std::make_shared<std::vector<std::byte>>(32, std::byte{77});

  REQUIRE(on.through.update_weights(
      {"transformer", {{"blocks.1.bias", dtype::f32, {8}, *other, other}}}));

  auto seen = std::byte{};
  on.model.pipeline()->call("transformer.blocks.1", [&](test::fake_module& block) {
    seen = block.own_tensors().at("bias")->bytes().front();
  });
  CHECK(seen == std::byte{77});
  REQUIRE(on.through.disable());
  CHECK(on.model.pipeline()
            ->tree()
            ->at("transformer.blocks.1")
            ->own_tensors()
            .at("bias")
            ->bytes()
            .back() == std::byte{77});
  CHECK(on.registered() == 0);
}

TEST_CASE("leased blocks that ranks gather are not registered, and become their own at the end",
          "[actors][registration][ranks]") {
  std::vector<leased_model> models(2);
  test::rank_team team{2, test::kind::sim};

  const auto right = team.all([&](test::rank& each, std::size_t i) {
    auto& subject = each.subject;
    if (!subject.start() || !subject.enable(models[i].pipeline(), test::compact(test::gathered),
                                            models[i].take_lease()))
      return false;
    const auto steps = subject.begin_request({.steps = 2}).has_value() && models[i].run_step() &&
                       models[i].run_step();
    return subject.end_request() && steps &&
           subject.state()->not_registered.find("ranks gather") != std::string::npos &&
           subject.disable() && models[i].is_whole();
  });

  CHECK(right);
  CHECK(models[0].closed());
  CHECK(models[1].closed());
  CHECK(team.sim(0).counters().registered_bytes == 0);
  CHECK(team.races() == 0);
}

} // namespace
} // namespace ferry
