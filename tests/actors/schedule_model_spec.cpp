// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/gather_manifest.hpp>
#include <ferry/offload/overlap.hpp>
#include <ferry/offload/schedule_model.hpp>
#include <ferry/platform/sim_device.hpp>

#include "benchmarks/sim_ranks.hpp"
#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// The schedule model against the real runtime on the simulated device.
namespace ferry {
namespace {

using namespace std::chrono_literals;
using bench::on_every_rank;
using bench::sim_rank;

constexpr double link = 1e9; // Bytes per second: a kB takes a microsecond.
constexpr double bus = 1.5e9;
constexpr auto gather_latency = 30us;
constexpr std::size_t quantum = 4096; // Shards and chunks of blocks of so many bytes are even.

/// A stack of blocks and how it is run.
struct shape {
  std::vector<std::size_t> bytes;
  std::vector<nanoseconds> compute;
  std::vector<bool> resident;
  std::size_t slots = 2;
  std::size_t passes = 1; ///< That share each fetch.
  std::size_t ranks = 1;
  std::size_t chunk_bytes = std::size_t{1} << 30;
  gather_pipelining pipelining = gather_pipelining::overlapped;
  std::size_t steps = 3;
};

/// Sees when blocks end on a device, and when its first copy of the request begins.
class block_watch final : public operation_observer {
public:
  void on_operation(const operation_span& span) override {
    const std::lock_guard lock(mutex_);
    const std::string_view what = span.tag.what;
    if (span.kind == operation_kind::copy && span.bytes != 0)
      first_ = std::min(first_, span.start);
    else if (span.kind == operation_kind::mark && what == mark_end)
      done_.push_back(span.end);
  }
  void on_stream(stream_id, std::string_view) override {}

  /// Returns when each streamed block use ended, from the first copy on.
  [[nodiscard]] std::vector<nanoseconds> done() const {
    auto relative = done_;
    for (auto& each : relative)
      each -= first_;
    return relative;
  }

private:
  std::mutex mutex_;
  nanoseconds first_ = nanoseconds::max();
  std::vector<nanoseconds> done_;
};

nanoseconds over(double rate, std::size_t bytes) {
  return nanoseconds{std::llround(static_cast<double>(bytes) / rate * 1e9)};
}

/// Returns what blocks take on the device that `device_of` makes.
std::vector<block_cost> costs_of(const shape& of) {
  std::vector<block_cost> costs;
  for (std::size_t i = 0; i != of.bytes.size(); ++i) {
    auto& cost = costs.emplace_back(block_cost{.compute = of.compute[i], .pieces = {}});
    if (of.resident[i])
      continue;
    if (of.ranks == 1) {
      cost.pieces.push_back({.copy = over(link, of.bytes[i]), .gather = {}});
      continue;
    }
    const auto plan = plan_gather("", of.bytes[i], of.ranks, of.chunk_bytes).value();
    for (const auto& chunk : plan.chunks)
      cost.pieces.push_back({.copy = over(link, chunk.local),
                             .gather = gather_latency + over(bus, (of.ranks - 1) * chunk.local)});
  }
  return costs;
}

/// Returns when each streamed block use ends by the model.
std::vector<nanoseconds> predicted(const shape& of) {
  schedule_model model({.slots = of.slots, .passes = of.passes, .pipelining = of.pipelining});
  nanoseconds residents{};
  for (std::size_t i = 0; i != of.bytes.size(); ++i)
    residents += of.resident[i] ? over(link, of.bytes[i]) : 0ns;
  model.bring_residents(residents);
  const auto costs = costs_of(of);
  std::vector<nanoseconds> done;
  for (std::size_t step = 0; step != of.steps; ++step)
    for (const auto& each : costs)
      if (const auto times = model.run(each); !each.resident())
        done.push_back(times.done);
  return done;
}

/// Host threads take `host` for everything they enqueue, and to tell each other something.
sim_options device_of(const shape& of, nanoseconds host) {
  sim_options options;
  options.h2d_bandwidth = link;
  options.gather_bandwidth = bus;
  options.gather_latency = gather_latency;
  options.launch = host;
  options.hop = host;
  for (std::size_t i = 0; i != of.bytes.size(); ++i)
    if (of.resident[i])
      options.compute = of.compute[i]; // Of all that have no number.
    else
      options.block_compute.push_back(of.compute[i]);
  return options;
}

std::shared_ptr<test::fake_pipeline> model_of(const shape& of) {
  std::vector<test::fake_node> blocks;
  for (const auto bytes : of.bytes)
    blocks.push_back(test::block(static_cast<std::int64_t>(bytes / sizeof(float))));
  auto made = std::make_shared<test::fake_pipeline>(test::node("root")->child(
      "transformer", test::node("dit")->child("blocks", test::list(std::move(blocks)))));
  made->declare({.dits = {"transformer"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}}, .resident_dit_paths = {"transformer"}});
  return made;
}

offload_config config_of(const shape& of) {
  std::string residents;
  for (std::size_t i = 0; i != of.resident.size(); ++i)
    if (of.resident[i])
      residents += "," + std::to_string(i);
  auto config = test::with_dit_options(
      of.ranks > 1 ? R"("weight_transfer":"allgather")"
                   : R"("resident_blocks":[)" + residents.substr(residents.empty() ? 0 : 1) + "]");
  config.chunk_bytes = of.chunk_bytes;
  return config;
}

void require(const result<void>& done) {
  if (!done)
    throw ferry_error(done.error());
}

void run(const shape& of, sim_rank own) {
  const auto model = model_of(of);
  const auto through_ranks = of.ranks > 1;
  own.group.pipelining = of.pipelining;
  runtime through(own.gpu,
                  {.slots = of.slots,
                   .ranks = through_ranks ? std::optional(std::move(own.group)) : std::nullopt});
  require(through.start());
  require(through.enable(model, config_of(of)));
  static_cast<void>(through.begin_request({.steps = static_cast<std::uint32_t>(of.steps)}).value());
  for (std::size_t step = 0; step != of.steps; ++step)
    for (std::size_t i = 0; i != of.bytes.size(); ++i)
      model->call_together("transformer.blocks." + std::to_string(i), of.passes,
                           [](test::fake_module&) {});
  require(through.end_request());
  require(through.disable());
}

/// Returns when each streamed block use ended on the device of rank 0.
std::vector<nanoseconds> simulated(const shape& of, nanoseconds host) {
  block_watch watch;
  auto ranks = bench::make_sim_ranks(of.ranks, device_of(of, host));
  const auto first = ranks.front().gpu;
  first->attach(watch);
  on_every_rank(std::move(ranks), [&](std::size_t, sim_rank own) { run(of, std::move(own)); });
  first->detach(watch);
  return watch.done();
}

/// Blocks of random size and compute, some of them resident.
shape random_shape(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t least, std::size_t most) {
    return least + random() % (most - least + 1);
  };
  shape made;
  made.slots = pick(1, 4);
  const auto count = pick(made.slots + 1, 12);
  for (std::size_t i = 0; i != count; ++i) {
    made.bytes.push_back(quantum * pick(20, 200));
    made.compute.emplace_back(pick(100'000, 900'000));
  }
  made.resident.assign(count, false);
  return made;
}

shape random_with_residents(unsigned seed) {
  auto made = random_shape(seed);
  const auto compute = made.compute.front();
  const auto count = made.bytes.size();
  std::mt19937 random(seed);
  for (std::size_t left = count < 4 ? 0 : 1 + random() % (count - 3); left != 0;) {
    const auto block = random() % count;
    if (made.resident[block])
      continue;
    made.resident[block] = true;
    made.compute[block] = compute;
    --left;
  }
  return made;
}

shape random_ranks(unsigned seed) {
  auto made = random_shape(seed);
  made.ranks = 2 + 2 * (seed % 2);
  made.chunk_bytes = seed % 3 == 0 ? std::size_t{1} << 30 : quantum * (10 + seed % 40);
  made.pipelining = seed % 5 == 0 ? gather_pipelining::back_to_back : gather_pipelining::overlapped;
  return made;
}

TEST_CASE("the simulated device runs random blocks when the schedule model says",
          "[actors][schedule]") {
  const auto seed = GENERATE(range(1U, 25U));
  const auto shape = random_shape(seed);
  CAPTURE(seed, shape.slots, shape.bytes.size());

  CHECK(simulated(shape, 0ns) == predicted(shape));
}

TEST_CASE("so it does where some are resident, from when the request brings them on",
          "[actors][schedule]") {
  const auto seed = GENERATE(range(100U, 124U));
  const auto shape = random_with_residents(seed);
  CAPTURE(seed, shape.slots, shape.bytes.size());

  CHECK(simulated(shape, 0ns) == predicted(shape));
}

TEST_CASE("so it does where ranks gather blocks, in chunks or whole, overlapped or back to back",
          "[actors][schedule]") {
  const auto seed = GENERATE(range(200U, 220U));
  const auto shape = random_ranks(seed);
  CAPTURE(seed, shape.slots, shape.bytes.size(), shape.ranks, shape.chunk_bytes);

  CHECK(simulated(shape, 0ns) == predicted(shape));
}

TEST_CASE("so it does where several passes share each fetch", "[actors][schedule]") {
  const auto seed = GENERATE(range(400U, 436U));
  auto shape = seed % 3 == 0   ? random_shape(seed)
               : seed % 3 == 1 ? random_with_residents(seed)
                               : random_ranks(seed);
  shape.passes = 2 + seed % 4;
  CAPTURE(seed, shape.slots, shape.bytes.size(), shape.ranks, shape.passes);

  CHECK(simulated(shape, 0ns) == predicted(shape));
}

TEST_CASE("a denoiser that comes as a whole computes for as long as its blocks do",
          "[actors][schedule]") {
  class compute_watch final : public operation_observer {
  public:
    void on_operation(const operation_span& span) override {
      computed += span.kind == operation_kind::compute ? span.end - span.start : 0ns;
    }
    void on_stream(stream_id, std::string_view) override {}

    nanoseconds computed{};
  };
  sim_options options;
  options.compute = 3ms;
  const auto gpu = std::make_shared<sim_device>(options);
  const auto model = std::make_shared<test::fake_pipeline>(
      test::tree(5)); // A denoiser of five blocks, and an encoder.
  model->declare(test::roles).plan(test::planned());
  compute_watch watch;
  gpu->attach(watch);
  {
    runtime through(gpu, {});
    require(through.start());
    require(through.enable(
        model, test::compact(R"({"mode":"module","components":["dit","text_encoder"]})")));
    static_cast<void>(through.begin_request().value());
    model->call("transformer", [](test::fake_module&) {});
    require(through.end_request());
  }
  gpu->detach(watch);

  CHECK(watch.computed == 15ms);
}

TEST_CASE("what host threads take shows in when the first block comes, and in no step after it",
          "[actors][schedule]") {
  const auto seed = GENERATE(range(300U, 312U));
  auto shape = random_shape(seed);
  shape.slots = std::max<std::size_t>(shape.slots, 2);
  CAPTURE(seed, shape.slots, shape.bytes.size());
  const auto relative = [](std::vector<nanoseconds> done) {
    const auto first = done.front();
    for (auto& each : done)
      each -= first;
    return done;
  };

  const auto seen = relative(simulated(shape, 5us));
  const auto expected = relative(predicted(shape));

  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i != seen.size(); ++i)
    CHECK(abs(seen[i] - expected[i]) <= 1us);
}

} // namespace
} // namespace ferry
