// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/actors/trace_file.hpp>
#include <ferry/actors/trace_log.hpp>
#include <ferry/offload/bare_weights.hpp>
#include <ferry/offload/request_meter.hpp>
#include <ferry/offload/trace_analysis.hpp>
#include <ferry/offload/trace_reader.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/sim_communicator.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/rank_team.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::byte_blocks;

/// A copy takes `copy`, a body `body`, and the host no time.
sim_options timed(nanoseconds copy, nanoseconds body) {
  sim_options options;
  options.h2d_bandwidth = 1e15;
  options.latency = copy;
  options.compute = body;
  options.launch = 0ns;
  options.hop = 0ns;
  return options;
}

/// A started runtime over a device, which is recorded from the first to the last message.
template <class Device>
class traced_run {
public:
  traced_run(std::shared_ptr<Device> device, std::size_t slots = 2)
      : gpu(std::move(device)),
        file_(std::make_shared<trace_file>(path_, gpu->traits().virtual_time
                                                      ? trace_file::time::modelled
                                                      : trace_file::time::real)),
        log_(std::make_shared<trace_log>(file_, 0, *gpu)),
        subject(std::make_unique<runtime>(gpu, runtime_options{.slots = slots, .trace = log_})) {
    REQUIRE(subject->start());
  }

  void enable(std::shared_ptr<const bare_weights> weights) {
    auto opened = subject->enable(std::move(weights));
    REQUIRE(opened);
    gate = *opened;
  }

  void request(const byte_blocks& blocks, const std::vector<std::size_t>& order) {
    REQUIRE(subject->begin_request());
    for (const auto each : order)
      REQUIRE(blocks.run(*gate, each));
    REQUIRE(subject->end_request());
  }

  /// Ends everything, and reads what was written.
  [[nodiscard]] trace recorded() {
    REQUIRE(subject->disable());
    REQUIRE(subject->stop(10s));
    subject.reset();
    REQUIRE(file_->finish());
    auto read = read_trace(path_);
    REQUIRE(read);
    return std::move(*read);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] trace_log& log() noexcept { return *log_; }

private:
  test::scratch_directory scratch_;
  std::filesystem::path path_ = scratch_.path() / "t.json";

public:
  std::shared_ptr<Device> gpu;

private:
  std::shared_ptr<trace_file> file_;
  std::shared_ptr<trace_log> log_;

public:
  std::unique_ptr<runtime> subject;
  std::shared_ptr<block_gate> gate;
};

using sim_run = traced_run<sim_device>;

/// Records requests that run `order` each.
trace run_of(const byte_blocks& blocks, const sim_options& options, std::size_t slots,
             const std::vector<std::vector<std::size_t>>& orders) {
  sim_run run(std::make_shared<sim_device>(options), slots);
  run.enable(blocks.pinned(*run.gpu));
  for (const auto& order : orders)
    run.request(blocks, order);
  return run.recorded();
}

/// Returns the last late use of a block. @pre there is one
late_block late_one(const trace& run, std::uint32_t block) {
  const auto report = analyse(run);
  const auto found = std::find_if(report.late.rbegin(), report.late.rend(),
                                  [&](const late_block& each) { return each.block == block; });
  REQUIRE(found != report.late.rend());
  return *found;
}

TEST_CASE("the exposed wait of a trace is that of the schedule, to the nanosecond",
          "[actors][trace]") {
  const byte_blocks blocks{{4}, 0};
  const auto run = run_of(blocks, timed(3ms, 1ms), 2, {{0, 1, 2, 3, 0, 1, 2, 3}});

  const auto report = analyse(run);

  REQUIRE(report.ranks.size() == 1);
  // The first copy shows whole, of each other one what its predecessor's body does not cover.
  CHECK(report.ranks[0].overlap.exposed_wait == 3ms + 7 * 2ms);
  CHECK(report.ranks[0].overlap.blocks == 8);
  CHECK(report.late.size() == 8);
  CHECK(run.complete);
  CHECK(run.dropped == 0);
}

TEST_CASE("a link that is slower than compute is named, with the residents that would hide it",
          "[actors][trace]") {
  const byte_blocks blocks{{8}, 0};
  const std::vector<std::size_t> pass{0, 1, 2, 3, 4, 5, 6, 7};
  const auto run = run_of(blocks, timed(2ms, 1ms), 2, {pass});

  const auto late = late_one(run, 5);

  CHECK(late.cause == wait_cause::link_busy);
  CHECK(late.by_block == 4);
  CHECK(late.advice.find("resident: 4 more blocks") == 0);
}

TEST_CASE("a slot that is not released is named, with the block that holds it", "[actors][trace]") {
  const byte_blocks blocks{{4}, 0};
  const auto run = run_of(blocks, timed(1ms, 2ms), 1, {{0, 1, 2, 3}});

  const auto late = late_one(run, 2);

  CHECK(late.cause == wait_cause::slot_held);
  CHECK(late.by_block == 1);
  CHECK(late.wait == 1ms);
  CHECK(late.advice.find("2 slots instead of 1") == 0);
}

TEST_CASE("a block that nobody expected is found to be demanded late", "[actors][trace]") {
  const byte_blocks blocks{{6}, 0};
  const auto run = run_of(blocks, timed(1ms, 3ms), 2, {{0, 1, 5}});

  const auto late = late_one(run, 5);

  CHECK(late.cause == wait_cause::demanded_late);
  CHECK(late.why.find("nothing had been submitted ahead") == 0);
}

TEST_CASE("a message that was on its way for too long is named", "[actors][trace]") {
  const byte_blocks blocks{{6}, 0};
  auto options = timed(500us, 1ms);
  options.hop = 4ms;
  const auto run = run_of(blocks, options, 2, {{0, 1, 2, 3, 4, 5}});

  const auto late = late_one(run, 4);

  CHECK(late.cause == wait_cause::message_late);
  CHECK(late.why.find("waited 4.000 ms for its actor") != std::string::npos);
}

TEST_CASE("host memory that is slower than that of other blocks is named", "[actors][trace]") {
  const byte_blocks blocks{{6}, 0};
  auto options = timed(1ms, 2ms);
  options.pageable_bandwidth = 1e5; // A block of a thousand bytes takes ten milliseconds.
  sim_run run(std::make_shared<sim_device>(options));
  auto mixed = std::make_shared<bare_weights>(*blocks.pinned(*run.gpu));
  mixed->blocks[3] = blocks.weights()->blocks[3];
  run.enable(mixed);
  run.request(blocks, {0, 1, 2, 3, 4, 5});

  const auto late = late_one(run.recorded(), 3);

  CHECK(late.cause == wait_cause::source_cold);
}

/// Two ranks that hold blocks together; the copies of the second take longer.
TEST_CASE("a rank that a collective waits for is named", "[actors][trace]") {
  const test::scratch_directory scratch;
  const auto path = scratch.path() / "t.json";
  const auto file = std::make_shared<trace_file>(path, trace_file::time::modelled);
  const auto machine = make_sim_machine(7);
  auto meetings = make_memory_rendezvous(2);
  std::vector<std::shared_ptr<sim_device>> devices;
  std::vector<sim_device*> raw;
  for (const auto copy : {500us, 4000us}) {
    devices.push_back(std::make_shared<sim_device>(machine, "rank" + std::to_string(devices.size()),
                                                   timed(copy, 1ms)));
    raw.push_back(devices.back().get());
  }
  auto ends = make_sim_communicators(raw, test::rank_patience);
  const auto play = [&](std::size_t i) {
    const auto log = std::make_shared<trace_log>(file, static_cast<std::uint32_t>(i), *devices[i]);
    const auto model = test::rank_model();
    runtime subject(devices[i], {.ranks = rank_group{.meeting = std::move(meetings[i]),
                                                     .gathers = std::move(ends[i]),
                                                     .patience = test::rank_patience},
                                 .trace = log,
                                 .acquire_deadline = test::rank_patience});
    auto right = subject.start() && subject.enable(model, test::config_of(test::all_gathered));
    right = right && subject.begin_request(wave_terms{.steps = 1}).has_value();
    for (std::size_t block = 0; right && block != test::dit_blocks; ++block)
      model->call("transformer.blocks." + std::to_string(block), [](test::fake_module&) {});
    right = subject.end_request() && right;
    return subject.disable() && subject.stop(10s) && right;
  };
  auto other = false;
  std::thread second([&] { other = play(1); });
  const auto own = play(0);
  second.join();
  REQUIRE((own && other));
  REQUIRE(file->finish());
  const auto run = read_trace(path);
  REQUIRE(run);

  const auto report = analyse(*run);

  CHECK(report.ranks.size() == 2);
  const auto found = std::ranges::find_if(report.late, [](const late_block& each) {
    return each.rank == 0 && each.cause == wait_cause::rank_late;
  });
  REQUIRE(found != report.late.end());
  CHECK(found->by_rank == 1);
  CHECK(std::ranges::none_of(report.late, [](const late_block& each) {
    return each.rank == 1 && each.cause == wait_cause::rank_late;
  }));
}

TEST_CASE("every message of a run is in its trace, in the hands of its actor",
          "[actors][trace][documentation]") {
  const byte_blocks blocks{{4}, 0};
  const auto run = run_of(blocks, timed(1ms, 1ms), 2, {{0, 1, 2, 3}, {0, 3}});

  std::set<std::string, std::less<>> seen;
  for (const auto& each : run.messages)
    seen.emplace(each.what);
  for (const auto* each :
       {"start_child", "enable_weights", "open_copies", "open_ring", "queue_request",
        "begin_request", "fetch_block", "demand_block", "block_released", "discard_slot",
        "end_request", "query_offload", "query_ring", "drain_copies", "close_ring", "close_copies",
        "disable_backend", "drain_child", "release_child"}) {
    INFO(each);
    CHECK(seen.contains(std::string_view(each)));
  }
  std::set<std::string> actors;
  for (const auto& each : run.tracks)
    if (each.row == trace_row::actor)
      actors.insert(each.name);
  CHECK(actors.contains("block_prefetcher"));
  CHECK(actors.contains("copy_stream_worker"));
  CHECK(actors.contains("offloader"));
  CHECK(run.block_name(2) == "blocks.2");
}

TEST_CASE("messages, copies and uses of a block share its ticket", "[actors][trace]") {
  const byte_blocks blocks{{3}, 0};
  const auto run = run_of(blocks, timed(1ms, 1ms), 2, {{0, 1, 2}});

  for (const auto& use : run.uses) {
    INFO(use.block);
    CHECK(std::ranges::any_of(run.device, [&](const device_span& each) {
      return each.ticket == use.ticket && each.block == use.block && each.what == "fetch";
    }));
    CHECK(std::ranges::any_of(run.messages, [&](const message_span& each) {
      return each.ticket == use.ticket && each.block == use.block && each.what == "fetch_block";
    }));
  }
}

TEST_CASE("a message travels as long as the device says", "[actors][trace]") {
  const byte_blocks blocks{{4}, 0};
  auto options = timed(1ms, 1ms);
  options.hop = 30us;
  const auto run = run_of(blocks, options, 2, {{0, 1, 2, 3}});

  std::size_t travelled = 0;
  for (const auto& each : run.messages)
    if (each.what == "block_released" || each.what == "fetch_block") {
      CHECK(each.started - each.sent == 30us);
      ++travelled;
    }
  CHECK(travelled > 6);
}

TEST_CASE("a run on a real clock is recorded on it, from many threads", "[actors][trace]") {
  const byte_blocks blocks{{4}, 0};
  traced_run<host_device> run(
      std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20}));
  run.enable(blocks.weights());
  run.request(blocks, {0, 1, 2, 3, 0, 1, 2, 3});

  const auto told = run.recorded();

  CHECK(told.epoch);
  CHECK(told.uses.size() == 8);
  CHECK(told.dropped == 0);
  for (const auto& each : told.uses)
    CHECK((each.asked <= each.begun && each.begun <= each.ended));
  for (const auto& each : told.messages)
    CHECK((each.sent <= each.started && each.started <= each.finished));
  CHECK(std::ranges::any_of(told.messages, [](const message_span& each) {
    return each.what == "fetch_block" && each.sent < each.started;
  }));
}

TEST_CASE("a trace can be read while the run goes on", "[actors][trace]") {
  const byte_blocks blocks{{4}, 0};
  traced_run<host_device> run(
      std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20}));
  run.enable(blocks.weights());
  run.request(blocks, {0, 1, 2, 3, 0});

  run.log().flush();

  const auto told = read_trace(run.path());
  REQUIRE(told);
  CHECK_FALSE(told->complete);
  CHECK(told->uses.size() >= 4);
}

TEST_CASE("a trace is written while the run goes on, without being asked for", "[actors][trace]") {
  const byte_blocks blocks{{4}, 0};
  traced_run<host_device> run(
      std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20}));
  run.enable(blocks.weights());
  run.request(blocks, {0, 1, 2, 3, 0});

  std::size_t uses = 0;
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (uses < 4 && std::chrono::steady_clock::now() < deadline)
    if (const auto told = read_trace(run.path()))
      uses = told->uses.size();

  CHECK(uses >= 4);
}

TEST_CASE("a run on a modelled clock loses nothing, however long", "[actors][trace]") {
  const byte_blocks blocks{{2}, 0};
  std::vector<std::size_t> order;
  for (int i = 0; i != 3000; ++i)
    order.insert(order.end(), {0, 1});
  const auto run = run_of(blocks, timed(1ms, 1ms), 2, {order});

  CHECK(run.dropped == 0);
  CHECK(run.uses.size() == order.size());
}

TEST_CASE("what a paused log sees is not in the trace", "[actors][trace]") {
  const byte_blocks blocks{{4}, 0};
  sim_run run(std::make_shared<sim_device>(timed(1ms, 1ms)));
  run.enable(blocks.pinned(*run.gpu));
  run.log().pause(true);
  run.request(blocks, {0, 1, 2, 3});
  request_meter asked; // Makes the device report.
  run.gpu->attach(asked);
  run.log().pause(false);
  run.gpu->detach(asked);
  run.request(blocks, {0, 1});

  CHECK(run.recorded().uses.size() == 2);
}

TEST_CASE("a runtime tells of its last request, without a trace", "[actors][trace]") {
  const byte_blocks blocks{{4}, 0};
  const auto gpu =
      std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20});
  runtime subject(gpu, {.slots = 2, .measure_requests = true});
  REQUIRE(subject.start());
  auto gate = subject.enable(blocks.weights());
  REQUIRE(gate);
  CHECK_FALSE(subject.requests().last);
  for (int i = 0; i != 2; ++i) {
    REQUIRE(subject.begin_request());
    REQUIRE(blocks.run_all(**gate, 1));
    REQUIRE(subject.end_request());
  }
  REQUIRE(subject.disable());

  const auto sums = subject.requests();

  CHECK(sums.requests == 2);
  CHECK(sums.all.blocks == 8);
  REQUIRE(sums.last);
  CHECK(sums.last->blocks >= 4);
  CHECK(sums.last->compute > 0ns);
}

TEST_CASE("a trace that cannot be written is refused", "[actors][trace]") {
  for (const auto* path : {"/nowhere/t.json", "/dev/full"})
    CHECK_THROWS_WITH(trace_file(path, trace_file::time::modelled),
                      Catch::Contains(path) && Catch::Contains("could not be written: ") &&
                          (Catch::Contains("No such file") || Catch::Contains("No space left")));
}

} // namespace
} // namespace ferry
