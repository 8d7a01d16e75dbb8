// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/event.hpp>

#include "gpu/kernels.hpp"
#include "gpu/rig.hpp"
#include "gpu/slow_gpu.hpp"
#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/failing_device.hpp"
#include "support/faults.hpp"

#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::byte_blocks;
using test::first_gpu;
using test::kernel_blocks;
using test::model_streams;
using test::slow_gpu;
using test::slowness;

constexpr auto slow = 2ms;

/// A runtime over the first GPU, and a model that computes on streams of its own.
struct gpu_run {
  gpu_run(const byte_blocks& blocks, slowness how, std::size_t slots, std::size_t streams = 1)
      : gpu(std::make_shared<slow_gpu>(first_gpu(), how)),
        callers(std::make_shared<model_streams>(*gpu, streams)), model(*gpu, blocks, *callers),
        subject(gpu, {.slots = slots, .callers = callers, .acquire_deadline = 10s}) {
    REQUIRE(subject.start());
    enable(blocks);
  }

  void enable(const byte_blocks& blocks) {
    auto opened = subject.enable(blocks.pinned(*gpu));
    REQUIRE(opened);
    gate = *opened;
  }

  std::shared_ptr<slow_gpu> gpu;
  std::shared_ptr<model_streams> callers;
  kernel_blocks model;
  runtime subject;
  std::shared_ptr<block_gate> gate;
};

/// Returns how many of 4096 bytes compute finds wrong that a slow copy is to bring.
unsigned long long wrong_after_a_slow_copy(bool compute_waits) {
  const auto gpu = first_gpu();
  model_streams streams{*gpu, 1};
  const memory_block slot{*gpu, memory_kind::device, 4096};
  const memory_block source{*gpu, memory_kind::pinned, 4096};
  const memory_block wrong{*gpu, memory_kind::device, sizeof(unsigned long long)};
  const memory_block told{*gpu, memory_kind::pinned, sizeof(unsigned long long)};
  stream copies{*gpu, "copies"};
  event copied{*gpu};
  std::memset(source.bytes().data(), 1, source.size());
  auto* on = gpu->native_stream(streams.current());
  test::fill(on, slot.bytes().data(), slot.size(), 0xff);
  test::fill(on, wrong.bytes().data(), wrong.size(), 0);
  streams.synchronize();

  test::spin(gpu->native_stream(copies.id()), 50ms);
  copies.copy({.target = slot.bytes(), .source = source.bytes()});
  copies.record(copied);
  if (compute_waits)
    gpu->wait(streams.current(), copied.id(), {"test_copied"});
  test::count_others(on, slot.bytes().data(), slot.size(), 1,
                     reinterpret_cast<unsigned long long*>(wrong.bytes().data()));
  streams.synchronize();
  copies.copy({.target = told.bytes(),
               .source = wrong.bytes(),
               .to = memory_kind::pinned,
               .from = memory_kind::device});
  copies.synchronize({"test_end"});
  return *reinterpret_cast<const unsigned long long*>(told.bytes().data());
}

TEST_CASE("a copy that compute does not wait for shows as wrong bytes on a GPU", "[gpu]") {
  CHECK(wrong_after_a_slow_copy(false) == 4096);
}

TEST_CASE("a copy that compute waits for is all there on a GPU, however slow", "[gpu]") {
  CHECK(wrong_after_a_slow_copy(true) == 0);
}

TEST_CASE("on a GPU the bytes do not depend on which of copy and compute is slow, nor on the slots",
          "[gpu][B01][B07]") {
  const auto how = GENERATE(slowness{}, slowness{.copy = slow}, slowness{.compute = slow},
                            slowness{.copy = slow, .compute = slow});
  const auto slots = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{3});
  const byte_blocks blocks{{5}, 1};
  gpu_run run{blocks, how, slots};

  REQUIRE(run.subject.begin_request());
  run.model.run_all(*run.gate, 3);
  REQUIRE(run.subject.end_request());

  CHECK(run.model.wrong_bytes() == 0);
  CHECK(run.subject.disable());
}

TEST_CASE("on a GPU a slot's last use is that of the stream it was used on, of several",
          "[gpu][B02]") {
  const auto how = GENERATE(slowness{.copy = slow}, slowness{.compute = slow});
  const byte_blocks blocks{{5}, 0};
  gpu_run run{blocks, how, 2, 3};

  REQUIRE(run.subject.begin_request());
  for (std::size_t i = 0; i != 30; ++i) {
    run.model.run(*run.gate, i % 5);
    run.callers->change();
  }
  REQUIRE(run.subject.end_request());

  CHECK(run.model.wrong_bytes() == 0);
  CHECK(run.subject.disable());
}

TEST_CASE("on a GPU device memory is given back behind every copy and every use", "[gpu][B03]") {
  const auto how = GENERATE(slowness{.copy = 5ms}, slowness{.compute = 5ms});
  const byte_blocks blocks{{4}, 1};
  gpu_run run{blocks, how, 2};
  const auto taken = run.gpu->counters().device_bytes;
  run.model.run(*run.gate, 0);
  REQUIRE(run.subject.disable());
  const auto left = run.gpu->counters().device_bytes;

  {
    const memory_block other{*run.gpu, memory_kind::device, taken - left};
    test::fill(run.gpu->native_stream(run.callers->current()), other.bytes().data(), other.size(),
               7);
    run.callers->synchronize();
  }
  run.enable(blocks);
  run.model.run_all(*run.gate, 2);

  CHECK(run.model.wrong_bytes() == 0);
  CHECK(run.gpu->counters().d2h_bytes == sizeof(unsigned long long));
  CHECK(run.subject.disable());
}

TEST_CASE("on a GPU a steady step allocates nothing and holds up no host thread",
          "[gpu][hot_path]") {
  const byte_blocks blocks{{6}, 0};
  gpu_run run{blocks, {}, 2};
  REQUIRE(run.subject.begin_request());
  run.model.run_all(*run.gate, 2);
  const auto before = run.gpu->forbidden_calls();

  run.model.run_all(*run.gate, 20);

  CHECK(run.gpu->forbidden_calls() == before);
  REQUIRE(run.subject.end_request());
  CHECK(run.model.wrong_bytes() == 0);
}

TEST_CASE("whatever call of a GPU fails, a run ends with an error and everything is given back",
          "[gpu][faults]") {
  const auto gpu = first_gpu();
  const auto failing = std::make_shared<test::failing_device>(gpu);
  const byte_blocks blocks{{4}, 1};
  const auto callers = std::make_shared<model_streams>(*gpu, 1);
  kernel_blocks model{*gpu, blocks, *callers};
  const auto before = gpu->counters();

  const auto tried = test::at_every_fault_point(
      *failing,
      [&] {
        runtime subject{failing, {.slots = 2, .callers = callers, .acquire_deadline = 5s}};
        auto ok = subject.start().has_value();
        const auto gate = subject.enable(blocks.pinned(*failing));
        ok = gate && subject.begin_request() && ok;
        if (gate) {
          try {
            model.run_all(**gate, 2);
          } catch (const ferry_error&) {
            ok = false;
          }
        }
        ok = subject.end_request() && ok;
        ok = subject.disable() && ok;
        return subject.stop(10s) && ok;
      },
      [&] {
        const auto left = gpu->counters();
        CHECK(left.device_bytes == before.device_bytes);
        CHECK(left.pinned_bytes == before.pinned_bytes);
        CHECK(left.streams == before.streams);
        CHECK(left.events == before.events);
      });

  CHECK(tried > 50);
}

} // namespace
} // namespace ferry
