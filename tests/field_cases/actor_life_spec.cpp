// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/host_device.hpp>

#include "streaming_run.hpp"
#include "support/resolution.hpp"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::byte_blocks;
using test::streaming_run;

/// Throws what no handler expects as soon as anybody looks at its modules.
class throwing_pipeline final : public pipeline {
public:
  [[nodiscard]] std::string_view type_name() const override { return "test.throwing"; }
  [[nodiscard]] std::shared_ptr<const module_node> root() const override {
    throw std::out_of_range{"the model has lost its root"};
  }
  [[nodiscard]] std::optional<component_roles> declared_components() const override {
    return component_roles{.dits = {"transformer"}};
  }
  [[nodiscard]] std::optional<offload_plan> declared_plan() const override { return {}; }
  [[nodiscard]] model_offload* custom_model_offload() const override { return nullptr; }
  [[nodiscard]] std::unique_ptr<weight_unit> make_unit(std::string, packed_layout) override {
    return nullptr;
  }
  void install_block_hook(object_id, block_id, weight_unit&, std::shared_ptr<block_gate>) override {
  }
  void remove_block_hook(object_id) override {}
  void install_group_hook(object_id, group_id, std::shared_ptr<group_gate>) override {}
  void remove_group_hook(object_id) override {}
};

TEST_CASE("a runtime that goes while its gate is held and copies are queued leaves no memory",
          "[field_cases][B105]") {
  const byte_blocks blocks{{40}, 1};
  const auto machine = std::make_shared<host_device>(host_device_options{.memory = 1 << 20});
  std::shared_ptr<block_gate> gate;

  for (int i = 0; i != 10; ++i) {
    runtime subject{machine, {.slots = 20, .stop_deadline = 2s}};
    REQUIRE(subject.start());
    gate = *subject.enable(blocks.weights());
    REQUIRE(subject.begin_request());
  }

  CHECK(machine->counters().device_bytes == 0);
  CHECK(machine->counters().streams == 0);
  CHECK(machine->counters().events == 0);
  CHECK_THROWS_AS(gate->acquire(block_id{0}), ferry_error);
}

TEST_CASE("an exception that nobody expects inside an actor is an answer, and the actor lives on",
          "[field_cases][B108]") {
  const byte_blocks blocks{{3}, 0};
  runtime subject{std::make_shared<sim_device>(sim_options{}), {}};
  REQUIRE(subject.start());

  const auto enabled =
      subject.enable(std::make_shared<throwing_pipeline>(), test::compact(test::dit_only));

  REQUIRE_FALSE(enabled);
  CHECK(enabled.error().code == errc::internal);
  CHECK_THAT(enabled.error().detail, Catch::Contains("lost its root"));
  const auto gate = subject.enable(blocks.weights());
  REQUIRE(gate);
  CHECK(blocks.run_all(**gate, 2));
}

} // namespace
} // namespace ferry
