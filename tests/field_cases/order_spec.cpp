// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_device.hpp>

#include "streaming_run.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using test::byte_blocks;
using test::fake_module;
using test::fake_pipeline;
using test::speeds;
using test::streaming_run;
using sequence = std::vector<std::size_t>;

std::shared_ptr<sim_device> make_gpu() {
  return std::make_shared<sim_device>(sim_options{});
}

TEST_CASE("blocks that run in another order than declared are right, and prefetched from the "
          "second step on",
          "[field_cases][B11]") {
  const byte_blocks blocks{{4}, 0};
  const auto gpu = make_gpu();
  streaming_run run{gpu, blocks.pinned(*gpu), 2};
  REQUIRE(run.subject().begin_request());
  auto step = [&] {
    auto right = true;
    for (const auto each : {2, 0, 3, 1})
      right = blocks.run(run.gate(), static_cast<std::size_t>(each)) && right;
    return right;
  };
  CHECK(step());
  CHECK(blocks.run(run.gate(), 2));
  const auto learned = run.state().blocking_loads;

  for (const auto each : {0, 3, 1})
    CHECK(blocks.run(run.gate(), static_cast<std::size_t>(each)));
  for (int i = 0; i != 5; ++i)
    CHECK(step());

  CHECK(run.state().blocking_loads == learned);
  CHECK(run.subject().end_request());
  CHECK(gpu->race_count() == 0);
}

TEST_CASE("a step that takes another branch leaves the next one right on the host device",
          "[field_cases][B13][B14]") {
  const byte_blocks blocks{{4}, 0};
  const auto machine = std::make_shared<host_device>(host_device_options{.memory = 1 << 20});
  streaming_run run{machine, blocks.weights(), 2};

  for (int i = 0; i != 20; ++i) {
    REQUIRE(run.request(blocks, i % 2 == 0 ? sequence{0, 1, 2, 3, 0, 2, 3} : sequence{0, 2, 3}));
    CHECK(run.state().tickets_in_flight == 0);
    CHECK(run.state().slots_free == 2);
  }
}

/// A runtime that streams the denoiser of a pipeline to a simulated device.
class denoiser_run {
public:
  denoiser_run(std::shared_ptr<fake_pipeline> model, const offload_config& config,
               const sim_options& options = {})
      : gpu(std::make_shared<sim_device>(options)), subject(gpu, {}), model_(std::move(model)) {
    REQUIRE(subject.start());
    REQUIRE(subject.enable(model_, config));
    REQUIRE(subject.begin_request());
  }

  /// Runs one step over `order`. Returns whether every byte of block i was i + 1.
  [[nodiscard]] bool step(const sequence& order) {
    auto right = true;
    for (const auto i : order)
      model_->call("transformer.blocks." + std::to_string(i), [&](fake_module& block) {
        const auto seen = block.own_tensors().at("weight")->bytes();
        right = std::ranges::count(seen, std::byte(i + 1)) == std::ssize(seen) && right;
      });
    return right;
  }

  std::shared_ptr<sim_device> gpu;
  runtime subject;

private:
  std::shared_ptr<fake_pipeline> model_;
};

std::shared_ptr<fake_pipeline> pipeline_of(test::fake_node dit) {
  auto made = std::make_shared<fake_pipeline>(
      test::node("test.root")->child("transformer", std::move(dit)));
  made->declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
  return made;
}

TEST_CASE("stand-ins for the blocks of other ranks cost no wait at the end of a step",
          "[field_cases][B16]") {
  auto elsewhere = [] {
    return test::node("test.elsewhere")->parameter("weight", test::meta_tensor({16}));
  };
  denoiser_run run{
      pipeline_of(test::node("test.dit")
                      ->child("blocks", test::list({test::block(16, 1), test::block(16, 2),
                                                    elsewhere(), elsewhere()}))),
      test::compact(test::dit_only)};

  for (int i = 0; i != 5; ++i)
    REQUIRE(run.step({0, 1}));

  CHECK(run.subject.state()->blocking_loads == 0);
  CHECK(run.subject.state()->components.at("transformer").streamed_bytes == 2 * 256);
}

TEST_CASE("what is fetched ahead is the next block that is streamed, past those that stay",
          "[field_cases][B17]") {
  const auto tied = test::tensor({16}, dtype::f32, 2);
  denoiser_run run{
      pipeline_of(
          test::node("test.dit")
              ->parameter("head", tied)
              ->child("blocks", test::list({test::block(16, 1),
                                            test::node("test.block")->parameter("weight", tied),
                                            test::block(16, 3), test::block(16, 4)}))),
      test::compact(test::dit_only)};

  for (int i = 0; i != 5; ++i)
    REQUIRE(run.step({0, 1, 2, 3}));

  CHECK(run.subject.state()->blocking_loads == 0);
  CHECK(run.subject.state()->components.at("transformer").streamed_bytes == 3 * 256);
}

TEST_CASE("a request moves the blocks it runs, and no more beyond them than the slots hold",
          "[field_cases][B19]") {
  const byte_blocks blocks{{6}, 0};
  const auto gpu = make_gpu();
  streaming_run run{gpu, blocks.pinned(*gpu), 2};
  const auto before = gpu->counters().copies;

  REQUIRE(run.subject().begin_request());
  REQUIRE(blocks.run_all(run.gate(), 10));
  REQUIRE(run.subject().end_request());

  CHECK(run.state().blocking_loads == 0);
  CHECK(gpu->counters().copies - before <= 10 * 6 + 2);
}

TEST_CASE("a group of one rank streams exactly as ordinary layerwise offload does",
          "[field_cases][B20]") {
  auto time_of = [](const offload_config& config) {
    denoiser_run run{pipeline_of(test::dit(4)), config, speeds{}.options()};
    for (int i = 0; i != 4; ++i)
      REQUIRE(run.step({0, 1, 2, 3}));
    CHECK(run.subject.state()->blocking_loads == 0);
    const auto timeline = run.gpu->timeline();
    CHECK(std::ranges::none_of(timeline, [](const timeline_entry& each) {
      return each.span.kind == operation_kind::gather;
    }));
    nanoseconds
        end{}; // Of compute: whether the last block ahead is enqueued yet is left to chance.
    for (const auto& each : timeline)
      if (each.span.kind == operation_kind::compute)
        end = std::max(end, each.span.end);
    return end;
  };
  auto alone = test::legacy(test::distributed);
  alone.group_size = 1;

  CHECK(time_of(alone) == time_of(test::legacy(test::layerwise)));
}

} // namespace
} // namespace ferry
