// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_numa.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"
#include "support/standard_error.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::fake_module;
using test::fake_pipeline;

constexpr std::size_t block_count = 5;
constexpr auto whole_components = R"({"mode":"module","components":["dit","text_encoder"]})";

/// A model whose weights are all ones, on a simulated device that says it is near to a node of a
/// machine that has two.
class near_run {
public:
  explicit near_run(std::optional<int> node = 1)
      : gpu_(std::make_shared<sim_device>(test::near_to(node))),
        subject_(gpu_, {.memory_nodes = test::nodes_listed("0-1", kernel_)}) {
    auto list = test::node("test.list")->as_list();
    for (std::size_t i = 0; i != block_count; ++i)
      list->child(std::to_string(i), test::block(16, 1));
    model_ = std::make_shared<fake_pipeline>(
        test::node("test.root")
            ->child("transformer", test::node("test.dit")->child("blocks", std::move(list)))
            ->child("text_encoder", test::node("test.encoder")->parameter("weight", {4})));
    model_->declare({.dits = {"transformer"}, .encoders = {"text_encoder"}})
        .plan({.block_attrs = {{"transformer", {"blocks"}}}});
    REQUIRE(subject_.start());
  }

  [[nodiscard]] bool enable(const char* config) {
    return subject_.enable(model_, test::compact(config)).has_value();
  }

  /// Runs what is offloaded. Returns whether all of it saw its bytes.
  [[nodiscard]] bool right(bool streamed) {
    auto all = true;
    const auto look = [&](fake_module& module) {
      const auto seen = module.own_tensors().at("weight")->bytes();
      all = all && std::ranges::count(seen, std::byte{1}) == std::ssize(seen);
    };
    if (!streamed)
      model_->call("text_encoder", look);
    for (std::size_t i = 0; streamed && i != 2 * block_count; ++i)
      model_->call("transformer.blocks." + std::to_string(i % block_count), look);
    return all;
  }

  /// Returns whether no byte of pinned memory is what the device fills new memory with.
  [[nodiscard]] bool all_filled() const {
    return std::ranges::all_of(gpu_->allocations(), [](const sim_allocation& each) {
      return each.kind != memory_kind::pinned ||
             std::ranges::count(each.block, std::byte{0xff}) == 0;
    });
  }

  [[nodiscard]] offload_state state() const { return subject_.state().value(); }
  [[nodiscard]] test::fake_numa_kernel& kernel() noexcept { return *kernel_; }
  [[nodiscard]] sim_device& gpu() noexcept { return *gpu_; }

private:
  std::shared_ptr<test::fake_numa_kernel> kernel_ = std::make_shared<test::fake_numa_kernel>();
  std::shared_ptr<sim_device> gpu_;
  std::shared_ptr<fake_pipeline> model_;
  runtime subject_;
};

TEST_CASE("pinned memory is taken and filled while new pages come from the device's node",
          "[field_cases][B75]") {
  const auto* const config = GENERATE(test::dit_only, whole_components);
  near_run run;
  std::vector<numa_policy> policies;
  std::vector<std::uint64_t> pinned;
  auto filled = false;
  run.kernel().on_change = [&] {
    policies.push_back(run.kernel().now);
    pinned.push_back(run.gpu().counters().pinned_bytes);
    filled = run.all_filled();
  };

  REQUIRE(run.enable(config));

  REQUIRE(policies == std::vector{test::preferring(1), numa_policy{}});
  CHECK(pinned == std::vector{std::uint64_t{0}, run.state().pinned_bytes});
  CHECK(pinned.back() > 0);
  CHECK(filled);
}

TEST_CASE("pinned copies on another node than the device's are counted, and the run goes on",
          "[field_cases][B75]") {
  const auto streamed = GENERATE(true, false);
  near_run run;

  REQUIRE(run.enable(streamed ? test::dit_only : whole_components));

  CHECK(run.state().misplaced_stores == (streamed ? block_count : 2));
  CHECK(run.right(streamed));
}

TEST_CASE("a pinned copy on another node is logged with its nodes, those on the right one are not",
          "[field_cases][B75]") {
  near_run run;
  run.kernel().node_of_next = [asked = 0]() mutable { return asked++ == 3 ? 0 : 1; };

  const auto written = test::standard_error_of([&] { REQUIRE(run.enable(test::dit_only)); });

  CHECK(run.state().misplaced_stores == 1);
  CHECK_THAT(written,
             Contains("misplace stores count=1 node=1 first=transformer.blocks.3 nodes=0") &&
                 Contains("the node was preferred"));
}

TEST_CASE("a kernel that refuses all about nodes costs a line of the log and nothing else",
          "[field_cases][B75]") {
  near_run run;
  run.kernel().refuses_read = EPERM;
  run.kernel().refuses_locate = EPERM;

  REQUIRE(run.enable(test::dit_only));

  CHECK(run.state().misplaced_stores == 0);
  CHECK(run.state().pinned_bytes == block_count * 256);
  CHECK(run.right(true));
}

TEST_CASE("for a device that is near to no node the kernel is asked nothing",
          "[field_cases][B75]") {
  near_run run{std::nullopt};

  REQUIRE(run.enable(test::dit_only));

  CHECK(run.kernel().calls == 0);
}

} // namespace
} // namespace ferry
