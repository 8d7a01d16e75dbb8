// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/edges.hpp"
#include "support/fake_pipeline.hpp"
#include "support/null_device.hpp"
#include "support/rank_team.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// Weights that are kept in another type than they compute in.
namespace ferry {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using test::fake_module;
using test::fake_pipeline;

constexpr std::size_t blocks_of_dit = 5;
constexpr std::int64_t elements = 700;

/// A block of which one tensor is converted, one is not, and one is a view of the first.
test::fake_node mixed_block(unsigned char fill) {
  const auto kept = test::bf16_kept_tensor({elements}, fill);
  return test::node("test.block")
      ->parameter("weight", kept)
      ->parameter("part", test::view(kept, {10}, {2}, 33))
      ->buffer("table", test::tensor({9}, dtype::i32, fill));
}

std::shared_ptr<fake_pipeline> kept_as_bf16() {
  std::vector<test::fake_node> made;
  for (std::size_t i = 0; i != blocks_of_dit; ++i)
    made.push_back(mixed_block(static_cast<unsigned char>(10 + i)));
  auto model = std::make_shared<fake_pipeline>(
      test::node("test.root")
          ->child("transformer", test::node("test.dit")
                                     ->parameter("pos", test::bf16_kept_tensor({4}, 3))
                                     ->child("blocks", test::list(std::move(made))))
          ->child("text_encoder",
                  test::node("test.encoder")
                      ->child("block", test::list({mixed_block(100), mixed_block(101)}))));
  model->declare({.dits = {"transformer"}, .encoders = {"text_encoder"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}},
             .encoder_block_attrs = {{"text_encoder", {"block"}}},
             .resident_dit_paths = {"transformer"}});
  return model;
}

/// Returns whether bytes are those of f32 numbers whose upper half is `fill` twice.
bool is_widened(const_bytes bytes, unsigned char fill) {
  for (std::size_t i = 0; i != bytes.size(); ++i)
    if (bytes[i] != (i % 4 < 2 ? std::byte{0} : std::byte{fill}))
      return false;
  return !bytes.empty();
}

bool is_right(const fake_module& block, unsigned char fill) {
  const auto& tensors = block.own_tensors();
  const auto table = tensors.at("table")->bytes();
  return is_widened(tensors.at("weight")->bytes(), fill) &&
         is_widened(tensors.at("part")->bytes(), fill) &&
         std::ranges::count(table, std::byte{fill}) == std::ssize(table);
}

bool run_block(fake_pipeline& model, const std::string& path, unsigned char fill) {
  auto right = false;
  model.call(path, [&](fake_module& block) { right = is_right(block, fill); });
  return right;
}

bool run_step(fake_pipeline& model) {
  auto right = false;
  model.call("transformer", [&](fake_module& dit) {
    right = is_widened(dit.own_tensors().at("pos")->bytes(), 3);
    for (std::size_t i = 0; i != blocks_of_dit; ++i)
      right = run_block(model, "transformer.blocks." + std::to_string(i),
                        static_cast<unsigned char>(10 + i)) &&
              right;
  });
  return right;
}

bool run_request(runtime& through, fake_pipeline& model) {
  if (!through.begin_request({.steps = 3}))
    return false;
  auto right = true;
  model.call("text_encoder", [&](fake_module&) {
    right = run_block(model, "text_encoder.block.0", 100) &&
            run_block(model, "text_encoder.block.1", 101);
  });
  for (int step = 0; step != 3; ++step)
    right = run_step(model) && right;
  return through.end_request() && right;
}

constexpr auto streamed = R"({"mode":"layer","components":["dit","text_encoder"]})";
constexpr auto pageable =
    R"({"mode":"layer","components":["dit","text_encoder"],"pin_memory":false})";
constexpr auto headed = R"({"mode":"layer","components":["dit"],
    "layer_options":{"dit":{"resident_layers":2}}})";
constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";

TEST_CASE("weights that are kept as bf16 are f32 on the device, however they get there",
          "[actors][conversion]") {
  const auto config = GENERATE(streamed, pageable, headed, whole);
  const auto on_host = GENERATE(false, true);
  const auto stays_in_files = GENERATE(false, true);
  CAPTURE(config, on_host, stays_in_files);
  const auto sim = std::make_shared<sim_device>(sim_options{});
  std::shared_ptr<device> target = sim;
  if (on_host)
    target = std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20});
  const auto model = kept_as_bf16();
  auto wanted = test::compact(config);
  wanted.keep_mapped = stays_in_files;
  wanted.chunk_bytes = 1024;
  {
    runtime through(target, {.acquire_deadline = 5s});
    REQUIRE(through.start());
    REQUIRE(through.enable(model, wanted));

    CHECK(run_request(through, *model));
    CHECK(run_request(through, *model));

    REQUIRE(through.disable());
  }
  CHECK(sim->race_count() == 0);
  CHECK(target->counters().device_bytes == 0);
  CHECK(target->counters().pinned_bytes == 0);
}

TEST_CASE("what is kept as bf16 takes half the room on the host and half the link",
          "[actors][conversion]") {
  const auto sim = std::make_shared<sim_device>(sim_options{});
  const auto model = kept_as_bf16();
  runtime through(sim, {.acquire_deadline = 5s});
  REQUIRE(through.start());
  REQUIRE(through.enable(model, test::compact(streamed)));
  const auto of_block = align_up(2 * elements) + align_up(4 * 9);
  const auto before = sim->counters();
  REQUIRE(through.begin_request({.steps = 1}));

  CHECK(through.state()->pinned_bytes == (blocks_of_dit + 2) * of_block);
  CHECK(run_step(*model));
  CHECK(run_step(*model));
  REQUIRE(through.end_request());

  const auto after = sim->counters();
  const auto fetches = (after.copies - before.copies) / 2;
  CHECK(fetches >= 8);
  CHECK(after.h2d_bytes - before.h2d_bytes == fetches * (2 * elements + 4 * 9));
}

TEST_CASE("a disabled model has its weights where they were, and can be offloaded again",
          "[actors][conversion]") {
  const auto sim = std::make_shared<sim_device>(sim_options{});
  const auto model = kept_as_bf16();
  runtime through(sim, {.acquire_deadline = 5s});
  REQUIRE(through.start());
  for (int i = 0; i != 2; ++i) {
    REQUIRE(through.enable(model, test::compact(streamed)));
    CHECK(run_request(through, *model));
    REQUIRE(through.disable());
  }
  const auto& block = *model->tree()->at("transformer.blocks.1");
  CHECK_THROWS(block.own_tensors().at("weight")->bytes());
  CHECK(block.own_tensors().at("table")->bytes().front() == std::byte{11});
}

TEST_CASE("each wait of a run that converts is needed", "[actors][conversion]") {
  const std::string forgotten = GENERATE(std::string{}, std::string(fetch_waits_last_use.name),
                                         std::string(compute_waits_fetch.name),
                                         std::string(compute_waits_resident_load.name));
  CAPTURE(forgotten);
  const auto shown = test::run_without_edge(sim_options{}, forgotten, [](sim_device& gpu) {
    const std::shared_ptr<device> shared{std::shared_ptr<void>{}, &gpu};
    const auto model = kept_as_bf16();
    runtime through(shared, {.acquire_deadline = 5s});
    return through.start() && through.enable(model, test::compact(headed)) &&
           run_request(through, *model) && through.disable() && through.stop(5s);
  });
  CHECK(shown.caught() == !forgotten.empty());
}

TEST_CASE("a device whose copies do not convert refuses such weights, and nothing has changed",
          "[actors][conversion]") {
  const auto target = std::make_shared<test::null_device>();
  const auto model = kept_as_bf16();
  runtime through(target, {});
  REQUIRE(through.start());

  const auto refused = through.enable(model, test::compact(streamed));

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported);
  CHECK(refused.error().block == "text_encoder.block.0");
  CHECK_THAT(refused.error().detail,
             Contains("null") && Contains("the type that its checkpoint has"));
  CHECK(model->hook_count() == 0);
  CHECK(target->counters().device_bytes == 0);
}

TEST_CASE("ranks do not gather weights of another type than they compute in",
          "[actors][conversion][ranks]") {
  auto made = test::sim_ranks(2, 5s);
  std::vector<std::thread> threads;
  std::vector<std::optional<failure>> seen(made.size());
  for (std::size_t i = 0; i != made.size(); ++i)
    threads.emplace_back([&, i] {
      runtime through(made[i].gpu, {.ranks = std::move(made[i].group)});
      if (!through.start())
        return;
      const auto enabled = through.enable(kept_as_bf16(), test::compact(test::gathered));
      if (!enabled)
        seen[i] = enabled.error();
    });
  for (auto& each : threads)
    each.join();
  for (const auto& each : seen) {
    REQUIRE(each);
    CHECK(each->code == errc::unsupported);
    CHECK_THAT(each->detail, Contains("ranks gather weights as they are stored"));
  }
}

TEST_CASE("converted weights are read as the model sees them, and not replaced",
          "[actors][conversion]") {
  const auto config = GENERATE(streamed, pageable);
  const auto sim = std::make_shared<sim_device>(sim_options{});
  const auto model = kept_as_bf16();
  runtime through(sim, {.acquire_deadline = 5s});
  REQUIRE(through.start());
  REQUIRE(through.enable(model, test::compact(config)));

  const auto read = through.read_weights("transformer", {"blocks.1.weight"});
  REQUIRE(read);
  CHECK(is_widened(read->values.front().bytes, 11));
  const auto refused = through.update_weights({"transformer", read->values});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported);
  CHECK_THAT(refused.error().detail, Contains("blocks.1.weight") && Contains("bf16 to f32"));
  CHECK(run_request(through, *model));
}

} // namespace
} // namespace ferry
