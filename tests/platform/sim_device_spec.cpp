// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/sim_device.hpp>

#include "platform/streamed_slot.hpp"
#include "support/catch.hpp"
#include "support/edges.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace ferry {
namespace {

using test::poison_value;
using test::streamed_slot;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<sim_device>);
static_assert(!std::is_move_constructible_v<sim_device>);

template <class Number>
Number first_of(const_bytes range) {
  Number value;
  std::memcpy(&value, range.data(), sizeof value);
  return value;
}

TEST_CASE("fresh memory is not a number in any format", "[sim][bytes]") {
  sim_device gpu{sim_options{}};
  memory_block fresh{gpu, memory_kind::device, 64};

  CHECK(std::isnan(first_of<float>(fresh.bytes())));
  CHECK(std::isnan(first_of<double>(fresh.bytes())));
  CHECK((first_of<std::uint16_t>(fresh.bytes()) & 0x7FFF) > 0x7F80); // bf16
  CHECK((first_of<std::uint16_t>(fresh.bytes()) & 0x7FFF) > 0x7C00); // f16
}

TEST_CASE("memory is aligned to 256 bytes", "[sim][bytes]") {
  sim_device gpu{sim_options{}};
  memory_block odd{gpu, memory_kind::pinned, 3};
  memory_block next{gpu, memory_kind::device, 5};

  CHECK(reinterpret_cast<std::uintptr_t>(odd.bytes().data()) % 256 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(next.bytes().data()) % 256 == 0);
}

TEST_CASE("a copy moves nothing until somebody who waited for it looks", "[sim][bytes]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.fetch_staged(1);
  CHECK(s.seen() == poison_value);

  s.compute.settle();
  CHECK(s.seen() == poison_value);

  s.copies.synchronize(streamed_slot::done_edge);
  CHECK(s.seen() == 7);
}

TEST_CASE("settling runs what is ordered before and nothing else", "[sim][bytes]") {
  streamed_slot s{sim_options{}};
  memory_block other{s.gpu, memory_kind::device, streamed_slot::size};
  s.stage(7);
  s.fetch_staged(1);
  s.copies.record(s.ready);
  s.copies.copy({other.bytes(), s.staging.bytes(), memory_kind::device, memory_kind::pinned, {}});
  s.compute.wait(s.ready, streamed_slot::ready_edge);

  s.compute.settle();

  CHECK(s.seen() == 7);
  CHECK(std::to_integer<int>(other.bytes().front()) == poison_value);
  s.finish();
}

TEST_CASE("settling takes no virtual time and teaches the host nothing", "[sim][bytes]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.fetch_staged(1);
  auto before = s.gpu.now();

  s.copies.settle();
  s.stage(8);

  CHECK(s.gpu.now() == before);
  CHECK(s.gpu.races().size() == 1);
  s.finish();
}

TEST_CASE("a discarded range holds poison once the stream got there", "[sim][bytes]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.fetch_staged(1);
  s.copies.discard(s.slot.bytes().first(256), {"discard"});

  s.copies.synchronize(streamed_slot::done_edge);

  CHECK(s.seen() == poison_value);
  CHECK(std::to_integer<int>(s.slot.bytes().back()) == 7);
}

TEST_CASE("a test can run one operation at a time", "[sim][bytes]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.fetch_staged(1);
  s.copies.record(s.ready);
  s.compute.wait(s.ready, streamed_slot::ready_edge);
  s.compute.discard(s.slot.bytes(), {"discard"});

  CHECK_FALSE(s.gpu.step(s.compute.id()));
  CHECK(s.gpu.step(s.copies.id()));
  CHECK(s.seen() == 7);
  CHECK(s.gpu.step(s.compute.id()));
  CHECK(s.seen() == poison_value);
  CHECK_FALSE(s.gpu.step(s.copies.id()));
  s.finish();
}

TEST_CASE("work of a destroyed stream still runs", "[sim][bytes]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  {
    stream brief{s.gpu, "brief"};
    brief.copy({s.slot.bytes(), s.staging.bytes(), memory_kind::device, memory_kind::pinned, {}});
    brief.record(s.ready);
  }

  s.compute.wait(s.ready, streamed_slot::ready_edge);
  s.compute.synchronize(streamed_slot::done_edge);

  CHECK(s.seen() == 7);
  CHECK(s.gpu.races().empty());
}

TEST_CASE("what nobody settles is held back up to a limit", "[sim][bytes]") {
  auto options = sim_options{};
  options.pending_limit = 4;
  streamed_slot s{options};
  s.stage(7);
  s.fetch_staged(1);
  for (int i = 0; i < 4; ++i)
    s.compute.mark({"mark"});

  CHECK(s.seen() == 7);
  s.finish();
}

TEST_CASE("memory of the wrong kind is refused", "[sim][bytes]") {
  streamed_slot s{sim_options{}};
  std::array<std::byte, 256> ordinary{};
  auto target = s.slot.bytes().first(256);

  CHECK_THROWS_WITH(s.copies.copy({target, ordinary, memory_kind::device, memory_kind::pinned, {}}),
                    Catch::Contains("not inside one allocation of pinned memory"));
  CHECK_THROWS_WITH(
      s.copies.copy({ordinary, ordinary, memory_kind::device, memory_kind::pageable, {}}),
      Catch::Contains("not inside one allocation of device memory"));
  CHECK_THROWS_WITH(s.copies.copy({target, target, memory_kind::device, memory_kind::pageable, {}}),
                    Catch::Contains("said to be host memory but is device block 1"));
}

TEST_CASE("use of released memory is refused", "[sim][bytes]") {
  streamed_slot s{sim_options{}};
  auto gone = s.gpu.allocate(memory_kind::device, 256);
  s.gpu.release(memory_kind::device, gone);
  auto reads = std::array{const_bytes{gone}};

  CHECK_THROWS_WITH(s.compute.compute({reads, {}, {}, {}}),
                    Catch::Contains("device block 3, which was released"));
}

TEST_CASE("allocations and counters say what is held", "[sim]") {
  sim_device gpu{sim_options{}};
  memory_block kept{gpu, memory_kind::device, 300};
  {
    memory_block brief{gpu, memory_kind::device, 200};
  }
  memory_block pinned{gpu, memory_kind::pinned, 100};

  auto counters = gpu.counters();
  auto held = gpu.allocations();

  CHECK(counters.allocations == 3);
  CHECK(counters.device_bytes == 300);
  CHECK(counters.peak_device_bytes == 500);
  CHECK(counters.pinned_bytes == 100);
  REQUIRE(held.size() == 2);
  CHECK(held[0].number == 1);
  CHECK(held[0].block.data() == kept.bytes().data());
  CHECK(held[1].kind == memory_kind::pinned);
}

TEST_CASE("without contents nothing is touched", "[sim]") {
  auto options = sim_options{};
  options.contents = false;
  options.memory = std::size_t{1} << 40;
  sim_device gpu{options};
  memory_block huge{gpu, memory_kind::device, std::size_t{1} << 38};
  memory_block source{gpu, memory_kind::pinned, std::size_t{1} << 30};
  stream copies{gpu, "copy"};

  copies.copy({huge.bytes().first(source.size()),
               source.bytes(),
               memory_kind::device,
               memory_kind::pinned,
               {}});
  copies.synchronize({});

  CHECK(gpu.counters().h2d_bytes == source.size());
  CHECK(gpu.now() == 2us + nanoseconds{std::llround(double(source.size()) / 25)});
}

struct recorder final : operation_observer {
  void on_operation(const operation_span& span) override { operations.push_back(span.tag.what); }
  void on_stream(stream_id, std::string_view name) override { streams.emplace_back(name); }
  std::vector<std::string> operations;
  std::vector<std::string> streams;
};

TEST_CASE("an observer is told of streams at once and of operations once timed", "[sim]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.fetch_staged(1);
  recorder seen;
  s.gpu.attach(seen);
  stream late{s.gpu, "late"};
  s.copies.mark({"first"});
  s.copies.synchronize(streamed_slot::done_edge);
  late.mark({"second"});

  s.gpu.detach(seen);

  CHECK_THAT(seen.streams,
             Catch::UnorderedEquals(std::vector<std::string>{"copy", "compute", "late"}));
  CHECK(seen.operations == std::vector<std::string>{"first", "second"});
}

/// A correct ring of one slot: three edges, each needed.
bool stream_four_blocks(sim_device& gpu) {
  constexpr std::size_t size = 256;
  memory_block slot{gpu, memory_kind::device, size};
  memory_block staging{gpu, memory_kind::pinned, size};
  stream copies{gpu, "copy"};
  stream compute{gpu, "compute"};
  event ready{gpu};
  event last_use{gpu};
  auto right = true;
  for (std::uint32_t block = 1; block <= 4; ++block) {
    ready.synchronize({"host waits for the staged copy"});
    gpu.host_write(staging.bytes(), {"stage", block});
    std::ranges::fill(staging.bytes(), std::byte(block));
    copies.wait(last_use, {"copy waits for the last use"});
    copies.copy({slot.bytes(),
                 staging.bytes(),
                 memory_kind::device,
                 memory_kind::pinned,
                 {"fetch", block}});
    copies.record(ready);
    compute.wait(ready, {"compute waits for the copy"});
    auto reads = std::array{const_bytes{slot.bytes()}};
    compute.compute({reads, {}, {}, {"use", block}});
    compute.settle();
    right = right && slot.bytes().front() == std::byte(block);
    compute.discard(slot.bytes(), {"discard", block});
    compute.record(last_use);
  }
  compute.synchronize({"host waits for the end"});
  return right;
}

TEST_CASE("every edge of a correct ring is needed", "[sim][edges]") {
  CHECK(test::with_each_edge_removed(sim_options{}, stream_four_blocks) == 4);
}

TEST_CASE("a stream knows nothing of one that was destroyed before it was created", "[sim]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  {
    stream brief{s.gpu, "brief"};
    brief.copy({s.slot.bytes(), s.staging.bytes(), memory_kind::device, memory_kind::pinned, {}});
  }
  stream next{s.gpu, "next"};
  auto reads = std::array{const_bytes{s.slot.bytes()}};

  next.compute({reads, {}, {}, {"use"}});
  next.settle();

  CHECK(s.seen() == poison_value);
  CHECK(s.gpu.races().size() == 1);
  s.gpu.run();
}

} // namespace
} // namespace ferry
