// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/faults.hpp"
#include "support/null_device.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::byte_blocks;

std::size_t threads_alive() {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;)
    if (word == "Threads:") {
      std::size_t count = 0;
      status >> count;
      return count;
    }
  return 0;
}

/// A thread that was let go is still counted until the kernel has done with it.
bool threads_return_to(std::size_t count) {
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (threads_alive() > count && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  return threads_alive() <= count;
}

std::shared_ptr<sim_device> make_gpu() {
  return std::make_shared<sim_device>(sim_options{});
}

TEST_CASE("a runtime needs a device, slots and workers", "[actors][runtime]") {
  CHECK_THROWS_WITH((runtime{nullptr, {}}), Catch::Contains("needs a device"));
  CHECK_THROWS_WITH((runtime{make_gpu(), {.slots = 0}}), Catch::Contains("slots is 0"));
  CHECK_THROWS_WITH((runtime{make_gpu(), {.worker_threads = 0}}),
                    Catch::Contains("worker_threads is 0"));
}

TEST_CASE("calls on a runtime that is not started fail and say so", "[actors][runtime]") {
  runtime subject{make_gpu(), {}};

  CHECK(subject.begin_request().error().code == errc::not_enabled);
  CHECK(subject.state().error().code == errc::not_enabled);
  CHECK(subject.stop(1s));
}

TEST_CASE("a runtime can be stopped twice and started again", "[actors][runtime]") {
  runtime subject{make_gpu(), {}};

  CHECK(subject.start());
  CHECK(subject.start().error().code == errc::already_enabled);
  CHECK(subject.stop(10s));
  CHECK(subject.stop(10s));
  CHECK(subject.start());
}

TEST_CASE("a start that fails leaves nothing behind and may be repeated", "[actors][runtime]") {
  const auto gpu = make_gpu();
  runtime subject{gpu, {}};
  gpu->inject({.call = device_call::create_stream});

  CHECK(subject.start().error().code == errc::device_failure);

  CHECK(gpu->counters().streams == 0);
  CHECK(subject.start());
}

TEST_CASE("runtimes that come and go leave no thread", "[actors][runtime][B106]") {
  const auto before = threads_alive();

  for (int i = 0; i != 50; ++i) {
    runtime subject{make_gpu(), {}};
    REQUIRE(subject.start());
  }

  CHECK(threads_return_to(before));
}

TEST_CASE("a runtime is gone promptly although a hundred prefetches are queued",
          "[actors][runtime][B105]") {
  const auto before = threads_alive();
  const byte_blocks blocks{{200}, 0};
  const auto gpu = std::make_shared<test::null_device>();

  {
    runtime subject{gpu, {.slots = 100, .stop_deadline = 2s}};
    REQUIRE(subject.start());
    const auto gate = subject.enable(blocks.weights());
    REQUIRE(gate);
    for (std::uint32_t i = 0; i != 100; ++i)
      static_cast<void>((*gate)->acquire(block_id{i}));
    for (std::uint32_t i = 0; i != 100; ++i)
      (*gate)->release(block_id{i});
  }

  CHECK(threads_return_to(before));
  CHECK(gpu->counters().device_bytes == 0);
}

TEST_CASE("a stop that the model holds up names the block, and the next one succeeds",
          "[actors][runtime]") {
  const byte_blocks blocks{{4}, 0};
  runtime subject{make_gpu(), {}};
  REQUIRE(subject.start());
  const auto gate = subject.enable(blocks.weights());
  REQUIRE(gate);
  static_cast<void>((*gate)->acquire(block_id{2}));

  const auto stopped = subject.stop(2s);

  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == errc::deadline_exceeded);
  CHECK_THAT(stopped.error().detail, Catch::Contains("offloader") && Catch::Contains("blocks.2"));
  (*gate)->release(block_id{2});
  CHECK(subject.stop(10s));
}

TEST_CASE("threads that have started and called the runtime may outlive it", "[actors][runtime]") {
  std::promise<void> called;
  std::promise<void> gone;
  auto subject = std::make_unique<runtime>(make_gpu(), runtime_options{});
  std::thread other([&] {
    static_cast<void>(subject->start());
    static_cast<void>(subject->state());
    called.set_value();
    gone.get_future().wait();
  });
  called.get_future().wait();

  REQUIRE(subject->state());
  REQUIRE(subject->stop(10s)); // Would wait for the other thread to end.

  subject = nullptr;
  gone.set_value();
  other.join();
}

TEST_CASE("a stop disables what is enabled", "[actors][runtime]") {
  const byte_blocks blocks{{4}, 1};
  const auto gpu = make_gpu();
  runtime subject{gpu, {}};
  REQUIRE(subject.start());
  const auto gate = subject.enable(blocks.weights());
  REQUIRE(gate);

  REQUIRE(subject.stop(10s));

  CHECK(gpu->counters().device_bytes == 0);
  CHECK(gpu->race_count() == 0);
}

TEST_CASE("a gate may outlive its backend and its runtime, and then fails", "[actors][runtime]") {
  const byte_blocks blocks{{4}, 0};
  std::shared_ptr<block_gate> gate;
  {
    runtime subject{make_gpu(), {}};
    REQUIRE(subject.start());
    gate = *subject.enable(blocks.weights());
    REQUIRE(subject.disable());
    CHECK_THROWS_AS(gate->acquire(block_id{0}), ferry_error);
  }

  CHECK_THROWS_AS(gate->acquire(block_id{0}), ferry_error);
}

TEST_CASE("a copy that fails reaches the model at once, with its block and the first cause",
          "[actors][runtime][B108]") {
  const byte_blocks blocks{{6}, 0};
  const auto gpu = make_gpu();
  runtime subject{gpu, {.acquire_deadline = 10min}};
  REQUIRE(subject.start());
  const auto gate = subject.enable(blocks.weights());
  REQUIRE(gate);
  static_cast<void>((*gate)->acquire(block_id{0}));
  static_cast<void>((*gate)->acquire(block_id{1}));
  gpu->inject({.call = device_call::copy});
  (*gate)->release(block_id{0});
  (*gate)->release(block_id{1});

  CHECK_THROWS_WITH((*gate)->acquire(block_id{2}), Catch::StartsWith("device_failure"));

  CHECK_THROWS_WITH((*gate)->acquire(block_id{0}), Catch::Contains("blocks.2"));
}

TEST_CASE("after a failed copy every call but disable answers with the first cause",
          "[actors][runtime]") {
  const byte_blocks blocks{{6}, 0};
  const auto gpu = make_gpu();
  runtime subject{gpu, {.acquire_deadline = 10min}};
  REQUIRE(subject.start());
  const auto gate = subject.enable(blocks.weights());
  REQUIRE(gate);
  REQUIRE(subject.begin_request());
  gpu->inject({.call = device_call::copy});
  CHECK_THROWS_AS(blocks.run_all(**gate, 2), ferry_error);

  CHECK(subject.end_request().error().code == errc::device_failure);
  CHECK(subject.begin_request().error().code == errc::device_failure);
  CHECK(subject.disable());
  CHECK(subject.enable(blocks.weights()).error().code == errc::device_failure);
  CHECK(subject.state()->first_failure->code == errc::device_failure);
  CHECK(gpu->race_count() == 0);
}

TEST_CASE("a device that is poisoned does not keep the weights", "[actors][runtime]") {
  const byte_blocks blocks{{6}, 0};
  const auto gpu = make_gpu();
  runtime subject{gpu, {.acquire_deadline = 10min}};
  REQUIRE(subject.start());
  const auto gate = subject.enable(blocks.weights());
  REQUIRE(gate);
  gpu->inject({.call = device_call::copy, .effect = fault_effect::sticky});
  CHECK_THROWS_AS(blocks.run_all(**gate, 2), ferry_error);

  CHECK(subject.disable());
  CHECK(gpu->counters().device_bytes == 0);
}

TEST_CASE("weights that do not fit are refused with the least size that works",
          "[actors][runtime]") {
  const byte_blocks blocks{{6}, 1};
  const auto gpu = make_gpu();
  runtime subject{gpu, {.slots = 2, .device_memory = 2000}};
  REQUIRE(subject.start());

  const auto gate = subject.enable(blocks.weights());

  REQUIRE_FALSE(gate);
  CHECK(gate.error().code == errc::out_of_device_memory);
  CHECK(gate.error().detail == "device memory of 2000 bytes is too small: needs at least 3072 "
                               "(512 for what stays + 2 slots of 1280), or 1792 with 1 slot");
  CHECK(gpu->counters().allocations == 0);
}

TEST_CASE("a second enable is refused and changes nothing", "[actors][runtime]") {
  const byte_blocks blocks{{4}, 0};
  runtime subject{make_gpu(), {}};
  REQUIRE(subject.start());
  const auto gate = subject.enable(blocks.weights());
  REQUIRE(gate);

  CHECK(subject.enable(blocks.weights()).error().code == errc::already_enabled);

  CHECK(blocks.run_all(**gate, 1));
}

TEST_CASE("a request runs under the id that was given out for it, which nobody else gets",
          "[actors][runtime]") {
  const byte_blocks blocks{{4}, 0};
  runtime subject{make_gpu(), {}};
  REQUIRE(subject.start());
  REQUIRE(subject.enable(blocks.weights()));
  const auto first = subject.new_request();
  const auto second = subject.new_request();

  REQUIRE(subject.begin_request(second));

  CHECK(first != second);
  CHECK(subject.begin_request(second).error().code == errc::invalid_argument);
  CHECK(subject.cancel_request(first).error().code == errc::not_found);
  CHECK(subject.cancel_request(second));
  CHECK(subject.end_request());
  CHECK(subject.begin_request().value() != second);
  CHECK(subject.end_request());
}

TEST_CASE("a disable is refused during a request and while a block is in use",
          "[actors][runtime]") {
  const byte_blocks blocks{{4}, 0};
  runtime subject{make_gpu(), {}};
  REQUIRE(subject.start());
  const auto gate = subject.enable(blocks.weights());
  REQUIRE(gate);
  static_cast<void>((*gate)->acquire(block_id{0}));
  CHECK(subject.disable().error().code == errc::busy);
  (*gate)->release(block_id{0});
  REQUIRE(subject.begin_request());

  CHECK(subject.disable().error().code == errc::busy);

  CHECK(subject.end_request());
  CHECK(subject.end_request().error().code == errc::not_enabled);
  CHECK(subject.disable());
  CHECK(subject.disable().error().code == errc::not_enabled);
}

} // namespace
} // namespace ferry
