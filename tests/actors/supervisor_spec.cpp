// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/spawn.hpp>

#include "support/actor_world.hpp"
#include "support/catch.hpp"
#include "support/fake_actors.hpp"

#include <chrono>
#include <set>
#include <string>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::actor_world;
using strings = std::vector<std::string>;

/// How a fake child behaves.
struct habits {
  std::set<std::string> fails_to_start;
  std::set<std::string> never_releases; ///< Keeps the request without an answer.
  std::set<std::string> late;           ///< Says that it is late.
};

class fake_child final : public child_actor::base {
public:
  fake_child(caf::actor_config& config, std::string name, test::message_log log,
             std::shared_ptr<habits> how)
      : child_actor::base(config), name_(std::move(name)), log_(std::move(log)),
        how_(std::move(how)) {}

  behavior_type make_behavior() override {
    return {
        [this](const start_child&) -> caf::result<void> {
          log_->push_back("start " + name_);
          if (how_->fails_to_start.contains(name_))
            return to_error({errc::device_failure, name_ + " has no stream"});
          return caf::unit;
        },
        [this](const drain_child& m) -> caf::result<void> {
          log_->push_back("drain " + name_ + ": " + m.cause.detail);
          return caf::unit;
        },
        [this](const release_child&) -> caf::result<answered> { return release(); },
    };
  }

  void on_exit() override { kept_ = {}; }

private:
  caf::result<answered> release() {
    log_->push_back("release " + name_);
    if (how_->never_releases.contains(name_))
      return kept_ = make_response_promise<answered>();
    if (how_->late.contains(name_))
      return to_error({errc::deadline_exceeded, "waits for the model"});
    quit();
    return answered{};
  }

  std::string name_;
  test::message_log log_;
  std::shared_ptr<habits> how_;
  caf::typed_response_promise<answered> kept_;
};

/// A supervisor over three fakes a, b and c.
struct family {
  explicit family(when_it_ends b = when_it_ends::stop_all) {
    std::vector<start_step> steps;
    for (const std::string name : {"a", "b", "c"})
      steps.push_back({.name = name,
                       .spawn = [this, name]() -> child_actor {
                         return children[name] = world.system().spawn<fake_child>(name, log, how);
                       },
                       .policy = name == "b" ? b : when_it_ends::stop_all,
                       .restarted = [this, name] { log->push_back("restarted " + name); }});
    subject = spawn_supervisor(world.system(), std::move(steps), 1s);
  }
  ~family() {
    for (const auto& [name, child] : children)
      kill(child);
    kill(subject);
    children.clear();
  }

  result<void> start() { return world.ask<void>(subject, start_children{}); }
  result<stopped> stop() { return world.ask<stopped>(subject, stop_children{1s}); }
  children_state state() { return *world.ask<children_state>(subject, query_children{}); }

  actor_world world;
  test::message_log log = test::make_message_log();
  std::shared_ptr<habits> how = std::make_shared<habits>();
  std::map<std::string, child_actor> children;
  supervisor_actor subject;
};

TEST_CASE("children are started in the declared order", "[actors][supervisor]") {
  family ours;

  CHECK(ours.start());

  CHECK(*ours.log == strings{"start a", "start b", "start c"});
  CHECK(ours.state().running == strings{"a", "b", "c"});
}

TEST_CASE("a start that fails at any child stops those before it in reverse and may be repeated",
          "[actors][supervisor]") {
  const auto failing = GENERATE(std::string{"a"}, std::string{"b"}, std::string{"c"});
  family ours;
  ours.how->fails_to_start = {failing};

  const auto started = ours.start();

  REQUIRE_FALSE(started);
  CHECK(started.error().code == errc::device_failure);
  CHECK(started.error().detail == failing + " has no stream");
  CHECK(ours.state().running.empty());
  CHECK(ours.log->back() == "release a");
  ours.how->fails_to_start.clear();
  CHECK(ours.start());
}

TEST_CASE("a child that ignores its release after a failed start is killed",
          "[actors][supervisor]") {
  family ours;
  ours.how->fails_to_start = {"b"};
  ours.how->never_releases = {"a"};
  test::question<void> started{ours.world.system(), ours.subject, start_children{}};
  ours.world.dispatch_messages();

  ours.world.advance_time(2s);
  ours.world.dispatch_messages();

  REQUIRE(started.answered());
  CHECK(started.outcome().error().detail == "b has no stream");
  CHECK(ours.state().running.empty());
}

TEST_CASE("a second start is refused while children run", "[actors][supervisor]") {
  family ours;
  REQUIRE(ours.start());

  CHECK(ours.start().error().code == errc::already_enabled);
}

TEST_CASE("a stop drains all children from the last to the first, then releases them so",
          "[actors][supervisor]") {
  family ours;
  REQUIRE(ours.start());
  ours.log->clear();

  const auto done = ours.stop();

  REQUIRE(done);
  CHECK(done->late.empty());
  const auto why = std::string{": the runtime is stopping"};
  CHECK(*ours.log == strings{"drain c" + why, "drain b" + why, "drain a" + why, "release c",
                             "release b", "release a"});
}

TEST_CASE("a stop without children answers at once", "[actors][supervisor]") {
  family ours;

  CHECK(ours.stop()->late.empty());
}

TEST_CASE("a stop during a start is refused, and the start goes on", "[actors][supervisor]") {
  family ours;
  test::question<void> starting{ours.world.system(), ours.subject, start_children{}};
  while (ours.log->empty())
    REQUIRE(ours.world.dispatch_message());
  test::question<stopped> stopping{ours.world.system(), ours.subject, stop_children{1s}};

  ours.world.dispatch_messages();

  REQUIRE(stopping.answered());
  CHECK(stopping.outcome().error().code == errc::busy);
  CHECK(starting.outcome());
  CHECK(ours.state().running == strings{"a", "b", "c"});
}

TEST_CASE("a stop during another stop is refused, and the first one goes on",
          "[actors][supervisor]") {
  family ours;
  REQUIRE(ours.start());
  test::question<stopped> first{ours.world.system(), ours.subject, stop_children{1s}};
  test::question<stopped> second{ours.world.system(), ours.subject, stop_children{1s}};

  ours.world.dispatch_messages();

  REQUIRE(second.answered());
  CHECK(second.outcome().error().code == errc::busy);
  CHECK(first.outcome());
  CHECK(ours.state().running.empty());
}

TEST_CASE("a stop names the child that is late and why, and a second one goes on from there",
          "[actors][supervisor]") {
  family ours;
  REQUIRE(ours.start());
  ours.how->late = {"b"};

  const auto done = ours.stop();

  CHECK(done->late == strings{"b: waits for the model"});
  CHECK(ours.state().running == strings{"a", "b"});
  ours.how->late.clear();
  CHECK(ours.stop()->late.empty());
  CHECK(ours.state().running.empty());
}

TEST_CASE("a stop ends at its deadline when a child does not answer", "[actors][supervisor]") {
  family ours;
  REQUIRE(ours.start());
  ours.how->never_releases = {"c"};
  test::question<stopped> stopping{ours.world.system(), ours.subject, stop_children{1s}};
  ours.world.dispatch_messages();
  REQUIRE_FALSE(stopping.answered());

  ours.world.advance_time(2s);
  ours.world.dispatch_messages();

  REQUIRE(stopping.answered());
  CHECK(stopping.outcome()->late == strings{"c: no answer within the deadline"});
}

TEST_CASE("the first failure of a child drains all, and later ones change nothing",
          "[actors][supervisor]") {
  family ours;
  REQUIRE(ours.start());
  ours.log->clear();

  post(ours.subject, child_failed{"b", 1, {errc::device_failure, "copy failed"}});
  post(ours.subject, child_failed{"a", 1, {errc::internal, "consequence"}});
  ours.world.dispatch_messages();

  CHECK(*ours.log ==
        strings{"drain c: copy failed", "drain b: copy failed", "drain a: copy failed"});
  CHECK(ours.state().first_cause.detail == "copy failed");
}

TEST_CASE("a child that ends by itself is a failure, noticed without being asked",
          "[actors][supervisor]") {
  family ours;
  REQUIRE(ours.start());

  kill(ours.children["b"]);
  ours.world.dispatch_messages();

  CHECK(ours.state().failed);
  CHECK_THAT(ours.state().first_cause.detail, Catch::StartsWith("b ended by itself"));
}

TEST_CASE("a child that is to be restarted comes back, and the others hear nothing",
          "[actors][supervisor]") {
  family ours{when_it_ends::restart};
  REQUIRE(ours.start());
  ours.log->clear();

  kill(ours.children["b"]);
  ours.world.dispatch_messages();

  CHECK(*ours.log == strings{"start b", "restarted b"});
  CHECK_FALSE(ours.state().failed);
  CHECK(ours.state().running == strings{"a", "b", "c"});
  CHECK(ours.stop());
}

TEST_CASE("a child that ends again and again takes the others down", "[actors][supervisor]") {
  family ours{when_it_ends::restart};
  REQUIRE(ours.start());

  for (int i = 0; i != 3; ++i) {
    kill(ours.children["b"]);
    ours.world.dispatch_messages();
    REQUIRE_FALSE(ours.state().failed);
  }
  kill(ours.children["b"]);
  ours.world.dispatch_messages();

  CHECK(ours.state().failed);
}

TEST_CASE("a child that cannot be started again takes the others down", "[actors][supervisor]") {
  family ours{when_it_ends::restart};
  REQUIRE(ours.start());
  ours.how->fails_to_start = {"b"};

  kill(ours.children["b"]);
  ours.world.dispatch_messages();

  CHECK(ours.state().first_cause.detail == "b has no stream");
}

TEST_CASE("a late notice about an earlier generation does not touch the present one",
          "[actors][supervisor][B109]") {
  family ours;
  REQUIRE(ours.start());
  REQUIRE(ours.stop()->late.empty());
  REQUIRE(ours.start());
  REQUIRE(ours.state().generation == 2);

  post(ours.subject, child_failed{"b", 1, {errc::internal, "b ended by itself"}});
  ours.world.dispatch_messages();

  CHECK_FALSE(ours.state().failed);
  CHECK(ours.state().running == strings{"a", "b", "c"});
}

TEST_CASE("a failure that is told while the children start is the answer, whatever else fails",
          "[actors][supervisor]") {
  const auto second_fails = GENERATE(false, true);
  CAPTURE(second_fails);
  family ours;
  if (second_fails)
    ours.how->fails_to_start = {"b"};
  test::question<void> starting{ours.world.system(), ours.subject, start_children{}};
  while (ours.log->empty())
    REQUIRE(ours.world.dispatch_message());

  post(ours.subject, child_failed{"a", 1, {errc::device_failure, "a lost its stream"}});
  ours.world.dispatch_messages();

  REQUIRE(starting.answered());
  REQUIRE_FALSE(starting.outcome());
  CHECK(starting.outcome().error().detail == "a lost its stream");
  CHECK(ours.state().running.empty());
}

TEST_CASE("nothing is started again once the children are drained", "[actors][supervisor]") {
  family ours{when_it_ends::restart};
  REQUIRE(ours.start());
  post(ours.subject, child_failed{"a", 1, {errc::device_failure, "first"}});
  ours.world.dispatch_messages();
  ours.log->clear();

  kill(ours.children["b"]);
  ours.world.dispatch_messages();

  CHECK(ours.log->empty());
  CHECK(ours.state().first_cause.detail == "first");
}

TEST_CASE("a child that ends during a stop is no failure", "[actors][supervisor]") {
  const auto policy = GENERATE(when_it_ends::stop_all, when_it_ends::restart);
  family ours{policy};
  REQUIRE(ours.start());
  ours.how->never_releases = {"c"};
  test::question<stopped> stopping{ours.world.system(), ours.subject, stop_children{1s}};
  ours.world.dispatch_messages();
  ours.log->clear();

  kill(ours.children["b"]);
  ours.world.dispatch_messages();

  CHECK_FALSE(ours.state().failed);
  CHECK(ours.log->empty());
}

TEST_CASE("every start may restart a child three times", "[actors][supervisor]") {
  family ours{when_it_ends::restart};
  for (int start = 0; start != 2; ++start) {
    REQUIRE(ours.start());
    for (int i = 0; i != 3; ++i) {
      kill(ours.children["b"]);
      ours.world.dispatch_messages();
      REQUIRE_FALSE(ours.state().failed);
    }
    REQUIRE(ours.stop()->late.empty());
  }
}

} // namespace
} // namespace ferry
