// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/sim_device.hpp>

#include "platform/streamed_slot.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using test::streamed_slot;
using namespace std::chrono_literals;

/// One byte takes one nanosecond and nothing else takes any time.
sim_options plain_clock() {
  auto options = sim_options{};
  options.h2d_bandwidth = 1e9;
  options.d2h_bandwidth = 1e9;
  options.launch = 0ns;
  options.hop = 0ns;
  options.contents = false;
  return options;
}

std::vector<std::string> in_words(const std::vector<timeline_entry>& entries) {
  std::vector<std::string> lines;
  for (const auto& entry : entries)
    lines.push_back(entry.stream + " " + std::to_string(entry.number) + " " + entry.span.tag.what +
                    " " + std::to_string(entry.span.enqueued.count()) + " " +
                    std::to_string(entry.span.start.count()) + " " +
                    std::to_string(entry.span.end.count()));
  return lines;
}

TEST_CASE("an operation starts when its stream, its waits and its caller have come so far",
          "[sim][time]") {
  auto options = sim_options{};
  options.h2d_bandwidth = 1e9;
  options.launch = 3us;
  options.latency = 1us;
  streamed_slot s{options};
  s.stage(1);
  s.fetch_staged(1);
  s.copies.record(s.ready);
  s.compute.wait(s.ready, streamed_slot::ready_edge);
  s.compute.compute({{}, {}, 10us, {"use"}});
  s.compute.compute({{}, {}, 10us, {"use"}});

  CHECK(in_words(s.gpu.timeline()) == std::vector<std::string>{"copy 1 fetch 3000 3000 4512",
                                                               "compute 1 use 6000 6000 16000",
                                                               "compute 2 use 9000 16000 26000"});
  s.finish();
}

TEST_CASE("synchronizing moves the host's time to the end, enqueuing by the launch cost",
          "[sim][time]") {
  streamed_slot s{sim_options{}};
  s.compute.compute({{}, {}, 1ms, {}});
  CHECK(s.gpu.now() == 2us);

  s.compute.synchronize(streamed_slot::done_edge);
  CHECK(s.gpu.now() == 1002us);

  s.compute.synchronize(streamed_slot::done_edge);
  CHECK(s.gpu.now() == 1002us);
}

TEST_CASE("a host thread takes as long for what it writes as the model says", "[sim][time]") {
  auto options = plain_clock();
  options.host_bandwidth = 2e9;
  streamed_slot s{options};

  s.gpu.host_write(s.staging.bytes(), {"stage"});

  CHECK(s.gpu.now() == nanoseconds{s.staging.size() / 2});
}

TEST_CASE("copies from memory that is not pinned take as long as the model says", "[sim][time]") {
  auto options = plain_clock();
  options.pageable_bandwidth = 0.5e9;
  streamed_slot s{options};
  const std::vector<std::byte> ordinary(s.slot.size());

  s.fetch(1, ordinary, memory_kind::pageable);
  s.copies.synchronize(streamed_slot::done_edge);
  const auto slow = s.gpu.now();
  s.fetch_staged(1);
  s.copies.synchronize(streamed_slot::done_edge);

  CHECK(slow == nanoseconds{2 * s.slot.size()});
  CHECK(s.gpu.now() - slow == nanoseconds{s.slot.size()});
  s.finish();
}

TEST_CASE("a compute announced without duration takes what the model says", "[sim][time]") {
  auto options = sim_options{};
  options.compute = 7ms;
  streamed_slot s{options};
  s.compute.compute({});

  s.compute.synchronize(streamed_slot::done_edge);

  CHECK(s.gpu.now() == 7ms + 2us);
}

TEST_CASE("a message brings its sender's time and a hop", "[sim][time]") {
  sim_device gpu{sim_options{}};
  host_thread receiver{gpu, "receiver"};
  gpu.spend(100us);
  auto message = gpu.stamp();
  gpu.spend(1ms);

  host_thread::scope acting{receiver, message};

  CHECK(gpu.now() == 105us);
}

TEST_CASE("a message from the past moves no clock", "[sim][time]") {
  sim_device gpu{sim_options{}};
  host_thread receiver{gpu, "receiver"};
  auto message = gpu.stamp();

  host_thread::scope acting{receiver};
  gpu.spend(1ms);
  gpu.observe(message);

  CHECK(gpu.now() == 1ms);
}

TEST_CASE("a thread that is created knows what its creator knew", "[sim][time]") {
  streamed_slot s{sim_options{}};
  s.gpu.spend(50us);
  s.stage(1);
  host_thread child{s.gpu, "child"};

  host_thread::scope acting{child};
  s.fetch_staged(1);

  CHECK(s.gpu.now() == 52us);
  CHECK(s.gpu.races().empty());
  s.finish();
}

TEST_CASE("copies of one direction queue on their link in the order of their arrival",
          "[sim][time]") {
  sim_device gpu{plain_clock()};
  memory_block slots{gpu, memory_kind::device, 3000};
  memory_block source{gpu, memory_kind::pinned, 3000};
  stream first{gpu, "first"};
  stream second{gpu, "second"};
  stream back{gpu, "back"};
  auto copy = [&](stream& on, std::size_t at, std::size_t bytes) {
    on.copy({slots.bytes().subspan(at, bytes),
             source.bytes().subspan(at, bytes),
             memory_kind::device,
             memory_kind::pinned,
             {"in"}});
  };

  first.compute({{}, {}, 100ns, {"delay"}});
  copy(first, 0, 1000);
  copy(second, 1000, 500);
  back.copy({source.bytes().subspan(2000, 400),
             slots.bytes().subspan(2000, 400),
             memory_kind::pinned,
             memory_kind::device,
             {"out"}});

  CHECK(in_words(gpu.timeline()) ==
        std::vector<std::string>{"back 1 out 0 0 400", "first 1 delay 0 0 100",
                                 "second 1 in 0 0 500", "first 2 in 0 500 1500"});
  gpu.run();
}

TEST_CASE("a query that answers no takes time, so that polling ends", "[sim][time]") {
  streamed_slot s{sim_options{}};
  s.compute.compute({{}, {}, 20us, {}});
  s.compute.record(s.last_use);
  auto asked = 0;
  while (!s.last_use.ready())
    ++asked;

  CHECK(asked == 10);
  CHECK(s.gpu.now() == 22us);
}

TEST_CASE("a query that answers yes orders what follows", "[sim][time]") {
  streamed_slot s{sim_options{}};
  s.stage(1);
  s.fetch_staged(1);
  s.copies.record(s.ready);
  s.gpu.advance(1ms);

  REQUIRE(s.ready.ready());
  CHECK(s.seen() == 1);
  s.stage(2);

  CHECK(s.gpu.races().empty());
}

TEST_CASE("jitter is drawn from the seed around the plain duration", "[sim][time]") {
  auto options = plain_clock();
  options.jitter = 0.5;
  options.seed = 11;
  auto total = nanoseconds::zero();
  auto shortest = nanoseconds::max();
  sim_device gpu{options};
  memory_block slot{gpu, memory_kind::device, 10000};
  memory_block source{gpu, memory_kind::pinned, 10000};
  stream copies{gpu, "copy"};
  for (int i = 0; i < 4000; ++i)
    copies.copy({slot.bytes(), source.bytes(), memory_kind::device, memory_kind::pinned, {}});
  auto entries = gpu.timeline();
  for (const auto& entry : entries) {
    total += entry.span.end - entry.span.start;
    shortest = std::min(shortest, entry.span.end - entry.span.start);
  }

  CHECK(double(total.count()) / 4000 == Approx(10000).epsilon(0.03));
  CHECK(shortest > 0ns);
  CHECK(entries.front().span.end == 6235ns);
}

/// The recurrence of the schedule model: start(k) = max(link free, done(k - S)), and so on.
struct shape {
  std::vector<std::int64_t> transfer;
  std::vector<std::int64_t> compute;
  std::size_t slots;
};
std::vector<std::int64_t> ends_by_recurrence(const shape& of) {
  std::vector<std::int64_t> done;
  std::int64_t link_free = 0;
  std::int64_t computed = 0;
  for (std::size_t k = 0; k < of.transfer.size(); ++k) {
    auto start = std::max(link_free, k < of.slots ? 0 : done[k - of.slots]);
    link_free = start + of.transfer[k];
    computed = std::max(computed, link_free) + of.compute[k];
    done.push_back(computed);
  }
  return done;
}

std::vector<std::int64_t> ends_by_device(const shape& of) {
  constexpr std::size_t largest = 5000;
  sim_device gpu{plain_clock()};
  memory_block device_memory{gpu, memory_kind::device, largest * of.slots};
  memory_block source{gpu, memory_kind::pinned, largest};
  stream copies{gpu, "copy"};
  stream compute{gpu, "compute"};
  std::vector<std::unique_ptr<event>> ready;
  std::vector<std::unique_ptr<event>> last_use;
  for (std::size_t i = 0; i < of.slots; ++i) {
    ready.push_back(std::make_unique<event>(gpu));
    last_use.push_back(std::make_unique<event>(gpu));
  }
  for (std::size_t k = 0; k < of.transfer.size(); ++k) {
    auto i = k % of.slots;
    auto slot = device_memory.bytes().subspan(i * largest, std::size_t(of.transfer[k]));
    copies.wait(*last_use[i], {"reuse"});
    copies.copy({slot,
                 source.bytes().first(slot.size()),
                 memory_kind::device,
                 memory_kind::pinned,
                 {"fetch"}});
    copies.record(*ready[i]);
    compute.wait(*ready[i], {"ready"});
    auto reads = std::array{const_bytes{slot}};
    compute.compute({reads, {}, nanoseconds{of.compute[k]}, {"use"}});
    compute.record(*last_use[i]);
  }
  compute.synchronize({"end"});
  std::vector<std::int64_t> ends;
  for (const auto& entry : gpu.timeline()) {
    if (entry.span.kind == operation_kind::compute)
      ends.push_back(entry.span.end.count());
  }
  CHECK(gpu.races().empty());
  return ends;
}

TEST_CASE("the schedule of a ring equals the recurrence to the nanosecond", "[sim][time]") {
  auto seed = GENERATE(range(1U, 33U));
  INFO("seed " << seed);
  auto random = std::mt19937{seed};
  auto draw = [&](unsigned least, unsigned most) {
    return static_cast<std::int64_t>(least + random() % (most - least + 1));
  };
  shape tried;
  tried.slots = std::size_t(draw(1, 5));
  auto blocks = std::size_t(draw(1, 120));
  for (std::size_t k = 0; k < blocks; ++k) {
    tried.transfer.push_back(draw(1, 5000));
    tried.compute.push_back(draw(1, 5000));
  }

  CHECK(ends_by_device(tried) == ends_by_recurrence(tried));
}

/// Returns when the host thread that feeds `left` sees its copy end. Another thread, of which it
/// knows nothing, has fed the same link: before it asks, or not yet.
nanoseconds end_of_left(bool other_was_faster) {
  sim_device gpu{plain_clock()};
  memory_block slots{gpu, memory_kind::device, 2000};
  memory_block source{gpu, memory_kind::pinned, 2000};
  stream left{gpu, "left"};
  stream right{gpu, "right"};
  host_thread other{gpu, "other"};
  auto copy = [&](stream& on, std::size_t at) {
    on.copy({slots.bytes().subspan(at, 1000),
             source.bytes().subspan(at, 1000),
             memory_kind::device,
             memory_kind::pinned,
             {"fetch"}});
  };
  gpu.spend(1ns);
  copy(left, 0);
  if (other_was_faster) {
    host_thread::scope acting{other};
    copy(right, 1000);
  }
  left.synchronize({"end"});
  auto end = gpu.now();
  gpu.run();
  right.synchronize({"end"});
  return end;
}

TEST_CASE("what a thread does not know to be enqueued does not move its clock", "[sim][time]") {
  CHECK(end_of_left(true) == end_of_left(false));
}

void dawdle(std::mt19937& random) {
  for (auto left = random() % 64; left > 0; --left)
    std::this_thread::yield();
}

/// Two threads that know nothing of each other feed one link; a third joins them. `pace` decides
/// how long each real thread dawdles before each call.
std::vector<std::string> times_with_threads(unsigned pace) {
  auto options = plain_clock();
  options.seed = 5;
  options.jitter = 0.3;
  options.launch = 7ns;
  options.hop = 13ns;
  sim_device gpu{options};
  memory_block slots{gpu, memory_kind::device, 2000};
  memory_block source{gpu, memory_kind::pinned, 2000};
  stream left{gpu, "left"};
  stream right{gpu, "right"};
  host_thread left_thread{gpu, "left"};
  host_thread right_thread{gpu, "right"};
  causal_stamp left_done;
  causal_stamp right_done;
  auto feed = [&](const host_thread& who, stream& on, std::size_t at, causal_stamp& done,
                  unsigned own_pace) {
    auto random = std::mt19937{own_pace};
    host_thread::scope acting{who};
    for (int i = 0; i < 40; ++i) {
      dawdle(random);
      on.copy({slots.bytes().subspan(at, 1000),
               source.bytes().subspan(at, 1000),
               memory_kind::device,
               memory_kind::pinned,
               {"fetch"}});
      if (i % 3 == 0)
        on.compute({{}, {}, 450ns, {"use"}});
    }
    done = gpu.stamp();
  };
  {
    auto first =
        std::thread(feed, std::cref(left_thread), std::ref(left), 0, std::ref(left_done), pace);
    auto second = std::thread(feed, std::cref(right_thread), std::ref(right), 1000,
                              std::ref(right_done), pace + 100);
    first.join();
    second.join();
  }
  gpu.observe(left_done);
  gpu.observe(right_done);
  left.synchronize({"end"});
  right.synchronize({"end"});
  auto lines = in_words(gpu.timeline());
  lines.push_back("end " + std::to_string(gpu.now().count()));
  return lines;
}

TEST_CASE("times do not depend on how real threads were scheduled", "[sim][time]") {
  auto pace = GENERATE(2U, 3U, 4U, 5U, 6U);
  INFO("pace " << pace);

  CHECK(times_with_threads(pace) == times_with_threads(1));
}

} // namespace
} // namespace ferry
