// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/overlap.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/caller_streams.hpp>
#include <ferry/platform/profile_ranges.hpp>
#include <ferry/platform/sim_device.hpp>
#include <ferry/platform/stream.hpp>

#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/edges.hpp"
#include "support/faults.hpp"
#include "support/staged_run.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::byte_blocks;

/// Two streams of a caller, one of which is current.
class two_streams final : public caller_streams {
public:
  explicit two_streams(device& owner) : first_(owner, "caller 0"), second_(owner, "caller 1") {}

  [[nodiscard]] stream_id current() override {
    if (captured_)
      throw ferry_error{{errc::unsupported, "the stream is being captured"}};
    return on_second_ ? second_.id() : first_.id();
  }

  void change() { on_second_ = !on_second_; }
  void capture(bool on) { captured_ = on; }

  /// Enqueues what reads `bytes` on the current stream, which first waits for the other one: a
  /// body that goes on elsewhere.
  void read(device& owner, const_bytes bytes) {
    event handed_over{owner};
    auto& here = on_second_ ? second_ : first_;
    auto& there = on_second_ ? first_ : second_;
    there.record(handed_over);
    here.wait(handed_over, {"callers_own"});
    const std::array<const_bytes, 1> reads{bytes};
    here.compute({.reads = reads, .tag = {.what = "more compute"}});
  }

private:
  stream first_;
  stream second_;
  bool on_second_ = false;
  bool captured_ = false;
};

/// Remembers on which stream blocks began and ended.
class mark_watch final : public operation_observer {
public:
  void on_operation(const operation_span& span) override {
    if (span.kind == operation_kind::mark && span.tag.block != operation_tag::no_block)
      seen.emplace_back(span.tag.block, span.tag.what, span.stream);
  }
  void on_stream(stream_id, std::string_view) override {}

  /// Returns the streams of `what` of `block`, in order.
  [[nodiscard]] std::vector<stream_id> of(std::uint32_t block, std::string_view what) const {
    std::vector<stream_id> on;
    for (const auto& [which, mark, stream] : seen)
      if (which == block && mark == what)
        on.push_back(stream);
    return on;
  }

  std::vector<std::tuple<std::uint32_t, std::string, stream_id>> seen;
};

struct called_run {
  explicit called_run(const byte_blocks& blocks)
      : gpu(std::make_shared<sim_device>(sim_options{})),
        callers(std::make_shared<two_streams>(*gpu)),
        subject(gpu, {.slots = 2, .callers = callers, .acquire_deadline = 5s}) {
    REQUIRE(subject.start());
    auto opened = subject.enable(blocks.pinned(*gpu));
    REQUIRE(opened);
    gate = *opened;
  }

  std::shared_ptr<sim_device> gpu;
  std::shared_ptr<two_streams> callers;
  runtime subject;
  std::shared_ptr<block_gate> gate;
};

TEST_CASE("blocks compute on the stream that is current when they are acquired",
          "[actors][callers]") {
  const byte_blocks blocks{{3}, 0};
  called_run run{blocks};
  mark_watch watch;
  run.gpu->attach(watch);
  const auto first = run.callers->current();

  REQUIRE(blocks.run(*run.gate, 0));
  run.callers->change();
  const auto second = run.callers->current();
  REQUIRE(blocks.run(*run.gate, 1));
  static_cast<void>(run.gate->acquire(block_id{2}));
  run.callers->change();
  run.gate->release(block_id{2});
  run.gpu->run();
  run.gpu->detach(watch);

  CHECK(watch.of(0, mark_begin) == std::vector{first});
  CHECK(watch.of(1, mark_begin) == std::vector{second});
  CHECK(watch.of(1, mark_end) == std::vector{second});
  CHECK(watch.of(2, mark_end) == std::vector{second});
}

/// Writes down what a profiler would show, thread by thread.
class written_ranges final : public profile_ranges {
public:
  void push(const std::string& name) override {
    const std::lock_guard lock{mutex_};
    names_.insert(name);
    ++open_[std::this_thread::get_id()];
  }
  void pop() noexcept override {
    const std::lock_guard lock{mutex_};
    --open_[std::this_thread::get_id()];
  }

  [[nodiscard]] std::set<std::string> names() const {
    const std::lock_guard lock{mutex_};
    return names_;
  }
  [[nodiscard]] bool all_closed() const {
    const std::lock_guard lock{mutex_};
    return std::ranges::all_of(open_, [](const auto& each) { return each.second == 0; });
  }

private:
  mutable std::mutex mutex_;
  std::set<std::string> names_;
  std::map<std::thread::id, int> open_;
};

TEST_CASE("a profiler is shown blocks and copies on the threads that enqueue them",
          "[actors][profile]") {
  const byte_blocks blocks{{2}, 0};
  auto gpu = std::make_shared<sim_device>(sim_options{});
  const auto ranges = std::make_shared<written_ranges>();
  runtime subject{gpu, {.slots = 2, .ranges = ranges}};
  REQUIRE(subject.start());
  const auto gate = subject.enable(blocks.pinned(*gpu)).value();

  REQUIRE(blocks.run_all(*gate, 2));
  REQUIRE(subject.stop(5s));

  CHECK(ranges->names() ==
        std::set<std::string>{"blocks.0", "blocks.1", "fetch blocks.0", "fetch blocks.1"});
  CHECK(ranges->all_closed());
}

TEST_CASE("a runtime whose callers have streams makes no compute stream", "[actors][callers]") {
  const byte_blocks blocks{{3}, 0};
  auto gpu = std::make_shared<sim_device>(sim_options{});
  const auto callers = std::make_shared<two_streams>(*gpu);
  runtime own{gpu, {.slots = 2}};
  REQUIRE(own.start());
  REQUIRE(own.enable(blocks.pinned(*gpu)));
  const auto with_own = gpu->counters().streams;
  REQUIRE(own.stop(5s));

  runtime subject{gpu, {.slots = 2, .callers = callers}};
  REQUIRE(subject.start());
  REQUIRE(subject.enable(blocks.pinned(*gpu)));

  CHECK(gpu->counters().streams == with_own - 1);
  REQUIRE(subject.stop(5s));
}

TEST_CASE("two streams that take turns race with nothing", "[actors][callers]") {
  const byte_blocks blocks{{5}, 1};
  called_run run{blocks};
  REQUIRE(run.subject.begin_request());
  auto right = true;

  for (std::size_t i = 0; i != 20; ++i) {
    run.callers->change();
    right = blocks.run(*run.gate, i % 5) && right;
  }
  REQUIRE(run.subject.end_request());
  REQUIRE(run.subject.disable());

  CHECK(right);
  CHECK(run.gpu->race_count() == 0);
  CHECK(run.gpu->counters().device_bytes == 0);
}

TEST_CASE("a body that goes on on another stream is waited for before its slot is reused",
          "[actors][callers]") {
  const byte_blocks blocks{{5}, 0};
  called_run run{blocks};

  for (std::uint32_t i = 0; i != 10; ++i) {
    const auto bytes = run.gate->acquire(block_id{i % 5});
    run.callers->change();
    run.callers->read(*run.gpu, bytes);
    run.gate->release(block_id{i % 5});
  }
  REQUIRE(run.subject.disable());

  CHECK(run.gpu->race_count() == 0);
}

/// Runs each of five blocks on one stream and again on the other, and then again on the first,
/// before it is let go.
void share_uses(block_gate& gate, two_streams& callers) {
  for (std::uint32_t i = 0; i != 5; ++i) {
    static_cast<void>(gate.acquire(block_id{i}));
    for (int pass = 0; pass != 2; ++pass) {
      callers.change();
      gate.again(block_id{i});
    }
    gate.release(block_id{i});
  }
}

TEST_CASE("bodies that share a use on two streams race with nothing", "[actors][callers]") {
  const byte_blocks blocks{{5}, 0};
  called_run run{blocks};

  for (int pass = 0; pass != 3; ++pass)
    share_uses(*run.gate, *run.callers);
  REQUIRE(run.subject.disable());

  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE("a use that cannot be ordered is refused, and the next one works", "[actors][callers]") {
  const byte_blocks blocks{{3}, 0};
  called_run run{blocks};
  run.callers->capture(true);

  CHECK_THROWS_WITH(run.gate->acquire(block_id{0}), Catch::Contains("being captured"));

  run.callers->capture(false);
  CHECK(blocks.run_all(*run.gate, 2));
  CHECK(run.subject.disable());
}

/// As in hot_path_spec.cpp, with two streams that take turns, between uses and in them.
bool whole_life(sim_device& gpu) {
  const auto shared = std::shared_ptr<sim_device>{&gpu, [](sim_device*) {}};
  const byte_blocks blocks{{5}, 2};
  const auto callers = std::make_shared<two_streams>(gpu);
  runtime subject{shared, {.slots = 2, .callers = callers, .acquire_deadline = 5s}};
  if (!subject.start() || !subject.enable(blocks.pinned(gpu)) || !subject.disable())
    return false;
  const auto gate = subject.enable(blocks.pinned(gpu));
  if (!gate || !subject.begin_request())
    return false;
  const auto all = gpu.allocations();
  const auto arena = std::ranges::find(all, memory_kind::device, &sim_allocation::kind);
  auto right = arena != all.end() && blocks.residents_are_right(arena->block.data());
  for (std::uint32_t i = 0; i != 15; ++i) {
    right = blocks.run(**gate, i % 5) && right;
    const auto bytes = (*gate)->acquire(block_id{(i + 1) % 5});
    callers->change();
    callers->read(gpu, bytes);
    (*gate)->release(block_id{(i + 1) % 5});
  }
  share_uses(**gate, *callers);
  right = subject.end_request() && right;

  static_cast<void>((*gate)->acquire(block_id{0}));
  callers->change();
  static_cast<void>((*gate)->acquire(block_id{1}));
  gpu.inject({.call = device_call::copy});
  (*gate)->release(block_id{0});
  (*gate)->release(block_id{1});
  return subject.disable() && right;
}

TEST_CASE("without any one of its wait edges a backend of two streams races or computes on wrong "
          "bytes",
          "[actors][callers][edges]") {
  std::set<std::string> needed{"callers_own"};
  for (const auto& edge : all_wait_edges)
    needed.insert(edge.name);
  for (const auto& edge : caller_wait_edges)
    needed.insert(edge.name);

  CHECK(test::with_each_edge_removed(sim_options{}, whole_life) == needed.size());
}

/// Components that come and go, called on two streams in turns.
bool staged_life(sim_device& gpu) {
  const auto shared = std::shared_ptr<sim_device>{&gpu, [](sim_device*) {}};
  const auto callers = std::make_shared<two_streams>(gpu);
  const auto pipeline = test::staged_model();
  std::map<std::string, test::contents> original;
  for (const auto& [path, node] : pipeline->tree()->own_children())
    original.emplace(path, test::everything(*node));
  runtime subject{shared, {.callers = callers, .acquire_deadline = 5s}};
  if (!subject.start() || !subject.enable(pipeline, test::compact(test::whole)))
    return false;
  auto right = true;
  for (int i = 0; i != 2; ++i) {
    right = subject.begin_request() && right;
    for (const auto* path : {"text_encoder", "text_encoder_2", "transformer", "transformer",
                             "transformer", "transformer_2", "vae"}) {
      callers->change();
      pipeline->call(path, [&](test::fake_module& module) {
        right = test::everything(module) == original.at(path) && right;
        callers->change();
      });
    }
    right = subject.end_request() && right;
  }
  // One that was used and one that is on its way when the backend is disabled.
  pipeline->call("text_encoder", [](test::fake_module&) {});
  right = subject.stage_in("text_encoder_2") && right;
  return subject.disable() && right;
}

TEST_CASE("without any one of its wait edges staging for two streams races or computes on wrong "
          "bytes",
          "[actors][callers][edges]") {
  const auto run = test::run_without_edge(sim_options{}, "", staged_life);
  const std::set<std::string> seen(run.edges.begin(), run.edges.end());
  for (const auto& edge : group_wait_edges)
    CHECK(seen.contains(edge.name));
  for (const auto& edge : caller_wait_edges)
    CHECK(seen.contains(edge.name));

  CHECK(test::with_each_edge_removed(sim_options{}, staged_life) == seen.size());
}

TEST_CASE("a group leaves behind every stream that it was used on, not only the last",
          "[actors][callers]") {
  const auto gpu = std::make_shared<sim_device>(sim_options{});
  const auto callers = std::make_shared<two_streams>(*gpu);
  const auto pipeline = test::staged_model();
  runtime subject{gpu, {.callers = callers, .acquire_deadline = 5s}};
  REQUIRE(subject.start());
  REQUIRE(subject.enable(pipeline, test::compact(test::whole)));

  pipeline->call("transformer", [&](test::fake_module&) {
    const auto& block = *pipeline->tree()->at("transformer.blocks.0");
    callers->change();
    callers->read(*gpu, block.own_tensors().begin()->second->bytes());
  });
  callers->change();
  pipeline->call("transformer", [](test::fake_module&) {});
  REQUIRE(subject.stage_out("transformer"));
  REQUIRE(subject.disable());

  CHECK(gpu->race_count() == 0);
}

TEST_CASE("a run on two streams in which any device call fails ends with an error, and everything "
          "is given back",
          "[actors][callers][faults]") {
  auto gpu = std::make_shared<sim_device>(sim_options{});
  const auto callers = std::make_shared<two_streams>(*gpu);
  const byte_blocks blocks{{4}, 1};
  const auto before = gpu->counters();

  const auto tried = test::at_every_fault_point(
      *gpu,
      [&] {
        runtime subject{gpu, {.slots = 2, .callers = callers, .acquire_deadline = 5s}};
        auto ok = subject.start().has_value();
        const auto gate = subject.enable(blocks.pinned(*gpu));
        ok = gate.has_value() && subject.begin_request() && ok;
        for (std::size_t i = 0; gate && i != 8; ++i) {
          ok = blocks.run(**gate, i % 4) && ok;
          callers->change();
        }
        ok = subject.end_request() && ok;
        ok = subject.disable() && ok;
        return subject.stop(10s) && ok;
      },
      [&] {
        const auto left = gpu->counters();
        CHECK(left.device_bytes == 0);
        CHECK(left.pinned_bytes == 0);
        CHECK(left.streams == before.streams);
        CHECK(left.events == before.events);
        CHECK(gpu->race_count() == 0);
      });

  CHECK(tried > 50);
}

} // namespace
} // namespace ferry
