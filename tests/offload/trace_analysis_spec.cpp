// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/trace_analysis.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace ferry {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t copy_row = 4;
constexpr std::uint32_t compute_row = 3;

/// A trace in the making. Each block comes under the ticket that is its number plus one, unless
/// said otherwise. Times in milliseconds.
class story {
public:
  story& copy(std::uint32_t block, double start, double end, double enqueued = 0,
              std::uint32_t rank = 0, std::uint64_t bytes = 0) {
    made_.device.push_back({.rank = rank,
                            .track = copy_row,
                            .kind = operation_kind::copy,
                            .what = "fetch",
                            .block = block,
                            .ticket = block + 1,
                            .bytes = bytes != 0 ? bytes : bytes_of(end - start),
                            .enqueued = at(enqueued),
                            .start = at(start),
                            .end = at(end)});
    return *this;
  }
  story& gather(std::uint32_t rank, std::uint32_t block, double start, double end,
                double enqueued = 0) {
    made_.device.push_back({.rank = rank,
                            .track = 5,
                            .kind = operation_kind::gather,
                            .what = "gather",
                            .block = block,
                            .ticket = block + 1,
                            .bytes = 1,
                            .enqueued = at(enqueued),
                            .start = at(start),
                            .end = at(end)});
    return *this;
  }
  story& use(std::uint32_t block, double asked, double begun, double ended,
             std::uint32_t rank = 0) {
    made_.uses.push_back({rank, compute_row, block, block + 1, at(asked), at(begun), at(ended)});
    return *this;
  }
  story& message(std::string_view what, std::uint32_t block, std::uint32_t slot, double sent,
                 double started, bool demanded = false) {
    made_.messages.push_back({.track = 9,
                              .what = what,
                              .block = block,
                              .ticket = what == "demand_block" ? 0u : block + 1u,
                              .slot = slot,
                              .demanded = demanded,
                              .sent = at(sent),
                              .started = at(started),
                              .finished = at(started)});
    return *this;
  }
  story& pack(std::uint32_t block, double started, double finished) {
    made_.messages.push_back({.track = 10,
                              .what = "pack_piece",
                              .block = block,
                              .sent = at(started),
                              .started = at(started),
                              .finished = at(finished)});
    return *this;
  }
  story& disk(double when, std::uint64_t read) {
    made_.counters.push_back({.rank = 0, .what = disk_counter, .at = at(when), .value = read});
    return *this;
  }
  story& drop(std::uint64_t spans) {
    made_.dropped = spans;
    return *this;
  }
  story& mark(std::string_view what, double when) {
    made_.marks.push_back({0, compute_row, what, at(when)});
    return *this;
  }
  /// One use with its copy, which ends as the use begins.
  story& fetched_use(std::uint32_t block, std::uint64_t ticket, double copied_from, double asked,
                     double begun, double ended) {
    copy(block, copied_from, begun);
    made_.device.back().ticket = ticket;
    use(block, asked, begun, ended);
    made_.uses.back().ticket = ticket;
    return *this;
  }

  [[nodiscard]] trace_report report() {
    made_.sort();
    return analyse(made_);
  }

private:
  static nanoseconds at(double milliseconds) {
    return nanoseconds{std::llround(milliseconds * 1e6)};
  }
  /// What the link takes that time for.
  static std::uint64_t bytes_of(double milliseconds) {
    return static_cast<std::uint64_t>(milliseconds * 1e6);
  }

  trace made_;
};

/// Returns the last late block. @pre there is one
late_block last_late(story& told) {
  const auto report = told.report();
  REQUIRE_FALSE(report.late.empty());
  return report.late.back();
}

TEST_CASE("waits, bodies and copies are added up, by rank and by block",
          "[offload][trace_analysis]") {
  const auto report = story{}
                          .copy(0, 0, 2)
                          .copy(1, 2, 6)
                          .use(0, 0, 2, 5)
                          .use(1, 5, 6, 9)
                          .mark(mark_step_begins, 0)
                          .mark(mark_step_ended, 9)
                          .report();

  REQUIRE(report.ranks.size() == 1);
  const auto& rank = report.ranks[0];
  CHECK(rank.overlap.exposed_wait == 3ms);
  CHECK(rank.overlap.compute == 6ms);
  CHECK(rank.overlap.transfer == 6ms);
  CHECK(rank.elapsed == 9ms);
  CHECK(rank.link_use() == Approx(6.0 / 9));
  CHECK(rank.distance_to_bound() == Approx(0.5));
  CHECK(rank.steps == 1);
  REQUIRE(report.blocks.size() == 2);
  CHECK(report.blocks[1].transfer == 4ms);
  CHECK(report.blocks[1].wait == 1ms);
  CHECK(report.blocks[1].late == 1);
}

TEST_CASE(
    "what a step runs between streamed blocks is compute of its own, and costs time by the model",
    "[offload][trace_analysis]") {
  story told;
  told.mark(mark_step_begins, 0);
  // Block, 3 ms of a resident one, block, 3 ms: copies of 5 ms.
  told.fetched_use(0, 1, 0, 0, 5, 6).fetched_use(2, 2, 5, 9, 10, 11);
  told.mark(mark_step_ended, 14);

  const auto report = told.report();

  const auto& rank = report.ranks.at(0);
  CHECK(rank.overlap.compute == 8ms);
  CHECK(rank.overlap.exposed_wait == 6ms);
  CHECK(rank.overlap.lower_bound() == 10ms);
  REQUIRE(report.late.size() == 2);
  CHECK(report.late[1].advice ==
        "resident: 1 more block (by the model a step takes 8.00 ms instead of 10.00 ms)");
}

TEST_CASE("no bound is above what was observed, whatever came before the first block was asked for",
          "[offload][trace_analysis]") {
  const auto report =
      story{}.copy(0, 0, 5).copy(1, 5, 10).use(0, 4, 5, 6).use(1, 6, 10, 11).report();

  const auto& rank = report.ranks.at(0);
  CHECK(rank.overlap.transfer == 10ms);
  CHECK(rank.overlap.lower_bound() == 6ms);
  CHECK(rank.distance_to_bound() == Approx(1.0 / 6));
}

TEST_CASE("a gather counts from when the last rank came to it", "[offload][trace_analysis]") {
  const auto report = story{}
                          .copy(0, 0, 1, 0, 0)
                          .copy(0, 0, 4, 3, 1, 1'000'000)
                          .gather(0, 0, 1, 5, 1)
                          .gather(1, 0, 4, 5, 4)
                          .use(0, 1, 5, 6, 0)
                          .use(0, 5, 5, 6, 1)
                          .report();

  CHECK(report.ranks.at(0).overlap.gather == 1ms);
  CHECK(report.ranks.at(0).overlap.lower_bound() == 1ms);
}

/// Returns how long it takes to look at so many uses of one block under one ticket.
std::chrono::duration<double> time_to_look_at(int uses) {
  story told;
  for (int i = 0; i != uses; ++i)
    told.copy(0, i, i + 0.5).use(0, i, i + 0.5, i + 1);
  const auto begun = std::chrono::steady_clock::now();
  CHECK(std::ssize(told.report().late) == uses);
  return std::chrono::steady_clock::now() - begun;
}

TEST_CASE("ten times as many uses of one block under one ticket take hardly more than ten times as "
          "long to look at",
          "[offload][trace_analysis]") {
  const auto few = std::min(time_to_look_at(4'000), time_to_look_at(4'000));
  CHECK(time_to_look_at(40'000) < 40 * few); // It would be a hundred times.
}

TEST_CASE("what was run to warm up holds others up and does not count itself",
          "[offload][trace_analysis]") {
  story told;
  told.mark(mark_warm_up_begins, 0).copy(0, 0, 2).copy(1, 2, 9).use(0, 0, 2, 3);
  told.mark(mark_warm_up_ended, 5).copy(2, 9, 11, 5).use(2, 6, 11, 12);

  const auto report = told.report();

  CHECK(report.ranks.at(0).overlap.blocks == 1);
  CHECK(report.ranks.at(0).overlap.transfer == 2ms);
  CHECK(report.ranks.at(0).elapsed == 6ms);
  REQUIRE(report.blocks.size() == 1);
  REQUIRE(report.late.size() == 1);
  CHECK(report.late[0].cause == wait_cause::link_busy);
  CHECK(report.late[0].by_block == 1);
}

TEST_CASE("a trace without a block says so with zeros", "[offload][trace_analysis]") {
  const auto report = story{}.mark(mark_step_ended, 1).report();

  CHECK(report.late.empty());
  CHECK(report.blocks.empty());
}

TEST_CASE("a wait that is nothing beside the body makes no late block",
          "[offload][trace_analysis]") {
  CHECK(story{}.copy(0, 0, 1).use(0, 0.991, 1, 2).report().late.empty());
  CHECK(story{}.copy(0, 0, 1).use(0, 0.9995, 1, 1.01).report().late.empty());
  CHECK(story{}.copy(0, 0, 1).use(0, 0.98, 1, 2).report().late.size() == 1);
}

TEST_CASE("a block whose copy came behind another one's was late because the link was busy",
          "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 2)
                                  .copy(1, 2, 4)
                                  .copy(2, 4, 6)
                                  .use(0, 2, 2, 3)
                                  .use(1, 3, 4, 5)
                                  .use(2, 5, 6, 7));

  CHECK(late.block == 2);
  CHECK(late.wait == 1ms);
  CHECK(late.cause == wait_cause::link_busy);
  CHECK(late.by_block == 1);
}

TEST_CASE("a link that was busy with no block names none", "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 2)
                                  .copy(operation_tag::no_block, 2, 4)
                                  .copy(1, 4, 6)
                                  .use(0, 2, 2, 5)
                                  .use(1, 5, 6, 7));

  CHECK(late.cause == wait_cause::link_busy);
  CHECK_FALSE(late.by_block.has_value());
}

TEST_CASE("a block whose slot another one held was late because of it",
          "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 1)
                                  .copy(1, 1, 2)
                                  .copy(2, 6, 8)
                                  .use(0, 1, 1, 6)
                                  .use(1, 6, 6, 7)
                                  .use(2, 7, 8, 9));

  CHECK(late.block == 2);
  CHECK(late.cause == wait_cause::slot_held);
  CHECK(late.by_block == 0);
}

TEST_CASE("the message that freed the slot tells whose it was", "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 1)
                                  .copy(1, 1, 2)
                                  .copy(2, 6.1, 8)
                                  .use(0, 1, 1, 6)
                                  .use(1, 6, 6, 6.05)
                                  .use(2, 6.05, 8, 9)
                                  .message("block_released", 0, 0, 1, 1)
                                  .message("block_released", 1, 1, 2, 2)
                                  .message("fetch_block", 2, 0, 1, 1));

  CHECK(late.cause == wait_cause::slot_held);
  CHECK(late.by_block == 0);
}

TEST_CASE("a block that was fetched on demand was demanded late", "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 1)
                                  .copy(7, 2, 4)
                                  .copy(1, 4, 6, 3)
                                  .use(0, 1, 1, 3)
                                  .use(1, 3, 6, 7)
                                  .message("demand_block", 1, 0, 3, 3)
                                  .message("fetch_block", 1, 1, 3, 3, true));

  CHECK(late.cause == wait_cause::demanded_late);
  CHECK(late.why.find("nothing had been submitted ahead") != std::string::npos);
}

TEST_CASE("the first block has nothing to hide behind", "[offload][trace_analysis]") {
  const auto late = last_late(story{}.copy(0, 0, 1).use(0, 0, 1, 3));

  CHECK(late.cause == wait_cause::demanded_late);
  CHECK(late.why.find("it is the first") == 0);
}

TEST_CASE("a block whose fetch lay in a mailbox was late because of the message",
          "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 1)
                                  .copy(1, 1, 2)
                                  .copy(2, 5, 6, 5)
                                  .use(0, 1, 1, 2)
                                  .use(1, 2, 2, 4)
                                  .use(2, 4, 6, 7)
                                  .message("block_released", 0, 0, 0.5, 0.6)
                                  .message("fetch_block", 2, 0, 0.6, 5));

  CHECK(late.cause == wait_cause::message_late);
  CHECK(late.why == "'fetch_block' waited 4.400 ms for its actor");
}

TEST_CASE("a block whose gather waited for another rank was late because of that rank",
          "[offload][trace_analysis]") {
  const auto report = story{}
                          .copy(0, 0, 1, 0, 0)
                          .copy(0, 0, 4, 3, 1, 1'000'000)
                          .gather(0, 0, 4, 5)
                          .gather(1, 0, 4, 5)
                          .use(0, 1, 5, 6, 0)
                          .use(0, 5, 5, 6, 1)
                          .report();

  REQUIRE(report.late.size() == 1);
  CHECK(report.late[0].rank == 0);
  CHECK(report.late[0].cause == wait_cause::rank_late);
  CHECK(report.late[0].by_rank == 1);
  CHECK(report.late[0].why == "its gather waited 3.000 ms for rank 1");
}

TEST_CASE("a block behind another one's gather was late because of that",
          "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 1)
                                  .copy(1, 1, 2)
                                  .gather(0, 0, 1, 4)
                                  .gather(0, 1, 4, 7)
                                  .use(0, 4, 4, 5)
                                  .use(1, 5, 7, 8));

  CHECK(late.cause == wait_cause::link_busy);
  CHECK(late.by_block == 0);
  CHECK(late.why.find("ranks were gathering 'block 0'") == 0);
}

TEST_CASE("a block whose bytes came slower than others' had a cold source",
          "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 1)
                                  .copy(1, 1, 2)
                                  .copy(2, 2, 6, 0, 0, 1'000'000)
                                  .use(0, 1, 1, 2)
                                  .use(1, 2, 2, 3)
                                  .use(2, 3, 6, 7));

  CHECK(late.cause == wait_cause::source_cold);
  CHECK(late.why == "its copy took 4.000 ms, where its bytes usually take 1.000 ms");
}

TEST_CASE("a copy that was slow while no disk was read was slow by itself",
          "[offload][trace_analysis]") {
  const auto late = [](std::vector<std::pair<double, std::uint64_t>> reads) {
    story told;
    told.copy(0, 0, 1).copy(1, 1, 2).copy(2, 2, 6, 0, 0, 1'000'000);
    for (const auto& [when, bytes] : reads)
      told.disk(when, bytes);
    return last_late(told.use(0, 1, 1, 2).use(1, 2, 2, 3).use(2, 3, 6, 7));
  };
  const std::string slow = "its copy took 4.000 ms, where its bytes usually take 1.000 ms, and ";

  const auto first = late({{6.5, 3 << 20}});
  CHECK(first.cause == wait_cause::source_cold); // Since the beginning.
  const auto cached = late({{0, 0}, {1.9, 3 << 20}});
  CHECK(cached.cause == wait_cause::copy_slow);
  CHECK(cached.why == slow + "no read of a disk was counted meanwhile");
  CHECK(cached.advice.find("a processor core") != std::string::npos);
  const auto read = late({{0, 0}, {1.9, 3 << 20}, {5, 4 << 20}, {7, 6 << 20}});
  CHECK(read.cause == wait_cause::source_cold);
  CHECK(read.why == slow + "up to 3.0 MiB were read from a disk meanwhile");
}

TEST_CASE("a block that was packed while the link idled had a cold source",
          "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 1)
                                  .copy(1, 1, 2)
                                  .copy(1, 5, 6)
                                  .pack(1, 0.5, 1)
                                  .pack(1, 1, 5)
                                  .use(0, 1, 1, 2)
                                  .use(1, 2, 6, 7));

  CHECK(late.cause == wait_cause::source_cold);
  CHECK(late.why == "packing it on the host left the link idle for 3.000 ms");
}

TEST_CASE("a late block whose copy is not in the trace says that", "[offload][trace_analysis]") {
  CHECK(last_late(story{}.copy(0, 0, 1).use(0, 1, 1, 2).use(1, 2, 3, 4)).cause ==
        wait_cause::not_recorded);
}

TEST_CASE("tickets that count from 1 again do not mix up the fetches",
          "[offload][trace_analysis]") {
  const auto report =
      story{}.copy(0, 0, 1).use(0, 1, 1, 2).copy(0, 10, 11, 10).use(0, 10, 11, 12).report();

  REQUIRE(report.blocks.size() == 1);
  CHECK(report.blocks[0].transfer == 1ms);
  CHECK(report.blocks[0].uses == 2);
}

/// A step of eight blocks that run `passes` times, each bound by the link: their copies take 2 ms,
/// their bodies 1 ms.
story link_bound(int passes) {
  story told;
  told.mark(mark_step_begins, 0);
  for (int i = 0; i != 8 * passes; ++i) {
    const auto ready = 2.0 * (i + 1);
    const auto before = i == 0 ? 0 : 2.0 * i + 1;
    told.fetched_use(static_cast<std::uint32_t>(i % 8), static_cast<std::uint64_t>(i + 1),
                     ready - 2, before, ready, ready + 1);
  }
  told.mark(mark_step_ended, 16.0 * passes + 1);
  return told;
}

TEST_CASE("a step bound by the link is told how many blocks to keep", "[offload][trace_analysis]") {
  auto told = link_bound(1);

  CHECK(last_late(told).advice ==
        "resident: 4 more blocks, spread (by the model a step takes 8.00 ms instead of 16.00 ms)");
}

TEST_CASE("a step whose blocks ranks gather is not told to keep any", "[offload][trace_analysis]") {
  const auto late = last_late(story{}
                                  .copy(0, 0, 1)
                                  .copy(1, 1, 2)
                                  .gather(0, 0, 1, 4)
                                  .gather(0, 1, 4, 7)
                                  .use(0, 4, 4, 5)
                                  .use(1, 5, 7, 8));

  CHECK(late.cause == wait_cause::link_busy);
  CHECK(late.advice == "fewer bytes or a faster link: by the model nothing in the configuration "
                       "makes a step of 6.00 ms shorter");
}

TEST_CASE("ranks that gather more slowly than they copy alone are told so",
          "[offload][trace_analysis]") {
  story told;
  for (std::uint32_t rank = 0; rank != 2; ++rank)
    told.copy(0, 0, 1, 0, rank)
        .copy(1, 1, 2, 0, rank)
        .gather(rank, 0, 1, 5)
        .gather(rank, 1, 5, 9)
        .use(0, 5, 5, 6, rank)
        .use(1, 6, 9, 10, rank);

  CHECK(last_late(told).advice ==
        "take weight_transfer rank-local if each rank has a link of its own (by the model a step "
        "takes 4.00 ms instead of 8.00 ms)");
}

TEST_CASE("a block that waited for what comes once is told nothing that would not help",
          "[offload][trace_analysis]") {
  const auto late =
      last_late(story{}.copy(operation_tag::no_block, 0, 4).copy(0, 4, 6).use(0, 1, 6, 7));

  CHECK(late.cause == wait_cause::link_busy);
  CHECK(late.advice ==
        "nothing: what the link was busy with is no block's and comes once, not in every step");
}

TEST_CASE("a step that takes what its compute takes is told nothing to change",
          "[offload][trace_analysis]") {
  story told;
  told.mark(mark_step_begins, 0);
  told.fetched_use(0, 1, 0, 0, 2, 6).fetched_use(1, 2, 2, 6, 6.1, 10.1);
  told.copy(2, 6.1, 8).use(2, 10.1, 10.1, 14.1);
  told.mark(mark_step_ended, 14.1);

  CHECK(last_late(told).advice ==
        "nothing: by the model a step takes 12.10 ms, which its compute takes; the wait is of its "
        "beginning");
}

TEST_CASE("a late block is advised by a step of its own denoiser", "[offload][trace_analysis]") {
  story told;
  told.mark(mark_step_begins, 0);
  told.fetched_use(0, 1, 0, 0, 2, 3).fetched_use(1, 2, 2, 3, 4, 5);
  told.mark(mark_step_ended, 5).mark(mark_step_begins, 5);
  told.fetched_use(10, 3, 4, 5, 8, 9).fetched_use(11, 4, 8, 9, 12, 13);
  told.mark(mark_step_ended, 13);

  const auto report = told.report();

  REQUIRE(report.late.size() == 4);
  CHECK(report.late[1].block == 1);
  CHECK(report.late[1].advice ==
        "resident: 1 more block (by the model a step takes 2.00 ms instead of 4.00 ms)");
  CHECK(report.late[3].advice ==
        "resident: 2 more blocks, spread (by the model a step takes 2.00 ms instead of 8.00 ms)");
}

TEST_CASE("where a rank's gather was dropped no other one is taken for it",
          "[offload][trace_analysis]") {
  const auto dropped = GENERATE(0, 1);
  story told;
  // Rank 1 came 1 ms late to the first gather of block 0 and at once to the second.
  told.copy(0, 0, 1, 0, 0).gather(0, 0, 2, 3).use(0, 2, 3, 4, 0);
  told.copy(0, 10, 11, 10, 0).gather(0, 0, 11, 14, 11).use(0, 11, 14, 15, 0);
  told.copy(0, 10, 11, 10, 1).gather(1, 0, 11, 14, 11);
  told.drop(static_cast<std::uint64_t>(dropped));

  const auto report = told.report();

  const auto blames = [&](const late_block& each) { return each.cause == wait_cause::rank_late; };
  CHECK(std::ranges::any_of(report.late, blames) == (dropped == 0));
}

TEST_CASE("a block that no step uses is not told to stay alone", "[offload][trace_analysis]") {
  story told;
  told.fetched_use(90, 91, 0, 0, 2, 3).fetched_use(91, 92, 2, 3, 4, 5);
  told.mark(mark_step_begins, 5);
  told.fetched_use(0, 1, 4, 5, 6, 7).fetched_use(1, 2, 6, 7, 8, 9);
  told.mark(mark_step_ended, 9);

  const auto report = told.report();

  REQUIRE(report.late.size() == 4);
  CHECK(report.late[0].advice.find("leave it out of the configuration's components") !=
        std::string::npos);
  CHECK(report.late[1].advice ==
        "keep its component on the device: leave it out of the configuration's components");
  CHECK(report.late[3].advice.find("resident: ") == 0);
}

TEST_CASE(
    "a copy that could have begun earlier and was asked for in time has no cause in the trace",
    "[offload][trace_analysis]") {
  const auto late =
      last_late(story{}.copy(0, 0, 1).copy(1, 2.5, 3.5, 0.5).use(0, 1, 1, 3).use(1, 3, 3.5, 4.5));

  CHECK(late.cause == wait_cause::not_recorded);
  CHECK(late.why == "its copy was enqueued in time, and began 1.500 ms after it could");
}

TEST_CASE("two guidance branches bound by the link are told to share a weight pass",
          "[offload][trace_analysis]") {
  auto told = link_bound(2);

  CHECK(last_late(told).advice == "share one weight pass between the two guidance branches: "
                                  "--passes-per-fetch 2 (by the model a step takes 16.00 ms "
                                  "instead of 32.00 ms)");
}

TEST_CASE("blocks of turning lengths are told to use another slot", "[offload][trace_analysis]") {
  story told;
  told.mark(mark_step_begins, 0);
  // One slot: every copy waits for the body before.
  for (int i = 0; i != 4; ++i)
    told.fetched_use(static_cast<std::uint32_t>(i), static_cast<std::uint64_t>(i + 1), 2.0 * i,
                     2.0 * i, 2.0 * i + 1, 2.0 * i + 2)
        .message("block_released", static_cast<std::uint32_t>(i), 0, 0, 0)
        .message("fetch_block", static_cast<std::uint32_t>(i), 0, 0, 0);
  told.mark(mark_step_ended, 8);

  const auto late = last_late(told);

  CHECK(late.cause == wait_cause::slot_held);
  CHECK(late.advice ==
        "2 slots instead of 1 (by the model a step takes 4.00 ms instead of 8.00 ms)");
}

} // namespace
} // namespace ferry
