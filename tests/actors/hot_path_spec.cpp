// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/overlap.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/edges.hpp"
#include "support/faults.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <string_view>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::byte_blocks;

/// A started runtime over a simulated device with byte blocks enabled.
struct streaming_run {
  explicit streaming_run(const byte_blocks& blocks, std::size_t slots = 2)
      : gpu(std::make_shared<sim_device>(sim_options{})), subject(gpu, {.slots = slots}) {
    REQUIRE(subject.start());
    auto opened = subject.enable(blocks.pinned(*gpu));
    REQUIRE(opened);
    gate = *opened;
  }

  /// Runs `blocks` in the order given, as one request.
  [[nodiscard]] bool request(const byte_blocks& blocks, const std::vector<std::size_t>& order) {
    REQUIRE(subject.begin_request());
    auto right = true;
    for (const auto each : order)
      right = blocks.run(*gate, each) && right;
    REQUIRE(subject.end_request());
    return right;
  }

  std::shared_ptr<sim_device> gpu;
  runtime subject;
  std::shared_ptr<block_gate> gate;
};

TEST_CASE("every pass sees the right bytes with any number of slots, and no race",
          "[actors][hot_path]") {
  const auto slots = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{3});
  const byte_blocks blocks{{7}, 2};
  streaming_run run{blocks, slots};

  REQUIRE(run.subject.begin_request());
  const auto right = blocks.run_all(*run.gate, 6);
  REQUIRE(run.subject.end_request());
  REQUIRE(run.subject.disable());

  CHECK(right);
  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE("blocks run outside a request as well", "[actors][hot_path]") {
  const byte_blocks blocks{{5}, 0};
  streaming_run run{blocks};

  const auto right = blocks.run_all(*run.gate, 3);

  CHECK(right);
  CHECK(run.subject.state()->blocking_loads == 0);
  CHECK(run.subject.disable());
  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE("a steady state allocates nothing on the device", "[actors][hot_path]") {
  const byte_blocks blocks{{6}, 0};
  streaming_run run{blocks};
  const auto before = run.gpu->counters().allocations;

  REQUIRE(run.request(blocks, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));

  CHECK(run.gpu->counters().allocations == before);
  CHECK(run.subject.state()->device_allocations == 0);
}

TEST_CASE("the first block is on its way before the first forward, and no later one is waited for",
          "[actors][hot_path][B19]") {
  const byte_blocks blocks{{6}, 0};
  streaming_run run{blocks};

  REQUIRE(run.subject.begin_request());
  REQUIRE(blocks.run_all(*run.gate, 10));

  CHECK(run.subject.state()->blocking_loads == 0);
}

TEST_CASE("two rings that take turns cost at most one blocking load each", "[actors][hot_path]") {
  const byte_blocks blocks{{4, 5}, 0};
  streaming_run run{blocks};

  for (int i = 0; i != 6; ++i)
    REQUIRE(run.request(blocks, {0, 1, 2, 3, 4, 5, 6, 7, 8, 4, 5, 6, 7, 8}));

  CHECK(run.subject.state()->blocking_loads <= 2);
}

TEST_CASE("two alternating call paths cost at most one blocking load each",
          "[actors][hot_path][B14]") {
  const byte_blocks blocks{{4}, 0};
  streaming_run run{blocks};

  for (int i = 0; i != 10; ++i)
    REQUIRE(run.request(blocks, {0, 1, 2, 3, 0, 2, 3}));

  CHECK(run.subject.state()->blocking_loads <= 2);
}

TEST_CASE("after a request that skipped a block no ticket is in flight and every slot is free",
          "[actors][hot_path][B13]") {
  const byte_blocks blocks{{4}, 0};
  streaming_run run{blocks};

  for (int i = 0; i != 4; ++i) {
    REQUIRE(run.request(blocks, i % 2 == 0 ? std::vector<std::size_t>{0, 1, 2, 3}
                                           : std::vector<std::size_t>{0, 1, 3}));
    CHECK(run.subject.state()->tickets_in_flight == 0);
    CHECK(run.subject.state()->slots_free == 2);
  }
}

TEST_CASE("an announced order is followed without a blocking load", "[actors][hot_path]") {
  const byte_blocks blocks{{6}, 0};
  streaming_run run{blocks};
  REQUIRE(run.subject.begin_request());

  REQUIRE(run.subject.announce({block_id{4}, block_id{1}, block_id{3}}));
  for (const auto each : {4, 1, 3})
    REQUIRE(blocks.run(*run.gate, static_cast<std::size_t>(each)));

  CHECK(run.subject.state()->blocking_loads == 0);
}

TEST_CASE("slots hold poison once the request has ended", "[actors][hot_path]") {
  const byte_blocks blocks{{4}, 0};
  streaming_run run{blocks};
  REQUIRE(run.subject.begin_request());
  const auto held = run.gate->acquire(block_id{0});
  run.gate->release(block_id{0});
  REQUIRE(run.subject.end_request());

  run.gpu->run();

  CHECK(std::ranges::all_of(held, [](std::byte each) { return each == std::byte{0xff}; }));
}

TEST_CASE("a block that is held cannot be acquired again, nor more blocks than there are slots",
          "[actors][hot_path]") {
  const byte_blocks blocks{{4}, 0};
  streaming_run run{blocks};
  static_cast<void>(run.gate->acquire(block_id{0}));

  CHECK_THROWS_AS(run.gate->acquire(block_id{0}), ferry_error);
  static_cast<void>(run.gate->acquire(block_id{1}));
  CHECK_THROWS_WITH(run.gate->acquire(block_id{2}), Catch::Contains("all 2 slots"));

  run.gate->release(block_id{1});
  run.gate->release(block_id{0});
  CHECK(blocks.run_all(*run.gate, 1));
}

nanoseconds time_of_requests(std::uint64_t requests) {
  const byte_blocks blocks{{5, 4}, 1};
  streaming_run run{blocks};
  for (std::uint64_t i = 0; i != requests; ++i)
    REQUIRE(run.request(blocks, {0, 1, 2, 3, 4, 5, 6, 8, 7, 5, 6, 7, 8}));
  REQUIRE(run.subject.disable());
  return run.gpu->now();
}

TEST_CASE("the virtual time of a run is the same however threads were scheduled",
          "[actors][hot_path]") {
  const auto first = time_of_requests(4);
  for (int i = 0; i != 20; ++i)
    REQUIRE(time_of_requests(4) == first);
}

/// Returns the start of the arena, where the residents lie.
const std::byte* arena_of(const sim_device& gpu) {
  const auto all = gpu.allocations();
  const auto found = std::ranges::find(all, memory_kind::device, &sim_allocation::kind);
  REQUIRE(found != all.end());
  return found->block.data();
}

/// Lives through everything that a wait orders: fetches that nobody uses, several requests, and a
/// copy that fails, so that the last uses of the slots are followed by no fetch. Returns whether
/// all bytes were right.
bool whole_life(sim_device& gpu) {
  const auto shared = std::shared_ptr<sim_device>{&gpu, [](sim_device*) {}};
  const byte_blocks blocks{{5}, 2};
  runtime subject{shared, {.slots = 2, .acquire_deadline = 5s}};
  if (!subject.start() || !subject.enable(blocks.pinned(gpu)) || !subject.disable())
    return false;
  const auto gate = subject.enable(blocks.pinned(gpu));
  if (!gate || !subject.begin_request())
    return false;
  auto right = blocks.residents_are_right(arena_of(gpu));
  right = blocks.run_all(**gate, 3) && right;
  right = subject.end_request() && right;

  static_cast<void>((*gate)->acquire(block_id{0}));
  static_cast<void>((*gate)->acquire(block_id{1}));
  gpu.inject({.call = device_call::copy});
  (*gate)->release(block_id{0});
  (*gate)->release(block_id{1});
  return subject.disable() && right;
}

TEST_CASE("without any one of its wait edges the backend races or computes on wrong bytes",
          "[actors][edges]") {
  CHECK(test::with_each_edge_removed(sim_options{}, whole_life) == all_wait_edges.size());
}

TEST_CASE("the wait edges that a run uses are exactly those declared", "[actors][edges]") {
  std::set<std::string> declared;
  for (const auto& edge : all_wait_edges)
    declared.insert(edge.name);

  const auto run = test::run_without_edge(sim_options{}, "", whole_life);

  CHECK(std::set<std::string>(run.edges.begin(), run.edges.end()) == declared);
}

TEST_CASE("the memory model documents exactly the wait edges declared", "[actors][edges]") {
  std::set<std::string> declared;
  for (const auto& edge : all_wait_edges)
    declared.insert(edge.name);
  for (const auto& edge : group_wait_edges)
    declared.insert(edge.name);
  for (const auto& edge : gather_wait_edges)
    declared.insert(edge.name);
  for (const auto& edge : pack_wait_edges)
    declared.insert(edge.name);
  for (const auto& edge : caller_wait_edges)
    declared.insert(edge.name);
  std::ifstream page{FERRY_DOCS "/memory-model.md"};
  const std::regex row{R"(^\| `(\w+)` \|.*)"};

  std::set<std::string> documented;
  std::smatch name;
  for (std::string line; std::getline(page, line);)
    if (std::regex_match(line, name, row))
      documented.insert(name[1]);

  CHECK(documented == declared);
}

/// Runs three bodies in one use of a block. Returns whether the gate had them all.
bool share_one_use(block_gate& gate) {
  auto had = true;
  try {
    static_cast<void>(gate.acquire(block_id{0}));
  } catch (const ferry_error&) {
    return false;
  }
  try {
    gate.again(block_id{0});
    gate.again(block_id{0});
  } catch (const ferry_error&) {
    had = false;
  }
  gate.release(block_id{0});
  return had;
}

TEST_CASE("bodies that share a use of a block are computed one by one, all between its marks",
          "[actors][hot_path]") {
  class body_watch final : public operation_observer {
  public:
    void on_operation(const operation_span& span) override {
      const std::string_view what = span.tag.what;
      if (span.kind == operation_kind::compute)
        seen += "c";
      else if (span.kind == operation_kind::mark && what == mark_begin)
        seen += "(";
      else if (span.kind == operation_kind::mark && what == mark_end)
        seen += ")";
    }
    void on_stream(stream_id, std::string_view) override {}

    std::string seen;
  };
  const byte_blocks blocks{{2}, 0};
  streaming_run run{blocks};
  body_watch watch;
  run.gpu->attach(watch);

  REQUIRE(share_one_use(*run.gate));
  REQUIRE(blocks.run(*run.gate, 1));
  REQUIRE(share_one_use(*run.gate));
  REQUIRE(run.subject.disable());
  run.gpu->detach(watch);

  CHECK(watch.seen == "(ccc)(c)(ccc)");
  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE("a run in which any device call fails ends with an error, and everything is given back",
          "[actors][faults]") {
  auto gpu = std::make_shared<sim_device>(sim_options{});
  const byte_blocks blocks{{4}, 1};
  const auto memory = gpu->counters().device_bytes;

  const auto tried = test::at_every_fault_point(
      *gpu,
      [&] {
        runtime subject{gpu, {.slots = 2, .acquire_deadline = 5s}};
        auto ok = subject.start().has_value();
        const auto gate = subject.enable(blocks.pinned(*gpu));
        ok = gate.has_value() && ok;
        if (gate) {
          ok = subject.begin_request() && ok;
          ok = blocks.run_all(**gate, 2) && ok;
          ok = share_one_use(**gate) && ok;
          ok = subject.end_request() && ok;
        }
        ok = subject.disable() && ok;
        return subject.stop(10s) && ok;
      },
      [&] {
        const auto left = gpu->counters();
        CHECK(left.device_bytes == memory);
        CHECK(left.pinned_bytes == 0);
        CHECK(left.streams == 0);
        CHECK(left.events == 0);
        CHECK(gpu->race_count() == 0);
      });

  CHECK(tried > 50);
}

} // namespace
} // namespace ferry
