// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/start_offload.hpp>

#include "support/catch.hpp"
#include "support/leased_plan.hpp"
#include "support/resolution.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::fake_pipeline;
using test::leased_plan;
using strings = std::vector<std::string>;

const failure no_room{errc::out_of_device_memory, "no room"};

/// Loads pipelines and builds backends that log what they are told, and fail as often as told.
struct startup {
  class backend final : public offload_backend {
  public:
    backend(startup& in, bool planned) : in_(&in), planned_(planned) {}
    result<void> enable(const std::shared_ptr<pipeline>& model) override {
      in_->log.push_back("enable " + std::string{model->type_name()} +
                         (planned_ ? " planned" : ""));
      if (in_->failing_enables-- > 0)
        return tl::unexpected(in_->refusal);
      return {};
    }
    result<void> disable() override {
      in_->log.push_back("disable");
      if (in_->disable_fails)
        return tl::unexpected(failure{errc::incomplete, "a hook stays"});
      return {};
    }

  private:
    startup* in_;
    bool planned_;
  };

  [[nodiscard]] loaded_pipeline load(const std::string& name) {
    const auto model = std::make_shared<fake_pipeline>(test::tree(), name);
    models.push_back(model);
    return loaded_pipeline{model};
  }

  /// Returns a pipeline whose loader left a lease and knows how to load afresh.
  [[nodiscard]] loaded_pipeline with_retry() {
    auto subject = load("first");
    subject.attach({leased.plan(),
                    [this]() -> result<loaded_pipeline> {
                      log.push_back("load");
                      old_is_gone = models.front().expired();
                      closed_before_load = leased.closed();
                      if (load_fails)
                        return tl::unexpected(failure{errc::io_failure, "no disk"});
                      auto fresh = load("fresh");
                      if (fresh_state)
                        fresh.attach(std::move(*fresh_state));
                      return fresh;
                    },
                    true});
    return subject;
  }

  [[nodiscard]] result<started_offload> run(loaded_pipeline subject) {
    return start_offload(
        std::move(subject),
        [this](std::optional<host_weight_plan> plan) -> result<std::unique_ptr<offload_backend>> {
          log.push_back(plan ? "build with plan" : "build");
          if (build_fails)
            return tl::unexpected(failure{errc::unsupported, "no backend"});
          if (nothing_to_do)
            return nullptr;
          return std::make_unique<backend>(*this, plan.has_value());
        },
        warnings);
  }

  int failing_enables = 0;
  failure refusal = no_room;
  bool disable_fails = false;
  bool build_fails = false;
  bool nothing_to_do = false;
  bool load_fails = false;
  std::optional<offload_startup_state> fresh_state;
  leased_plan leased;
  std::vector<std::weak_ptr<pipeline>> models;
  bool old_is_gone = false;
  int closed_before_load = 0;
  strings log;
  strings warnings;
};

TEST_CASE("a pipeline without a state is enabled without a plan", "[offload][start_offload]") {
  startup with;

  const auto started = with.run(with.load("plain"));

  REQUIRE(started);
  CHECK(started->model->type_name() == "plain");
  CHECK(started->backend != nullptr);
  CHECK(with.log == strings{"build", "enable plain"});
  CHECK(with.warnings.empty());
}

TEST_CASE("the backend is built with the loader's plan", "[offload][start_offload]") {
  startup with;

  const auto started = with.run(with.with_retry());

  REQUIRE(started);
  CHECK(with.log == strings{"build with plan", "enable first planned"});
}

TEST_CASE("where nothing is offloaded what the loader owns is closed", "[offload][start_offload]") {
  startup with;
  with.nothing_to_do = true;

  const auto started = with.run(with.with_retry());

  REQUIRE(started);
  CHECK(started->backend == nullptr);
  CHECK(started->model->type_name() == "first");
  CHECK(with.leased.closed() == 1);
}

TEST_CASE("a backend that cannot be built closes what the loader owns and is final",
          "[offload][start_offload]") {
  startup with;
  with.build_fails = true;

  const auto started = with.run(with.with_retry());

  REQUIRE_FALSE(started);
  CHECK(started.error().detail == "no backend");
  CHECK(with.log == strings{"build with plan"});
  CHECK(with.leased.closed() == 1);
}

TEST_CASE("a failed enable is disabled, closed, and without a fresh loader final",
          "[offload][start_offload]") {
  startup with;
  with.failing_enables = 1;
  auto subject = with.load("first");
  subject.attach({with.leased.plan(), {}, false});

  const auto started = with.run(std::move(subject));

  REQUIRE_FALSE(started);
  CHECK(started.error() == no_room);
  CHECK(with.log == strings{"build with plan", "enable first planned", "disable"});
  CHECK(with.leased.closed() == 1);
}

TEST_CASE("recovery disables, closes the carrier, and starts a fresh pipeline with its own state",
          "[offload][start_offload]") {
  startup with;
  with.failing_enables = 1;

  const auto started = with.run(with.with_retry());

  REQUIRE(started);
  CHECK(started->model->type_name() == "fresh");
  CHECK(with.log == strings{"build with plan", "enable first planned", "disable", "load", "build",
                            "enable fresh"});
  CHECK(with.closed_before_load == 1);
  REQUIRE(with.warnings.size() == 1);
  CHECK_THAT(with.warnings.front(), Contains("load pipeline afresh") && Contains("no room"));
}

TEST_CASE("a start that could not clean up behind itself is not tried afresh",
          "[offload][start_offload]") {
  startup with;
  with.failing_enables = 1;
  with.refusal = {errc::incomplete, "pages stay registered"};

  const auto started = with.run(with.with_retry());

  REQUIRE_FALSE(started);
  CHECK(started.error() == with.refusal);
  CHECK(with.log == strings{"build with plan", "enable first planned", "disable"});
}

TEST_CASE("the failed pipeline is gone before the fresh one is loaded",
          "[offload][start_offload]") {
  startup with;
  with.failing_enables = 1;

  REQUIRE(with.run(with.with_retry()));

  CHECK(with.old_is_gone);
}

TEST_CASE("a second failure is final, whatever the fresh state allows",
          "[offload][start_offload]") {
  startup with;
  with.failing_enables = 2;
  leased_plan second;
  with.fresh_state.emplace(
      second.plan(),
      [&with] {
        with.log.push_back("load again");
        return result<loaded_pipeline>{with.load("third")};
      },
      true);

  const auto started = with.run(with.with_retry());

  REQUIRE_FALSE(started);
  CHECK(started.error() == no_room);
  CHECK(with.log == strings{"build with plan", "enable first planned", "disable", "load",
                            "build with plan", "enable fresh planned", "disable"});
  CHECK(second.closed() == 1);
}

TEST_CASE("a fresh load that fails is the answer", "[offload][start_offload]") {
  startup with;
  with.failing_enables = 1;
  with.load_fails = true;

  const auto started = with.run(with.with_retry());

  REQUIRE_FALSE(started);
  CHECK(started.error().detail == "no disk");
}

TEST_CASE("a disable that fails during recovery is noted and does not hide the cause",
          "[offload][start_offload]") {
  startup with;
  with.failing_enables = 1;
  with.disable_fails = true;
  auto subject = with.load("first");
  subject.attach({with.leased.plan(), {}, false});

  const auto started = with.run(std::move(subject));

  CHECK(started.error() == no_room);
  REQUIRE(with.warnings.size() == 1);
  CHECK_THAT(with.warnings.front(), Contains("a hook stays"));
  CHECK(with.leased.closed() == 1);
}

TEST_CASE("host weights that cannot be closed are noted and do not hide the cause",
          "[offload][start_offload]") {
  startup with;
  with.build_fails = GENERATE(true, false);
  with.failing_enables = 1;
  host_weight_plan plan;
  plan.carrier = std::make_shared<lease_carrier>(
      host_lease::open({}, {}, {{[] { throw std::runtime_error{"unmap failed"}; }}, {}}).value());
  auto subject = with.load("first");
  subject.attach({plan, {}, false});

  const auto started = with.run(std::move(subject));

  CHECK(started.error().detail == (with.build_fails ? "no backend" : "no room"));
  REQUIRE(with.warnings.size() == 1);
  CHECK_THAT(with.warnings.front(), Contains("unmap failed"));
}

TEST_CASE("a loader plan is never silently dropped", "[offload][start_offload]") {
  const auto distributed = test::legacy(test::distributed);
  using enum device_presence;

  CHECK(choose_backend(distributed, present, true)->build);
  CHECK_THAT(choose_backend(distributed, unsupported, true).error().detail,
             Contains("the platform has no offload") && Contains("host weight plan"));
  CHECK_THAT(choose_backend(distributed, none, true).error().detail, Contains("no device"));
  CHECK_THAT(choose_backend(distributed, undetectable, true).error().detail,
             Contains("cannot be determined"));
}

TEST_CASE("a strategy that reads no plan is refused one", "[offload][start_offload]") {
  const auto config =
      GENERATE(test::legacy(test::layerwise), test::legacy(test::model_level), offload_config{});

  const auto chosen = choose_backend(config, device_presence::present, true);

  REQUIRE_FALSE(chosen);
  CHECK(chosen.error().code == errc::unsupported);
  CHECK_THAT(chosen.error().detail, Contains(std::string{to_string(config.strategy)}));
}

TEST_CASE("without a plan a missing device is a warning and nothing is offloaded",
          "[offload][start_offload]") {
  const auto missing =
      GENERATE(device_presence::unsupported, device_presence::none, device_presence::undetectable);

  const auto chosen = choose_backend(test::legacy(test::layerwise), missing, false);

  REQUIRE(chosen);
  CHECK_FALSE(chosen->build);
  CHECK_THAT(chosen->warning, Contains("skip enable"));
}

TEST_CASE("no strategy needs no backend and no device", "[offload][start_offload]") {
  const auto chosen = choose_backend({}, device_presence::none, false);

  REQUIRE(chosen);
  CHECK_FALSE(chosen->build);
  CHECK(chosen->warning.empty());
}

} // namespace
} // namespace ferry
