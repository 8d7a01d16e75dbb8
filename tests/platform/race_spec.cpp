// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/race.hpp>

#include "platform/streamed_slot.hpp"
#include "sim/shadow.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::poison_value;
using test::streamed_slot;

TEST_CASE("a copy that nobody waited for is a race and the slot holds poison", "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.fetch_staged(3);
  s.copies.record(s.ready);

  auto seen = s.use(3);

  CHECK(seen == poison_value);
  REQUIRE(s.gpu.races().size() == 1);
  auto found = s.gpu.races().front();
  CHECK(found.first.kind == "copy");
  CHECK(found.first.tag.block == 3);
  CHECK(found.second.kind == "compute");
  CHECK(found.missing_edge ==
        "'compute' must wait for an event recorded on 'copy' after operation 1");
  s.finish();
}

TEST_CASE("a copy that was waited for is no race and the slot holds its bytes", "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.fetch_staged(3);
  s.copies.record(s.ready);
  s.compute.wait(s.ready, streamed_slot::ready_edge);

  auto seen = s.use(3);

  CHECK(seen == 7);
  s.finish();
  CHECK(s.gpu.races().empty());
}

/// Uses the slot for two blocks in turn. Returns the races and what the second use saw.
struct two_uses {
  std::vector<race> races;
  int seen;
};
two_uses use_twice(std::uint64_t seed, bool wait_for_last_use) {
  auto options = sim_options{};
  options.seed = seed;
  streamed_slot s{options};
  memory_block other{s.gpu, memory_kind::pinned, streamed_slot::size};
  s.gpu.host_write(other.bytes(), {"stage"});
  std::ranges::fill(other.bytes(), std::byte{2});
  s.stage(1);

  s.fetch_staged(1);
  s.copies.record(s.ready);
  s.compute.wait(s.ready, streamed_slot::ready_edge);
  (void)s.use(1);
  s.compute.discard(s.slot.bytes(), {"discard", 1});
  s.compute.record(s.last_use);
  if (wait_for_last_use)
    s.copies.wait(s.last_use, streamed_slot::reuse_edge);
  s.fetch(2, other.bytes(), memory_kind::pinned);
  s.copies.record(s.ready);
  s.compute.wait(s.ready, streamed_slot::ready_edge);
  auto seen = s.use(2);
  s.finish();
  return {s.gpu.races(), seen};
}

TEST_CASE("a slot reused before its last use is a race", "[sim][race]") {
  auto shown = use_twice(1, false);

  REQUIRE(shown.races.size() >= 1);
  CHECK(shown.races.front().second.tag.block == 2);
  CHECK(shown.races.front().missing_edge ==
        "'copy' must wait for an event recorded on 'compute' after operation 2");
}

TEST_CASE("a slot reused before its last use holds poison for some seeds and not for others",
          "[sim][race]") {
  std::vector<int> seen;
  for (std::uint64_t seed = 1; seed <= 16; ++seed)
    seen.push_back(use_twice(seed, false).seen);

  CHECK_THAT(seen, Catch::VectorContains(poison_value));
  CHECK_THAT(seen, Catch::VectorContains(2));
}

TEST_CASE("a slot reused after its last use is no race for any seed", "[sim][race]") {
  auto seed = GENERATE(range(1, 17));
  auto shown = use_twice(static_cast<std::uint64_t>(seed), true);

  CHECK(shown.races.empty());
  CHECK(shown.seen == 2);
}

TEST_CASE("an event recorded before the copy orders nothing", "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.copies.record(s.ready);
  s.fetch_staged(3);
  s.compute.wait(s.ready, streamed_slot::ready_edge);

  auto seen = s.use(3);

  CHECK(seen == poison_value);
  CHECK(s.gpu.races().size() == 1);
  s.finish();
}

TEST_CASE("a wait on the wrong stream orders nothing", "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.fetch_staged(3);
  s.copies.record(s.ready);
  s.copies.wait(s.ready, streamed_slot::ready_edge);

  auto seen = s.use(3);

  CHECK(seen == poison_value);
  CHECK(s.gpu.races().size() == 1);
  s.finish();
}

TEST_CASE("a wait stays with the record that was current when it was made", "[sim][race]") {
  streamed_slot s{sim_options{}};
  memory_block other{s.gpu, memory_kind::device, streamed_slot::size};
  s.stage(7);
  s.copies.record(s.ready);
  s.compute.wait(s.ready, streamed_slot::ready_edge);
  s.fetch_staged(3);
  s.copies.record(s.ready);

  CHECK(s.use(3) == poison_value);
  CHECK(s.gpu.races().size() == 1);
  s.finish();
}

TEST_CASE("an event that was recorded again does not stand for its old record", "[sim][race]") {
  streamed_slot s{sim_options{}};
  stream elsewhere{s.gpu, "elsewhere"};
  s.stage(7);
  s.fetch_staged(3);
  s.copies.record(s.ready);
  elsewhere.record(s.ready);
  s.compute.wait(s.ready, streamed_slot::ready_edge);

  CHECK(s.use(3) == poison_value);
  CHECK(s.gpu.races().size() == 1);
  s.finish();
}

TEST_CASE("staging overwritten under a copy is a race and the copy takes the new bytes",
          "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.stage(1);
  s.fetch_staged(1);
  s.stage(2);
  s.copies.record(s.ready);
  s.compute.wait(s.ready, streamed_slot::ready_edge);

  auto seen = s.use(1);

  CHECK(seen == 2);
  REQUIRE(s.gpu.races().size() == 1);
  auto found = s.gpu.races().front();
  CHECK(found.second.kind == "host write");
  CHECK_THAT(found.missing_edge, Contains("must synchronize with 'copy' after operation 1"));
  s.finish();
}

TEST_CASE("staging overwritten after the host has seen the copy end is no race", "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.stage(1);
  s.fetch_staged(1);
  s.copies.record(s.ready);
  s.ready.synchronize(streamed_slot::done_edge);
  s.stage(2);
  s.compute.wait(s.ready, streamed_slot::ready_edge);

  auto seen = s.use(1);

  CHECK(seen == 1);
  s.finish();
  CHECK(s.gpu.races().empty());
}

TEST_CASE("a slot given back under a compute is a race", "[sim][race]") {
  streamed_slot s{sim_options{}};
  auto extra = std::optional<memory_block>(std::in_place, s.gpu, memory_kind::device, 256);
  auto reads = std::array{const_bytes{extra->bytes()}};
  s.compute.compute({reads, {}, {}, {"use", 4}});

  extra.reset();

  REQUIRE(s.gpu.races().size() == 1);
  CHECK(s.gpu.races().front().second.kind == "release");
  CHECK(s.gpu.races().front().place == "device block 3, bytes 0 to 256");
  s.finish();
}

TEST_CASE("a slot given back after the compute was seen to end is no race", "[sim][race]") {
  streamed_slot s{sim_options{}};
  auto extra = std::optional<memory_block>(std::in_place, s.gpu, memory_kind::device, 256);
  auto reads = std::array{const_bytes{extra->bytes()}};
  s.compute.compute({reads, {}, {}, {"use", 4}});
  s.compute.synchronize(streamed_slot::done_edge);

  extra.reset();

  CHECK(s.gpu.races().empty());
}

TEST_CASE("a source given back under a copy is a race and the copy brings poison", "[sim][race]") {
  streamed_slot s{sim_options{}};
  auto size = GENERATE(std::size_t{512}, std::size_t{8} << 20);
  auto source = std::optional<memory_block>(std::in_place, s.gpu, memory_kind::pinned, size);
  std::ranges::fill(source->bytes(), std::byte{5});
  s.fetch(5, source->bytes().first(512), memory_kind::pinned);

  source.reset();
  s.copies.synchronize(streamed_slot::done_edge);

  CHECK(s.seen() == poison_value);
  CHECK(s.gpu.races().size() == 1);
}

TEST_CASE("a host read of what a copy brings back needs a synchronize", "[sim][race]") {
  streamed_slot s{sim_options{}};
  auto synchronized = GENERATE(false, true);
  s.stage(9);
  s.fetch_staged(1);
  s.copies.synchronize(streamed_slot::done_edge);
  std::array<std::byte, streamed_slot::size> result{};
  s.copies.copy({result, s.slot.bytes(), memory_kind::pageable, memory_kind::device, {"result"}});
  if (synchronized)
    s.copies.synchronize(streamed_slot::done_edge);

  s.gpu.host_read(result, {"result"});

  CHECK(s.gpu.races().size() == (synchronized ? 0U : 1U));
  CHECK(std::to_integer<int>(result[0]) == (synchronized ? 9 : 0));
  s.finish();
}

TEST_CASE("host threads that share memory need a message", "[sim][race]") {
  streamed_slot s{sim_options{}};
  host_thread writer{s.gpu, "writer"};
  host_thread worker{s.gpu, "worker"};
  auto told = GENERATE(false, true);

  auto message = causal_stamp{};
  {
    host_thread::scope acting{writer};
    s.stage(7);
    message = told ? s.gpu.stamp() : causal_stamp{};
  }
  {
    host_thread::scope acting{worker, message};
    s.fetch_staged(1);
  }

  auto races = s.gpu.races();
  REQUIRE(races.size() == (told ? 0U : 1U));
  CHECK((told || races.front().missing_edge ==
                     "host thread 'worker' must be told by 'writer', by a message sent after its "
                     "access 1"));
  s.finish();
}

TEST_CASE("reads of the same bytes do not conflict", "[sim][race]") {
  streamed_slot s{sim_options{}};
  memory_block other{s.gpu, memory_kind::device, streamed_slot::size};
  s.stage(7);
  s.fetch_staged(1);
  s.compute.wait(s.ready, streamed_slot::ready_edge);
  stream second{s.gpu, "second copy"};

  second.copy({other.bytes(), s.staging.bytes(), memory_kind::device, memory_kind::pinned, {}});

  CHECK(s.gpu.races().empty());
  s.finish();
  second.synchronize(streamed_slot::done_edge);
}

TEST_CASE("a write conflicts with every read that it is not ordered after", "[sim][race]") {
  streamed_slot s{sim_options{}};
  memory_block other{s.gpu, memory_kind::device, streamed_slot::size};
  stream second{s.gpu, "second copy"};
  s.stage(7);
  s.fetch_staged(1);
  second.copy({other.bytes(), s.staging.bytes(), memory_kind::device, memory_kind::pinned, {}});
  second.synchronize(streamed_slot::done_edge);

  s.stage(8);

  REQUIRE(s.gpu.races().size() == 1);
  CHECK(s.gpu.races().front().first.where == "copy");
  s.finish();
}

TEST_CASE("history is kept until everybody knows it", "[sim][race]") {
  sim_device gpu{sim_options{}};
  memory_block slot{gpu, memory_kind::device, 256};
  stream copies{gpu, "copy"};
  std::vector<std::byte> host(10000);
  for (std::size_t i = 0; i < host.size(); ++i)
    copies.copy({slot.bytes().first(1),
                 const_bytes{host}.subspan(i, 1),
                 memory_kind::device,
                 memory_kind::pageable,
                 {}});

  gpu.host_write(mutable_bytes{host}.first(1), {"overwrite"});

  REQUIRE(gpu.races().size() == 1);
  CHECK(gpu.races().front().first.number == 1);
  copies.synchronize({"end"});
}

TEST_CASE("history that everybody knows is dropped", "[sim][race]") {
  sim::shadow_memory shadow;
  sim::vector_clock everybody;
  std::vector<sim::conflict> conflicts;
  for (std::uintptr_t at = 0; at < 10; ++at) {
    auto access = sim::access_record{};
    access.begin = at;
    access.end = at + 1;
    access.when = everybody.tick(0);
    shadow.enter(std::make_shared<const sim::access_record>(access), everybody, conflicts);
  }

  auto all_but_three = sim::vector_clock{};
  all_but_three.raise({0, 7});
  shadow.forget_known(all_but_three);

  CHECK(shadow.cells() == 3);
}

TEST_CASE("accesses to neighbouring bytes do not conflict", "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  stream second{s.gpu, "second copy"};
  auto half = streamed_slot::size / 2;

  s.copies.copy({s.slot.bytes().first(half),
                 s.staging.bytes().first(half),
                 memory_kind::device,
                 memory_kind::pinned,
                 {}});
  second.copy({s.slot.bytes().last(half),
               s.staging.bytes().last(half),
               memory_kind::device,
               memory_kind::pinned,
               {}});

  CHECK(s.gpu.races().empty());
  s.finish();
  second.synchronize(streamed_slot::done_edge);
}

TEST_CASE("a race names the bytes that both touch", "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  stream second{s.gpu, "second copy"};

  s.copies.copy({s.slot.bytes().first(300),
                 s.staging.bytes().first(300),
                 memory_kind::device,
                 memory_kind::pinned,
                 {}});
  second.copy({s.slot.bytes().subspan(100),
               s.staging.bytes().subspan(100),
               memory_kind::device,
               memory_kind::pinned,
               {}});

  REQUIRE(s.gpu.races().size() == 1);
  CHECK(s.gpu.races().front().place == "device block 1, bytes 100 to 300");
  CHECK(s.gpu.races().front().second.bytes == 412);
  s.finish();
  second.synchronize(streamed_slot::done_edge);
}

TEST_CASE("a race report names both operations, the missing edge and the seed", "[sim][race]") {
  auto options = sim_options{};
  options.seed = 77;
  streamed_slot s{options};
  s.stage(7);
  s.fetch_staged(3);

  (void)s.use(3);

  CHECK(
      describe(s.gpu.races().at(0)) ==
      "race on device block 1, bytes 0 to 512:\n"
      "  first:  copy 'fetch' of block 3, writing 512 bytes, operation 1 on stream 'copy', issued "
      "by 'thread 1'\n"
      "  second: compute 'use' of block 3, reading 512 bytes, operation 1 on stream 'compute', "
      "issued by 'thread 1'\n"
      "  missing: 'compute' must wait for an event recorded on 'copy' after operation 1\n"
      "  known of 'copy': nothing\n"
      "  seed 77");
  s.finish();
}

TEST_CASE("a race says how far the second side knew the stream of the first", "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.stage(7);
  s.copies.mark({"first"});
  s.copies.mark({"second"});
  s.copies.record(s.ready);
  s.copies.mark({"third"});
  s.fetch_staged(3);
  s.compute.wait(s.ready, streamed_slot::ready_edge);

  (void)s.use(3);

  CHECK(s.gpu.races().at(0).first.number == 4);
  CHECK(s.gpu.races().at(0).known == 2);
  CHECK_THAT(describe(s.gpu.races().at(0)), Contains("known of 'copy': operations up to 2"));
  s.finish();
}

TEST_CASE("races beyond the limit are counted and not kept", "[sim][race]") {
  auto options = sim_options{};
  options.race_limit = 2;
  streamed_slot s{options};
  s.stage(7);
  s.fetch_staged(3);

  (void)s.use(3);
  (void)s.use(3);
  (void)s.use(3);

  CHECK(s.gpu.races().size() == 2);
  CHECK(s.gpu.race_count() == 3);
  s.finish();
}

TEST_CASE("an edge that is forgotten is found missing", "[sim][race]") {
  streamed_slot s{sim_options{}};
  s.gpu.forget(streamed_slot::ready_edge.name);
  s.stage(7);
  s.fetch_staged(3);
  s.copies.record(s.ready);
  s.compute.wait(s.ready, streamed_slot::ready_edge);

  CHECK(s.use(3) == poison_value);
  CHECK(s.gpu.races().size() == 1);
  CHECK(s.gpu.edges_seen() == std::vector<std::string>{streamed_slot::ready_edge.name});
  s.finish();
}

} // namespace
} // namespace ferry
