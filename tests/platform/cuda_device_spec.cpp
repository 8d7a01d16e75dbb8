// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/event.hpp>
#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/stream.hpp>

#include "contract/device_rig.hpp"
#include "cuda/calls.hpp"
#include "support/catch.hpp"
#include "support/fake_gpu.hpp"
#include "support/read_only_pages.hpp"
#include "support/standard_error.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

namespace ferry::test {
namespace {

constexpr std::string_view not_on_the_hot_path[] = {"cudaStreamSynchronize",
                                                    "cudaEventSynchronize",
                                                    "cudaEventQuery",
                                                    "cudaMalloc",
                                                    "cudaFree",
                                                    "cudaHostRegister",
                                                    "cudaEventCreateWithFlags",
                                                    "cudaEventElapsedTime",
                                                    "cudaStreamCreateWithFlags",
                                                    "cudaMemGetInfo",
                                                    "cudaSetDevice",
                                                    "cudaThreadExchangeStreamCaptureMode"};

/// What streams blocks from pinned memory through one slot.
struct block_loop {
  explicit block_loop(device& on)
      : slot(on_device(on)), weights(pinned(on, 1)), copies(on, "copies"), ready(on), used(on) {}

  void run(device& on, stream_id compute) {
    copies.wait(used, contract_edge);
    copies.copy(upload(slot, weights));
    copies.record(ready);
    on.wait(compute, ready.id(), contract_edge);
    on.compute(compute, {.tag = {.what = "compute"}});
    on.record(compute, used.id());
  }

  memory_block slot;
  memory_block weights;
  stream copies;
  event ready;
  event used;
};

TEST_CASE("a block on a GPU costs one copy, two waits and two records") {
  fake_gpu gpu;
  block_loop loop(*gpu);
  stream compute(*gpu, "compute");
  gpu.cuda.forget_calls();

  loop.run(*gpu, compute.id());

  CHECK(gpu.work() ==
        call_list{"cudaStreamWaitEvent stream=1 event=3", "cudaMemcpyAsync h2d bytes=4096 stream=1",
                  "cudaEventRecord event=2 stream=1", "cudaStreamWaitEvent stream=4 event=2",
                  "cudaEventRecord event=3 stream=4"});
  compute.synchronize(contract_edge);
}

TEST_CASE("on the caller's stream a block also asks three times whether it is being captured") {
  fake_gpu gpu;
  block_loop loop(*gpu);
  auto* const callers = gpu.cuda.make_stream();
  const auto compute = gpu->adopt_stream(callers, "libtorch");
  gpu.cuda.forget_calls();

  loop.run(*gpu, compute);

  CHECK(gpu->native_stream(compute) == callers);
  CHECK(gpu.work() ==
        call_list{"cudaStreamWaitEvent stream=1 event=3", "cudaMemcpyAsync h2d bytes=4096 stream=1",
                  "cudaEventRecord event=2 stream=1", "cudaStreamIsCapturing stream=4",
                  "cudaStreamWaitEvent stream=4 event=2", "cudaStreamIsCapturing stream=4",
                  "cudaStreamIsCapturing stream=4", "cudaEventRecord event=3 stream=4"});
  gpu.cuda.finish();
  gpu->destroy_stream(compute);
}

TEST_CASE("a hundred blocks on a GPU synchronise, allocate and measure nothing") {
  fake_gpu gpu;
  block_loop loop(*gpu);
  stream compute(*gpu, "compute");
  gpu.cuda.forget_calls();

  for (int i = 0; i < 100; ++i)
    loop.run(*gpu, compute.id());

  for (const auto name : not_on_the_hot_path) {
    INFO(name);
    CHECK(gpu.cuda.count(name) == 0);
  }
  CHECK(gpu.cuda.count("cudaMemcpyAsync") == 100);
  CHECK(gpu->counters().blocking_copies == 0);
  compute.synchronize(contract_edge);
  loop.copies.synchronize(contract_edge);
}

TEST_CASE("the events of a GPU carry no time, and its streams ignore the default one") {
  fake_gpu gpu;

  const event made(*gpu);
  const stream queue(*gpu, "queue");

  CHECK(gpu.work() ==
        call_list{"cudaEventCreateWithFlags flags=2", "cudaStreamCreateWithFlags flags=1"});
}

TEST_CASE("while somebody observes a GPU its timed events are used again and not waited for") {
  fake_gpu gpu;
  block_loop loop(*gpu);
  stream compute(*gpu, "compute");
  recording_observer observer;
  gpu->attach(observer);
  gpu.cuda.forget_calls();

  for (int i = 0; i < 50; ++i) {
    loop.run(*gpu, compute.id());
    CHECK(gpu.cuda.count("cudaEventSynchronize") == 0);
    CHECK(gpu.cuda.count("cudaStreamSynchronize") == 0);
    gpu.cuda.finish();
    gpu.cuda.forget_calls();
    static_cast<void>(loop.ready.ready());
  }

  loop.run(*gpu, compute.id());
  CHECK(gpu.cuda.count("cudaEventCreateWithFlags") == 0);
  compute.synchronize(contract_edge);
  loop.copies.synchronize(contract_edge);
  gpu->detach(observer);
  CHECK(observer.spans_of(operation_kind::copy).size() == 51);
  CHECK(observer.spans_of(operation_kind::compute).size() == 51);
}

TEST_CASE("spans are told to the microsecond however long an observer stays") {
  constexpr auto pause = std::chrono::seconds(10);
  constexpr std::size_t rounds = 400;
  fake_gpu gpu;
  const auto slot = on_device(*gpu);
  const auto weights = pinned(*gpu, 1);
  stream queue(*gpu, "queue");
  recording_observer observer;
  gpu->attach(observer);

  for (std::size_t i = 0; i < rounds; ++i) {
    queue.copy(upload(slot, weights));
    queue.synchronize(contract_edge);
    gpu.cuda.pass(pause);
  }
  gpu->detach(observer);

  const auto told = observer.spans();
  REQUIRE(told.size() == rounds);
  const auto longest =
      std::ranges::max(told, {}, [](const operation_span& each) { return each.end - each.start; });
  CHECK(longest.end - longest.start < std::chrono::microseconds(10));
  const auto apart = told.back().start - told.front().start - (rounds - 1) * pause;
  CHECK(apart >= nanoseconds::zero());
  CHECK(apart < std::chrono::milliseconds(10));
}

TEST_CASE("an observer that comes and goes leaves no event behind, and nobody waits for it") {
  fake_gpu gpu;
  auto* const callers = gpu.cuda.make_stream();
  const auto queue = gpu->adopt_stream(callers, "libtorch");
  recording_observer observer;
  const auto before = gpu.cuda.left();

  gpu->attach(observer);
  gpu->mark(queue, {.what = "reached"});
  gpu->synchronize(queue, contract_edge);
  for (int i = 0; i < 10; ++i)
    gpu.cuda.launch(callers, [] {});
  gpu->mark(queue, {.what = "not reached"});
  gpu->detach(observer);

  CHECK(gpu.cuda.left() == before);
  REQUIRE(observer.spans().size() == 1);
  CHECK(observer.spans()[0].tag.what == std::string("reached"));
  gpu->synchronize(queue, contract_edge);
  gpu->destroy_stream(queue);
}

TEST_CASE("an observer whose clock cannot be set is not attached") {
  const auto* const call = GENERATE("cudaStreamCreateWithFlags", "cudaEventCreateWithFlags",
                                    "cudaEventRecord", "cudaEventSynchronize");
  fake_gpu gpu;
  recording_observer observer;
  const auto refused = [&] {
    gpu.cuda.fail(call, cudaErrorUnknown);
    return failure_of([&] { gpu->attach(observer); });
  };

  CHECK(refused().value().code == errc::device_failure);
  stream queue(*gpu, "queue");
  queue.mark({.what = "mark"});
  queue.synchronize(contract_edge);

  CHECK(observer.streams().empty());
  CHECK(observer.spans().empty());
}

TEST_CASE("a compute on a GPU lasts until the next operation or record on its stream") {
  fake_gpu gpu;
  auto* const callers = gpu.cuda.make_stream();
  const auto queue = gpu->adopt_stream(callers, "libtorch");
  const event done(*gpu);
  recording_observer observer;
  gpu->attach(observer);

  gpu->compute(queue, {.tag = {.what = "first"}});
  for (int i = 0; i < 1000; ++i)
    gpu.cuda.launch(callers, [] {});
  gpu->record(queue, done.id());
  for (int i = 0; i < 1000; ++i)
    gpu.cuda.launch(callers, [] {});
  gpu->synchronize(queue, contract_edge);
  gpu->detach(observer);
  gpu->destroy_stream(queue);

  const auto spans = observer.spans();
  REQUIRE(spans.size() == 1);
  const auto lasted = spans[0].end - spans[0].start;
  CHECK(lasted <= std::chrono::microseconds(1010));
}

// Whose device is current

TEST_CASE("a call leaves the device current that was, and asks no more where it is the right one") {
  fake_gpu gpu({.devices = 2});
  auto& other = gpu.open(1);

  const stream queue(other, "queue");

  CHECK(fake_cuda::current_device() == 0);
  CHECK(gpu.cuda.calls() == call_list{"cudaGetDevice", "cudaSetDevice device=1",
                                      "cudaStreamCreateWithFlags flags=1",
                                      "cudaSetDevice device=0"});
  gpu.cuda.forget_calls();
  const stream mine(*gpu, "queue");
  CHECK(gpu.cuda.calls() == call_list{"cudaGetDevice", "cudaStreamCreateWithFlags flags=1"});
}

TEST_CASE("a call that cannot make its device current leaves the one current that was") {
  fake_gpu gpu({.devices = 2});
  auto& other = gpu.open(1);
  gpu.cuda.fail("cudaSetDevice", cudaErrorDevicesUnavailable);

  const auto refused = failure_of([&] { stream(other, "queue"); });

  CHECK(refused.value().vendor_code == cudaErrorDevicesUnavailable);
  CHECK(fake_cuda::current_device() == 0);
  CHECK(gpu.cuda.pending() == cudaSuccess);
}

TEST_CASE("a host thread has its device current while it acts, and then what it had before") {
  fake_gpu gpu({.devices = 3});
  auto& second = gpu.open(1);
  auto& third = gpu.open(2);
  const host_thread actor(second, "actor");
  const host_thread guest(third, "guest");

  {
    const auto outer = host_thread::scope(actor);
    CHECK(fake_cuda::current_device() == 1);
    {
      const auto inner = host_thread::scope(guest);
      CHECK(fake_cuda::current_device() == 2);
    }
    CHECK(fake_cuda::current_device() == 1);
  }

  CHECK(fake_cuda::current_device() == 0);
}

TEST_CASE("threads that serve two GPUs in turns use each one's streams with that one current") {
  fake_gpu gpu({.devices = 2});
  auto& second = gpu.open(1);
  block_loop of_first(*gpu);
  block_loop of_second(second);
  const stream first_compute(*gpu, "compute");
  const stream second_compute(second, "compute");
  const host_thread first_actor(*gpu, "first");
  const host_thread second_actor(second, "second");
  std::array<bool, 2> kept{};
  std::mutex turn;
  const auto work = [&](int own_device, bool& still_own) {
    fake_cuda::make_current(own_device);
    for (int i = 0; i < 100; ++i) {
      const auto lock = std::scoped_lock(turn);
      const auto first = (i + own_device) % 2 == 0;
      const auto scope = host_thread::scope(first ? first_actor : second_actor);
      (first ? of_first : of_second)
          .run(first ? *gpu : second, first ? first_compute.id() : second_compute.id());
    }
    still_own = fake_cuda::current_device() == own_device;
  };

  auto other = std::thread([&] { work(1, kept[1]); });
  work(0, kept[0]);
  other.join();
  gpu.cuda.finish();

  CHECK(kept == std::array{true, true});
  CHECK(gpu.cuda.count("cudaMemcpyAsync") == 200);
  CHECK(gpu.cuda.misuse() == call_list{});
}

// Captures

TEST_CASE("nothing is enqueued on a stream that is being captured into a graph") {
  fake_gpu gpu;
  const auto slot = on_device(*gpu);
  const auto weights = pinned(*gpu, 1);
  auto* const callers = gpu.cuda.make_stream();
  const auto queue = gpu->adopt_stream(callers, "libtorch");
  const event made(*gpu);
  const std::function<void()> attempts[] = {
      [&] { gpu->copy(queue, upload(slot, weights)); },
      [&] { gpu->compute(queue, {}); },
      [&] { gpu->discard(queue, slot.bytes(), {}); },
      [&] { gpu->mark(queue, {}); },
      [&] { gpu->record(queue, made.id()); },
      [&] { gpu->wait(queue, made.id(), contract_edge); },
      [&] { gpu->gather(queue, {}, 1, [](void*) { FAIL("was asked to enqueue"); }); },
      [&] { gpu->synchronize(queue, contract_edge); }};
  gpu.cuda.begin_capture(callers);
  gpu.cuda.forget_calls();

  for (const auto& attempt : attempts) {
    const auto refused = failure_of(attempt);
    REQUIRE(refused);
    CHECK(refused->code == errc::unsupported);
    CHECK_THAT(refused->detail, Catch::Contains("being captured into a CUDA graph"));
  }

  CHECK(gpu.work() == call_list(8, "cudaStreamIsCapturing stream=1"));
  CHECK(gpu.cuda.end_capture(callers));
  CHECK_NOTHROW(gpu->mark(queue, {}));
  gpu->destroy_stream(queue);
}

TEST_CASE("a capture of the caller's outlasts what the device does on its own streams meanwhile") {
  fake_gpu gpu;
  auto* const callers = gpu.cuda.make_stream();
  gpu.cuda.begin_capture(callers);

  {
    block_loop loop(*gpu);
    stream compute(*gpu, "compute");
    recording_observer observer;
    gpu->attach(observer);
    loop.run(*gpu, compute.id());
    static_cast<void>(loop.ready.ready());
    loop.used.synchronize(contract_edge);
    compute.synchronize(contract_edge);
    gpu->detach(observer);
    const read_only_pages pages(1);
    gpu->register_pages(pages.bytes());
    gpu->unregister_pages(pages.bytes());
  }

  CHECK(gpu.cuda.end_capture(callers));
}

// Failure

TEST_CASE("a failed call is told with its name, CUDA's name and text for it, and the device") {
  fake_gpu gpu;
  stream queue(*gpu, "queue");
  event made(*gpu);
  gpu.cuda.fail("cudaEventRecord", cudaErrorNotPermitted);

  const auto refused = failure_of([&] { queue.record(made); });

  REQUIRE(refused);
  CHECK(refused->code == errc::unsupported);
  CHECK(refused->vendor_code == cudaErrorNotPermitted);
  CHECK(refused->detail == "cudaEventRecord: cudaErrorNotPermitted: as the test wants it (cuda:0)");
}

TEST_CASE("what CUDA answers is told as what the caller can do about it") {
  const fake_gpu gpu;
  const auto [status, code] = GENERATE(table<cudaError_t, errc>({
      {cudaErrorMemoryAllocation, errc::out_of_device_memory},
      {cudaErrorInvalidValue, errc::invalid_argument},
      {cudaErrorInvalidDevice, errc::invalid_argument},
      {cudaErrorHostMemoryAlreadyRegistered, errc::invalid_argument},
      {cudaErrorHostMemoryNotRegistered, errc::invalid_argument},
      {cudaErrorInvalidResourceHandle, errc::stale_handle},
      {cudaErrorNotSupported, errc::unsupported},
      {cudaErrorNotPermitted, errc::unsupported},
      {cudaErrorStreamCaptureUnsupported, errc::unsupported},
      {cudaErrorStreamCaptureInvalidated, errc::unsupported},
      {cudaErrorStreamCaptureMerge, errc::unsupported},
      {cudaErrorStreamCaptureUnmatched, errc::unsupported},
      {cudaErrorStreamCaptureUnjoined, errc::unsupported},
      {cudaErrorStreamCaptureIsolation, errc::unsupported},
      {cudaErrorStreamCaptureImplicit, errc::unsupported},
      {cudaErrorCapturedEvent, errc::unsupported},
      {cudaErrorStreamCaptureWrongThread, errc::unsupported},
      {cudaErrorIllegalAddress, errc::device_failure},
      {cudaErrorUnknown, errc::device_failure},
  }));
  CAPTURE(status);

  const auto told = cuda::error_of(gpu.cuda.api(), 0, "cudaMalloc", status).reason();

  CHECK(told.code == code);
  CHECK(told.vendor_code == status);
}

TEST_CASE("a failed call leaves no error pending and the next one succeeds") {
  fake_gpu gpu;
  block_loop loop(*gpu);
  gpu.cuda.fail("cudaMemcpyAsync", cudaErrorInvalidValue);

  CHECK(failure_of([&] { loop.copies.copy(upload(loop.slot, loop.weights)); }).has_value());
  CHECK(gpu.cuda.pending() == cudaSuccess);
  CHECK(gpu->counters().copies == 0);

  CHECK_NOTHROW(loop.copies.copy(upload(loop.slot, loop.weights)));
  loop.copies.synchronize(contract_edge);
}

TEST_CASE("an error after which CUDA wants the process replaced loses the GPU, and no other does") {
  // Not by name: some names are newer than the oldest headers that will do.
  constexpr std::array replaced{226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911};
  constexpr std::array lost_with_the_context{214, 220, 709};
  constexpr std::array goes_on{0,   1,   2,   4,   46,  101, 201, 208, 304, 400, 600, 704, 705,
                               708, 711, 712, 713, 720, 800, 801, 802, 900, 901, 908, 999};

  for (const auto each : replaced)
    CHECK(cuda::is_fatal(static_cast<cudaError_t>(each)));
  for (const auto each : lost_with_the_context)
    CHECK(cuda::is_fatal(static_cast<cudaError_t>(each)));
  for (const auto each : goes_on)
    CHECK_FALSE(cuda::is_fatal(static_cast<cudaError_t>(each)));
}

TEST_CASE("asking whether an event is ready leaves nothing pending") {
  fake_gpu gpu;
  block_loop loop(*gpu);
  loop.copies.copy(upload(loop.slot, loop.weights));
  loop.copies.record(loop.ready);

  CHECK_FALSE(loop.ready.ready());

  CHECK(gpu.cuda.pending() == cudaSuccess);
  loop.copies.synchronize(contract_edge);
  CHECK(loop.ready.ready());
}

TEST_CASE("after an illegal access every later call says so and none reaches CUDA") {
  fake_gpu gpu;
  {
    block_loop loop(*gpu);
    stream compute(*gpu, "compute");
    loop.copies.copy(upload(loop.slot, loop.weights));
    gpu.cuda.poison(cudaErrorIllegalAddress);

    const auto first = failure_of([&] { loop.copies.synchronize(contract_edge); });
    CHECK(first.value().code == errc::device_failure);
    CHECK(first->vendor_code == cudaErrorIllegalAddress);
    gpu.cuda.forget_calls();
    const std::function<void()> attempts[] = {[&] { loop.run(*gpu, compute.id()); },
                                              [&] { loop.copies.record(loop.ready); },
                                              [&] { loop.copies.synchronize(contract_edge); },
                                              [&] { loop.ready.synchronize(contract_edge); },
                                              [&] { static_cast<void>(loop.ready.ready()); },
                                              [&] { memory_block(*gpu, memory_kind::device, 1); },
                                              [&] { memory_block(*gpu, memory_kind::pinned, 1); },
                                              [&] { static_cast<void>(gpu->memory()); },
                                              [&] { stream(*gpu, "late"); },
                                              [&] { event{*gpu}; }};
    for (const auto& attempt : attempts) {
      const auto refused = failure_of(attempt);
      REQUIRE(refused);
      CHECK(refused->code == errc::device_poisoned);
      CHECK_THAT(refused->detail,
                 Catch::Contains("cudaStreamSynchronize: cudaErrorIllegalAddress"));
    }
    CHECK(gpu.cuda.count() == 0);
  }

  // The process is to be replaced; until then its end goes through without a line for every block.
  const auto written = standard_error_of([&] { gpu.close(); });
  CHECK(written.empty());
  gpu.cuda.poison(cudaSuccess);
  gpu.cuda.finish();
  gpu.cuda.clear();
}

// The end

TEST_CASE("what is left on a GPU at its end goes in the order events, streams, pages, memory") {
  fake_gpu gpu;
  const read_only_pages pages(1);
  gpu->register_pages(pages.bytes());
  static_cast<void>(gpu->allocate(memory_kind::device, 100));
  static_cast<void>(gpu->allocate(memory_kind::pinned, 100));
  static_cast<void>(gpu->create_stream("queue"));
  static_cast<void>(gpu->create_event());
  gpu.cuda.forget_calls();

  gpu.close();

  CHECK(gpu.work() == call_list{"cudaEventDestroy event=2", "cudaStreamDestroy stream=1",
                                "cudaHostUnregister", "cudaHostUnregister", "cudaFree block"});
}

TEST_CASE("the streams of a caller are not destroyed") {
  fake_gpu gpu;
  const auto kept = gpu->adopt_stream(gpu.cuda.make_stream(), "kept");
  static_cast<void>(gpu->adopt_stream(gpu.cuda.make_stream(), "left"));
  static_cast<void>(gpu->adopt_stream(nullptr, "default"));
  CHECK(gpu->counters().streams == 3);

  gpu->destroy_stream(kept);
  gpu.close();

  CHECK(gpu.cuda.count("cudaStreamDestroy") == 0);
}

TEST_CASE("a driver that is shutting down has cleaned up, and nobody is told of a failure") {
  fake_gpu gpu;
  const auto weights = memory_block(*gpu, memory_kind::device, 100);
  auto queue = std::make_unique<stream>(*gpu, "queue");
  auto made = std::make_unique<event>(*gpu);
  auto staging = memory_block(*gpu, memory_kind::pinned, 100);
  gpu.cuda.shut_down();

  const auto written = standard_error_of([&] {
    made.reset();
    queue.reset();
    staging = memory_block();
  });

  CHECK(written.empty());
  gpu.cuda.clear();
}

TEST_CASE("a child that was forked cannot use the GPU, is told why, and destroys nothing") {
  fake_gpu gpu;
  auto owner = cuda::open_gpu(gpu.cuda.api(), {}, {}).value();
  const auto queue = owner->create_stream("queue");
  const auto weights = owner->allocate(memory_kind::device, 100);
  const auto parent = std::to_string(::getpid());
  gpu.cuda.forget_calls();

  const auto child = ::fork();
  if (child == 0) {
    const auto refused = failure_of([&] { owner->mark(queue, {}); });
    const auto told = refused && refused->code == errc::device_poisoned &&
                      refused->detail.find("process " + parent) != std::string::npos &&
                      refused->detail.find("forked") != std::string::npos;
    owner->release(memory_kind::device, weights);
    owner->destroy_stream(queue);
    owner.reset();
    ::_exit(told && gpu.cuda.count() == 0 ? 0 : 1);
  }
  auto status = -1;
  ::waitpid(child, &status, 0);

  CHECK(status == 0);
  CHECK_NOTHROW(owner->mark(queue, {}));
  owner->release(memory_kind::device, weights);
  owner->destroy_stream(queue);
}

// Copies

TEST_CASE("copies from memory that is not pinned are told as those that may hold up their caller") {
  const auto kind = GENERATE(memory_kind::pageable, memory_kind::mapped);
  fake_gpu gpu;
  const auto slot = on_device(*gpu);
  const auto weights = pinned(*gpu, 1);
  const std::vector<std::byte> pageable(contract_block);
  stream queue(*gpu, "queue");

  queue.copy(upload(slot, weights));
  CHECK(gpu->counters().blocking_copies == 0);
  queue.copy({.target = slot.bytes(), .source = pageable, .from = kind, .tag = {}});

  CHECK(gpu->counters().blocking_copies == 1);
  queue.synchronize(contract_edge);
}

TEST_CASE("a copy from memory that only claims to be pinned or registered is refused") {
  const auto kind = GENERATE(memory_kind::pinned, memory_kind::registered);
  fake_gpu gpu;
  const auto slot = on_device(*gpu);
  const std::vector<std::byte> pageable(contract_block);
  stream queue(*gpu, "queue");
  gpu.cuda.forget_calls();

  const auto refused = failure_of(
      [&] { queue.copy({.target = slot.bytes(), .source = pageable, .from = kind, .tag = {}}); });

  CHECK(refused.value().code == errc::invalid_argument);
  CHECK(gpu.cuda.count("cudaMemcpyAsync") == 0);
}

TEST_CASE("registered pages are only read by a GPU") {
  fake_gpu gpu;
  const read_only_pages pages(1);
  const auto slot = on_device(*gpu);
  stream queue(*gpu, "queue");
  gpu->register_pages(pages.bytes());
  const auto target = mutable_bytes(const_cast<std::byte*>(pages.bytes().data()), contract_block);

  const auto refused = failure_of([&] {
    queue.copy({.target = target,
                .source = slot.bytes(),
                .to = memory_kind::registered,
                .from = memory_kind::device,
                .tag = {}});
  });

  CHECK(refused.value().code == errc::invalid_argument);
  gpu->unregister_pages(pages.bytes());
}

TEST_CASE("a collective is enqueued on the native stream with its GPU current, as one operation") {
  fake_gpu gpu({.devices = 2});
  auto& second = gpu.open(1);
  stream queue(second, "comm");
  recording_observer observer;
  second.attach(observer);
  void* given = nullptr;
  auto current = -1;

  second.gather(queue.id(), {.what = "gather"}, 4096, [&](void* native) {
    given = native;
    current = fake_cuda::current_device();
  });
  CHECK_THROWS_AS(
      second.gather(queue.id(), {}, 1, [](void*) { throw std::runtime_error("no communicator"); }),
      std::runtime_error);
  queue.synchronize(contract_edge);
  second.detach(observer);

  CHECK(given == second.native_stream(queue.id()));
  CHECK(current == 1);
  const auto told = observer.spans();
  REQUIRE(told.size() == 1);
  CHECK(told[0].kind == operation_kind::gather);
  CHECK(told[0].bytes == 4096);
}

} // namespace
} // namespace ferry::test
