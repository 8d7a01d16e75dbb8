// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/open_device.hpp>
#include <ferry/platform/stream.hpp>

#include "contract/device_rig.hpp"
#include "cuda/runtime_api.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/read_only_pages.hpp"

#include <array>
#include <mutex>
#include <thread>

namespace ferry::test {
namespace {

/// Returns the error that is pending on this thread in the runtime that the device uses.
cudaError_t pending_error() {
  return cuda::load_runtime().value().cudaGetLastError();
}

TEST_CASE("without a name the first GPU is opened") {
  const auto opened = open_device("", {});

  REQUIRE(opened);
  CHECK((*opened)->traits().name == "cuda:0");
}

TEST_CASE("a GPU that there is not is refused with those that there are") {
  const auto opened = open_device("cuda:4096", {});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::invalid_argument);
  CHECK_THAT(opened.error().detail, Catch::Contains("there is no cuda:4096, expected 0 to "));
}

TEST_CASE("more memory than a GPU has is refused and the next allocation succeeds") {
  const auto gpu = open_gpu();
  const auto total = gpu->memory().total;

  CHECK_THROWS_AS(memory_block(*gpu, memory_kind::device, total + 1), device_error);

  CHECK_NOTHROW(memory_block(*gpu, memory_kind::device, contract_block));
}

TEST_CASE("a GPU reads pages of a file over and over and no error is ever pending") {
  const auto gpu = open_gpu();
  if (!gpu->traits().registers_pages)
    return skip("this GPU has no read-only registration");
  const read_only_pages pages(4, 9);
  const auto slot = on_device(*gpu);
  const auto seen = pinned(*gpu, 0);
  stream queue(*gpu, "queue");

  for (int i = 0; i < 20; ++i) {
    gpu->register_pages(pages.bytes());
    queue.copy({.target = slot.bytes(),
                .source = pages.bytes().first(contract_block),
                .from = memory_kind::registered,
                .tag = {.what = "upload"}});
    queue.copy(download(seen, slot));
    queue.synchronize(contract_edge);
    gpu->unregister_pages(pages.bytes());
  }

  CHECK(holds(*gpu, seen, 9));
}

TEST_CASE("pages that CUDA does not register leave no error pending, and the GPU goes on") {
  const auto gpu = open_gpu();
  const auto other = open_gpu(); // Each knows only of its own pages.
  if (!gpu->traits().registers_pages)
    return skip("this GPU has no read-only registration");
  const read_only_pages pages(4, 9);
  const auto slot = on_device(*gpu);
  const auto seen = pinned(*gpu, 0);
  stream queue(*gpu, "queue");
  other->register_pages(pages.bytes());

  CHECK_THROWS_WITH(gpu->register_pages(pages.bytes()),
                    Catch::Contains("cudaErrorHostMemoryAlreadyRegistered"));

  CHECK(pending_error() == cudaSuccess);
  CHECK_FALSE(gpu->pages_registered(pages.bytes()));
  queue.copy({.target = slot.bytes(),
              .source = pages.bytes().first(contract_block),
              .from = memory_kind::pageable,
              .tag = {.what = "upload"}});
  queue.copy(download(seen, slot));
  queue.synchronize(contract_edge);
  CHECK(holds(*gpu, seen, 9));
  other->unregister_pages(pages.bytes());
  gpu->register_pages(pages.bytes());
  CHECK(gpu->pages_registered(pages.bytes()));
  gpu->unregister_pages(pages.bytes());
}

TEST_CASE("what has no bytes is refused or done on a GPU, and leaves no error pending") {
  const auto gpu = open_gpu();
  stream queue(*gpu, "queue");

  queue.copy({.target = {}, .source = {}, .tag = {}});
  queue.copy({.target = {}, .source = {}, .from = memory_kind::pageable, .tag = {}});
  const memory_block none(*gpu, memory_kind::pinned, 0);
  CHECK_THROWS_AS(gpu->allocate(memory_kind::pinned, 0), device_error);
  CHECK_THROWS_AS(gpu->allocate(memory_kind::device, 0), device_error);
  CHECK_THROWS_AS(gpu->register_pages({}), device_error);
  queue.synchronize(contract_edge);

  CHECK(pending_error() == cudaSuccess);
  CHECK(gpu->counters().copies == 2);
}

TEST_CASE("the spans of a copy lie within the time that the host saw it take") {
  const auto gpu = open_gpu();
  constexpr auto bytes = std::size_t{256} << 20;
  const memory_block slot(*gpu, memory_kind::device, bytes);
  const memory_block weights(*gpu, memory_kind::pinned, bytes);
  recording_observer observer;
  gpu->attach(observer);
  stream queue(*gpu, "queue");

  const auto before = gpu->now();
  queue.copy(upload(slot, weights));
  queue.synchronize(contract_edge);
  const auto after = gpu->now();
  gpu->detach(observer);

  const auto told = observer.spans();
  REQUIRE(told.size() == 1);
  CHECK(told[0].start >= before);
  CHECK(told[0].end > told[0].start);
  CHECK(told[0].end - told[0].start <= after - before);
}

TEST_CASE("threads that serve two GPUs in turns copy to the right one each time") {
  if (skipped_without(2))
    return;
  const std::array gpus{open_gpu(0), open_gpu(1)};
  const std::array actors{std::make_unique<host_thread>(*gpus[0], "first"),
                          std::make_unique<host_thread>(*gpus[1], "second")};
  const std::array slots{on_device(*gpus[0]), on_device(*gpus[1])};
  const std::array weights{pinned(*gpus[0], 1), pinned(*gpus[1], 2)};
  const std::array seen{pinned(*gpus[0], 0), pinned(*gpus[1], 0)};
  const std::array queues{std::make_unique<stream>(*gpus[0], "first"),
                          std::make_unique<stream>(*gpus[1], "second")};
  std::mutex turn;
  const auto work = [&](std::size_t offset) {
    for (std::size_t i = 0; i < 100; ++i) {
      const auto lock = std::scoped_lock(turn);
      const auto which = (i + offset) % 2;
      const auto acting = host_thread::scope(*actors[which]);
      queues[which]->copy(upload(slots[which], weights[which]));
      queues[which]->copy(download(seen[which], slots[which]));
    }
  };

  auto other = std::thread([&] { work(1); });
  work(0);
  other.join();
  queues[0]->synchronize(contract_edge);
  queues[1]->synchronize(contract_edge);

  CHECK(holds(*gpus[0], seen[0], 1));
  CHECK(holds(*gpus[1], seen[1], 2));
}

} // namespace
} // namespace ferry::test
