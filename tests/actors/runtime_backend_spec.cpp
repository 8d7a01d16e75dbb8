// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime_backend.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/leased_plan.hpp"
#include "support/plus_one.hpp"
#include "support/resolution.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::fake_pipeline;
using test::leased_plan;

std::shared_ptr<fake_pipeline> make_model(const component_roles& roles = test::roles) {
  auto model = std::make_shared<fake_pipeline>(test::tree());
  model->declare(roles).plan(test::planned());
  return model;
}

/// A runtime over a simulated device, and what starts pipelines on it.
struct served {
  served() { REQUIRE(through.start()); }

  [[nodiscard]] result<started_offload> start(loaded_pipeline subject,
                                              device_presence device = device_presence::present) {
    return start_offload(std::move(subject), runtime_backends(through, config, device), warnings);
  }
  [[nodiscard]] result<started_offload> start(const host_weight_plan& plan) {
    loaded_pipeline subject{make_model()};
    subject.attach({plan, {}, false});
    return start(std::move(subject));
  }
  [[nodiscard]] bool enabled() const { return through.state()->enabled; }

  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  runtime through{gpu, {}};
  offload_config config = test::legacy(test::distributed);
  std::vector<std::string> warnings;
};

TEST_CASE("a started pipeline is offloaded until its backend is disabled",
          "[actors][runtime_backend]") {
  served on;

  const auto started = on.start(loaded_pipeline{make_model()});

  REQUIRE(started);
  CHECK(on.enabled());
  CHECK(started->backend->disable());
  CHECK_FALSE(on.enabled());
  CHECK(started->backend->disable());
}

TEST_CASE("an enable that the device fails is recovered with a fresh pipeline, once",
          "[actors][runtime_backend]") {
  served on;
  const auto old = make_model();
  loaded_pipeline subject{old};
  const auto fresh = make_model();
  subject.attach(
      {std::nullopt, [&] { return result<loaded_pipeline>{loaded_pipeline{fresh}}; }, true});
  on.gpu->inject({.call = device_call::allocate, .error = errc::device_failure});

  const auto started = on.start(std::move(subject));

  REQUIRE(started);
  CHECK(started->model == fresh);
  CHECK(old->hook_count() == 0);
  CHECK(fresh->hook_count() == 7);
  REQUIRE(on.warnings.size() == 1);
  CHECK_THAT(on.warnings.front(), Contains("load pipeline afresh"));
}

TEST_CASE("a start beside an enabled pipeline is refused and leaves that alone",
          "[actors][runtime_backend]") {
  served on;
  const auto first = on.start(loaded_pipeline{make_model()});
  REQUIRE(first);

  const auto second = on.start(loaded_pipeline{make_model()});

  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::already_enabled);
  CHECK(on.enabled());
}

TEST_CASE("a lease is held as long as the pipeline is offloaded", "[actors][runtime_backend]") {
  served on;
  leased_plan leased;

  auto started = on.start(leased.plan());

  REQUIRE(started);
  CHECK(leased.closed() == 0);
  CHECK(leased.plan().carrier->take().error().code == errc::stale_handle);
  REQUIRE(started->backend->disable());
  CHECK(leased.closed() == 1);
}

TEST_CASE("a plan serves one enable, and the next one needs none", "[actors][runtime_backend]") {
  served on;
  leased_plan leased;
  auto started = on.start(leased.plan());
  REQUIRE(started);
  REQUIRE(started->backend->disable());

  CHECK(started->backend->enable(started->model));

  CHECK(on.enabled());
}

TEST_CASE("a lease goes when the enable fails", "[actors][runtime_backend]") {
  served on;
  leased_plan leased;
  on.gpu->inject({.call = device_call::create_event, .error = errc::device_failure});

  CHECK(on.start(leased.plan()).error().code == errc::device_failure);

  CHECK(leased.closed() == 1);
  CHECK_FALSE(on.enabled());
}

TEST_CASE("a plan whose lease is missing, taken or closed is refused",
          "[actors][runtime_backend]") {
  served on;
  leased_plan leased;
  auto plan = leased.plan();
  SECTION("missing") {
    plan.carrier = nullptr;
    CHECK_THAT(on.start(plan).error().detail, Contains("no carrier"));
  }
  SECTION("taken") {
    const auto other = plan.carrier->take();
    CHECK(on.start(plan).error().code == errc::stale_handle);
  }
  SECTION("closed") {
    auto lease = plan.carrier->take();
    REQUIRE((*lease)->close());
    plan.carrier = std::make_shared<lease_carrier>(std::move(*lease));
    CHECK(on.start(plan).error().code == errc::stale_handle);
  }
  CHECK_FALSE(on.enabled());
}

TEST_CASE("a plan for a denoiser that is not offloaded after all is refused",
          "[actors][runtime_backend]") {
  served on;
  leased_plan leased;
  loaded_pipeline subject{make_model({.encoders = {"text_encoder"}, .vaes = {"vae"}})};
  subject.attach({leased.plan(), {}, false});

  const auto started = on.start(std::move(subject));

  REQUIRE_FALSE(started);
  CHECK_THAT(started.error().detail, Contains("'transformer.'") && Contains("host weight plan"));
  CHECK(leased.closed() == 1);
  CHECK_FALSE(on.enabled());
}

/// A plan that leaves these tensors in mapped files.
host_weight_plan mapped(const std::vector<std::string>& names) {
  host_weight_plan plan{.bindings = {}, .source_prefixes = {"transformer."}, .carrier = nullptr};
  for (const auto& each : names)
    plan.bindings[each] = {.key = each, .file = "dit.safetensors", .transform = nullptr};
  return plan;
}

TEST_CASE("a plan whose tensors the loader has bound is served", "[actors][runtime_backend]") {
  served on;

  const auto started = on.start(mapped({"transformer.pos"}));

  REQUIRE(started);
  CHECK(on.enabled());
}

TEST_CASE("a plan with tensors that are missing or have no memory is refused by name",
          "[actors][runtime_backend]") {
  served on;
  const auto model = make_model();
  model->tree()->at("transformer")->parameter("late", test::meta_tensor({4}));
  loaded_pipeline subject{model};
  subject.attach({mapped({"transformer.late", "transformer.pos", "transformer.q1", "transformer.q2",
                          "transformer.q3", "transformer.x.y", "top"}),
                  {},
                  false});

  const auto started = on.start(std::move(subject));

  REQUIRE_FALSE(started);
  CHECK(started.error().code == errc::invalid_pipeline);
  CHECK_THAT(started.error().detail,
             Contains("'top', 'transformer.late', 'transformer.q1', 'transformer.q2', "
                      "'transformer.q3' and 1 more") &&
                 !Contains("transformer.pos"));
  CHECK(model->hook_count() == 0);
  CHECK_FALSE(on.enabled());
}

TEST_CASE("a plan's transforms are applied once", "[actors][runtime_backend]") {
  served on;
  auto plan = mapped({"transformer.pos"});
  plan.bindings.at("transformer.pos").transform = std::make_shared<test::plus_one>();
  auto started = on.start(plan);
  REQUIRE(started);
  const auto model = std::dynamic_pointer_cast<fake_pipeline>(started->model);
  REQUIRE(started->backend->disable());

  REQUIRE(started->backend->enable(started->model));
  REQUIRE(started->backend->disable());

  CHECK(model->tree()->at("transformer")->own_tensors().at("pos")->bytes().front() == std::byte{2});
}

TEST_CASE("without a device nothing is offloaded, and a plan is refused",
          "[actors][runtime_backend]") {
  served on;
  leased_plan leased;

  const auto plain = on.start(loaded_pipeline{make_model()}, device_presence::none);
  loaded_pipeline planned{make_model()};
  planned.attach({leased.plan(), {}, false});
  const auto refused = on.start(std::move(planned), device_presence::none);

  REQUIRE(plain);
  CHECK(plain->backend == nullptr);
  CHECK_FALSE(refused);
  CHECK(leased.closed() == 1);
  CHECK_FALSE(on.enabled());
}

} // namespace
} // namespace ferry
