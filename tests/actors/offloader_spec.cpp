// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/spawn.hpp>
#include <ferry/offload/block_gate.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/life_plans.hpp"
#include "support/offloader_rig.hpp"

#include <chrono>
#include <optional>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::offloader_rig;
using test::queue;

constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";

/// New bytes for the tensor of the denoiser that is resident while its blocks are streamed.
update_weights new_resident(const offloader_rig& rig) {
  auto bytes = std::make_shared<std::vector<std::byte>>(16, std::byte{7});
  const const_bytes seen{*bytes};
  const weight_value value{"pos", dtype::f32, {4}, seen, bytes};
  return {std::make_shared<const weight_update>(weight_update{"transformer", {value}}),
          rig.gpu->stamp()};
}

/// Serves no group and fails as many ends of requests as it is told to.
class failing_stager final : public component_stager_actor::base {
public:
  failing_stager(caf::actor_config& config, test::message_log log, std::shared_ptr<int> failures)
      : component_stager_actor::base(config), log_(std::move(log)), left_(std::move(failures)) {}

  behavior_type make_behavior() override {
    return {
        [](const open_groups&) -> caf::result<answered> { return answered{}; },
        [](const drain_groups&) -> caf::result<answered> { return answered{}; },
        [](const close_groups&) -> caf::result<answered> { return answered{}; },
        [](const demand_group&) -> caf::result<void> { return caf::unit; },
        [](const use_cache_retention&) -> caf::result<void> { return caf::unit; },
        [](const stage_group_in&) -> caf::result<answered> { return answered{}; },
        [](const stage_group_out&) -> caf::result<answered> { return answered{}; },
        [this](const begin_request&) -> caf::result<answered> {
          log_->push_back("begin");
          return answered{};
        },
        [this](const end_request&) -> caf::result<answered> {
          log_->push_back("end");
          if ((*left_)-- > 0)
            return to_error({errc::device_failure, "a group stays"});
          return answered{};
        },
        [](const start_child&) -> caf::result<void> { return caf::unit; },
        [](const drain_child&) -> caf::result<void> { return caf::unit; },
        [this](const release_child&) -> caf::result<answered> {
          quit();
          return answered{};
        },
    };
  }

private:
  test::message_log log_;
  std::shared_ptr<int> left_;
};

TEST_CASE("an enable answers with the gate once the first blocks are on their way",
          "[actors][offloader]") {
  offloader_rig rig;

  const auto answer = rig.enable();

  REQUIRE(answer);
  CHECK(answer->placed);
  rig.gpu->observe(answer->stamp);
  CHECK(rig.blocks.run(*answer->gate, 0));
  CHECK(rig.blocks.run(*answer->gate, 1));
}

TEST_CASE("what comes while an enable is carried out is refused, except a query",
          "[actors][offloader]") {
  offloader_rig rig;
  auto enabling = rig.question<enabled>(enable_weights{rig.blocks.weights(), {}});
  auto second = rig.question<enabled>(enable_weights{rig.blocks.weights(), {}});
  auto beginning = rig.question<answered>(queue(1));
  auto disabling = rig.question<answered>(disable_backend{});
  auto asking = rig.question<offload_state>(query_offload{});

  rig.world.dispatch_messages();

  CHECK(enabling.outcome());
  CHECK(second.outcome().error().code == errc::busy);
  CHECK(beginning.outcome().error().code == errc::busy);
  CHECK(disabling.outcome().error().code == errc::busy);
  CHECK(asking.outcome());
}

TEST_CASE("a disable that comes while a request begins is refused", "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  auto beginning = rig.question<answered>(queue(1));
  auto disabling = rig.question<answered>(disable_backend{});

  rig.world.dispatch_messages();

  CHECK(beginning.outcome());
  CHECK(disabling.outcome().error().code == errc::busy);
}

TEST_CASE("a request waits for the one before it", "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  auto first = rig.question<answered>(queue(1));
  auto second = rig.question<answered>(queue(2));
  rig.world.dispatch_messages();
  CHECK(first.outcome());
  CHECK_FALSE(second.answered());

  REQUIRE(rig.world.ask<answered>(rig.subject, end_request{}));

  CHECK(second.outcome());
}

TEST_CASE("a request whose patience ends is refused, and the next one has its turn",
          "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  auto second = rig.question<answered>(queue(2));
  rig.world.dispatch_messages();

  rig.world.advance_time(6s);
  rig.world.dispatch_messages();
  CHECK(second.outcome().error().code == errc::deadline_exceeded);

  REQUIRE(rig.world.ask<answered>(rig.subject, end_request{}));
  CHECK(rig.world.ask<answered>(rig.subject, queue(3)));
}

TEST_CASE("a request whose patience is over when its turn comes never begins",
          "[actors][offloader]") {
  auto late = 0;
  for (auto in_time = false; !in_time;) {
    offloader_rig rig;
    REQUIRE(rig.enable());
    REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
    auto second = rig.question<answered>(queue(2));
    rig.world.dispatch_messages();
    auto ending = rig.question<answered>(end_request{});
    for (auto messages = 0; messages != late; ++messages)
      REQUIRE(rig.world.dispatch_message());
    in_time = ending.answered();

    if (!in_time)
      rig.world.advance_time(6s);
    rig.world.dispatch_messages();

    INFO("its patience ended after " << late++ << " messages");
    CHECK(second.outcome().has_value() == in_time);
  }
  CHECK(late > 4);
}

TEST_CASE("two requests with one id are not told apart, so the second is refused",
          "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  auto waiting = rig.question<answered>(queue(2));

  CHECK(rig.refusal(queue(1)) == errc::invalid_argument);
  CHECK(rig.refusal(queue(2)) == errc::invalid_argument);
}

TEST_CASE("a drained offloader refuses the requests that wait", "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  auto waiting = rig.question<answered>(queue(2));
  rig.world.dispatch_messages();

  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::device_failure, "first"}, true}));

  CHECK(waiting.outcome().error().detail == "first");
}

TEST_CASE("without a backend there is nothing to disable, begin, end or announce",
          "[actors][offloader]") {
  offloader_rig rig;

  CHECK(rig.refusal(disable_backend{}) == errc::not_enabled);
  CHECK(rig.refusal(queue(1)) == errc::not_enabled);
  CHECK(rig.refusal(end_request{}) == errc::not_enabled);
  CHECK(rig.refusal(announce_blocks{}) == errc::not_enabled);
}

TEST_CASE("a drained offloader refuses with the first cause, and still disables",
          "[actors][offloader]") {
  offloader_rig rig;
  const auto answer = rig.enable();
  REQUIRE(answer);
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::device_failure, "first"}, true}));
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::internal, "second"}, true}));

  CHECK(rig.refusal(queue(1)) == errc::device_failure);
  CHECK_THROWS_WITH(answer->gate->acquire(block_id{0}), Catch::Contains("first"));
  CHECK(rig.world.ask<offload_state>(rig.subject, query_offload{})->first_failure->detail ==
        "first");
  CHECK(rig.world.ask<answered>(rig.subject, disable_backend{}));
  CHECK(rig.refusal(queue(1)) == errc::device_failure);
}

TEST_CASE("a release that comes while an enable is carried out takes effect behind it",
          "[actors][offloader]") {
  offloader_rig rig;
  auto enabling = rig.question<enabled>(enable_weights{rig.blocks.weights(), {}});
  auto releasing = rig.question<answered>(release_child{1s});

  rig.world.dispatch_messages();

  CHECK(enabling.outcome());
  CHECK(releasing.outcome());
  CHECK(rig.gpu->counters().device_bytes == 0);
}

TEST_CASE("an enable whose copy worker is gone is undone", "[actors][offloader]") {
  offloader_rig rig;
  kill(rig.copies);
  rig.world.dispatch_messages();

  const auto answer = rig.enable();

  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == errc::transfer_aborted);
  CHECK(rig.gpu->counters().device_bytes == 0);
}

TEST_CASE("a release waits for the block in use no longer than its deadline, and names it",
          "[actors][offloader]") {
  offloader_rig rig;
  const auto answer = rig.enable();
  REQUIRE(answer);
  static_cast<void>(answer->gate->acquire(block_id{1}));

  const auto released = rig.world.ask<answered>(rig.subject, release_child{1ms});

  REQUIRE_FALSE(released);
  CHECK(released.error().code == errc::deadline_exceeded);
  CHECK_THAT(released.error().detail, Catch::Contains("blocks.1"));
  answer->gate->release(block_id{1});
  CHECK(rig.world.ask<answered>(rig.subject, release_child{1s}));
}

TEST_CASE(
    "a cancel of a request that is over finds nothing, whatever is carried out, and leaves the "
    "next request alone",
    "[actors][offloader]") {
  offloader_rig rig;
  const auto model = test::mortal_pipeline();
  REQUIRE(rig.enable(model, test::both));
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  REQUIRE(rig.world.ask<answered>(rig.subject, end_request{}));
  auto updating = rig.question<weights_updated>(new_resident(rig));
  auto cancelling = rig.question<void>(cancel_request{request_id{1}});

  rig.world.dispatch_messages();

  CHECK(updating.outcome());
  REQUIRE_FALSE(cancelling.outcome());
  CHECK(cancelling.outcome().error().code == errc::not_found);
  const auto begun = rig.world.ask<answered>(rig.subject, queue(2));
  REQUIRE(begun);
  rig.gpu->observe(begun->stamp);
  CHECK_NOTHROW(model->call("text_encoder.block.0", [](test::fake_module&) {}));
}

TEST_CASE("a request that fails with its backend is over once that is disabled",
          "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable());
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::device_failure, "first"}, true}));
  REQUIRE(rig.world.ask<answered>(rig.subject, disable_backend{}));

  CHECK_FALSE(rig.world.ask<void>(rig.subject, cancel_request{request_id{1}}));
}

TEST_CASE("a request that comes during an update has its turn after it", "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable(test::mortal_pipeline(), test::both));
  auto updating = rig.question<weights_updated>(new_resident(rig));
  auto beginning = rig.question<answered>(queue(1));

  rig.world.dispatch_messages();

  CHECK(updating.outcome());
  REQUIRE(beginning.answered());
  CHECK(beginning.outcome());
}

TEST_CASE("a release that comes during an update takes effect behind it", "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable(test::mortal_pipeline(), test::both));
  auto updating = rig.question<weights_updated>(new_resident(rig));
  auto releasing = rig.question<answered>(release_child{1s});

  rig.world.dispatch_messages();

  CHECK(updating.outcome());
  REQUIRE(releasing.answered());
  CHECK(releasing.outcome());
  CHECK(rig.gpu->counters().device_bytes == 0);
}

TEST_CASE("residents that cannot be loaded as before a failed update fail the runtime, and the "
          "supervisor hears of it",
          "[actors][offloader]") {
  offloader_rig rig;
  REQUIRE(rig.enable(test::mortal_pipeline(), test::both));
  auto updating = rig.question<weights_updated>(new_resident(rig));

  // The copies of the update, then those of its rollback.
  for (int failures = 0; failures != 2;) {
    rig.gpu->inject({.call = device_call::copy});
    REQUIRE(rig.world.dispatch_message());
    failures += rig.gpu->cancel_failure() ? 1 : 0;
  }
  rig.world.dispatch_messages();

  CHECK_FALSE(updating.outcome());
  REQUIRE(rig.reports->size() == 1);
  CHECK(rig.reports->front().name == "resident weights");
  CHECK(rig.world.ask<offload_state>(rig.subject, query_offload{})->first_failure);
  CHECK(rig.refusal(queue(1)) == errc::device_failure);
}

TEST_CASE("a request of a pipeline with an offload of its own is over once that is disabled",
          "[actors][offloader]") {
  test::fake_model_offload own;
  offloader_rig rig;
  const auto model = test::mortal_pipeline();
  model->offloads_itself(own);
  REQUIRE(rig.enable(model, whole));
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  REQUIRE(rig.world.ask<void>(rig.subject, drain_child{{errc::device_failure, "first"}, true}));
  REQUIRE(rig.world.ask<answered>(rig.subject, disable_backend{}));

  const auto cancelled = rig.world.ask<void>(rig.subject, cancel_request{request_id{1}});

  REQUIRE_FALSE(cancelled);
  CHECK(cancelled.error().code == errc::not_found);
}

TEST_CASE("an offloader that ends answers nobody for a second time", "[actors][offloader]") {
  const auto releasing = GENERATE(false, true);
  offloader_rig rig;
  REQUIRE(rig.enable());
  auto begun = rig.question<answered>(queue(1));
  rig.world.dispatch_messages();
  REQUIRE(begun.outcome());
  std::optional<test::question<answered>> released;
  if (releasing) {
    released.emplace(rig.world.system(), rig.subject, release_child{1s});
    REQUIRE(rig.world.dispatch_message());
  }

  kill(rig.subject);
  rig.world.dispatch_messages();

  CHECK_FALSE(begun.answered_again());
  CHECK((!releasing || !released->outcome()));
}

TEST_CASE("a backend that is enabled anew owes no end of a request", "[actors][offloader]") {
  const auto log = test::make_message_log();
  const auto failures = std::make_shared<int>(2);
  offloader_rig rig{[&](test::actor_world& world, const auto&) {
    return component_stager_actor{world.system().spawn<failing_stager>(log, failures)};
  }};
  const auto model = test::mortal_pipeline();
  REQUIRE(rig.enable(model, whole));
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));
  CHECK(rig.refusal(end_request{}) == errc::device_failure);
  REQUIRE(rig.world.ask<answered>(rig.subject, disable_backend{}));
  REQUIRE(rig.enable(model, whole));

  CHECK(rig.world.ask<answered>(rig.subject, queue(2)));

  CHECK(*log == std::vector<std::string>{"begin", "end", "end", "begin"});
}

TEST_CASE("an end that did not reach everybody is made up for before the next request begins",
          "[actors][offloader]") {
  const auto log = test::make_message_log();
  const auto failures = std::make_shared<int>(3);
  offloader_rig rig{[&](test::actor_world& world, const auto&) {
    return component_stager_actor{world.system().spawn<failing_stager>(log, failures)};
  }};
  REQUIRE(rig.enable(test::mortal_pipeline(), whole));
  REQUIRE(rig.world.ask<answered>(rig.subject, queue(1)));

  CHECK(rig.refusal(end_request{}) == errc::device_failure);
  CHECK(rig.refusal(queue(2)) == errc::device_failure);
  CHECK(rig.world.ask<answered>(rig.subject, queue(3)));

  CHECK(*log == std::vector<std::string>{"begin", "end", "end", "end", "end", "begin"});
}

} // namespace
} // namespace ferry
